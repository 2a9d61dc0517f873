"""Which snapshots' changes come out of the table's log, and which out of its files (semantics 4). Pure.

Both show the same, so that whoever reads may take either, and go from one to the other between snapshots.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied, SnapshotExpired, Unavailable
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.log.table_codec import load_log_settings
from lakelog.log.topic_rules import UNCOMPACTED_MS
from lakelog.options.declared.tables import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions
from lakelog.reads.changes import EMITTED_ROWS

LOG_TOO_SHORT: Final = "LOG_TOO_SHORT"
"""Why a log that does not hold what is to be read of it (any more) cannot be used."""

_CLOCKS_MS: Final = 300_000
"""By so much the clocks of brokers, of the metastore's database and of readers may differ."""


class ChangeSource(enum.Enum):
    """How a snapshot's changes are known."""

    NOTHING = "nothing"
    """It shows none."""
    FILES = "files"
    AS_LOGGED = "as logged"
    """The records are what is shown."""
    NORMALIZED = "normalized"
    """Of the records and the rows that were there before, without updates that change nothing."""
    LOOKED_UP = "looked up"
    """Of both, as the table's changelog has it."""


@dataclass(frozen=True)
class ChangeSources:
    """The ways of one table with a log.

    Args:
        schema: What is read with.
        is_upsert: Values that were replaced are not in the log.
        is_lookup: The changelog producer is `lookup`.
    """

    schema: TableSchema
    is_upsert: bool
    is_lookup: bool

    @staticmethod
    def of(table: TableInfo) -> ChangeSources:
        """Those of a table as it is."""
        is_lookup = TableOptions(table.options).get(CHANGELOG_PRODUCER) == "lookup"
        return ChangeSources(table.schema, load_log_settings(table).is_upsert, is_lookup)

    def find(self, snapshot: Snapshot) -> ChangeSource:
        """How the changes of a snapshot are known."""
        content, changelog = snapshot.log, snapshot.changelog
        if snapshot.kind is SnapshotKind.COMPACT and changelog is not ChangelogState.ATTACHED:
            return ChangeSource.NOTHING
        if content is LogContent.NONE or snapshot.is_changelog_deferred or snapshot.schema_id != self.schema.schema_id:
            return ChangeSource.FILES
        if not self.schema.primary_key:
            return ChangeSource.AS_LOGGED
        if snapshot.added_rows > EMITTED_ROWS:
            # All of a snapshot is in memory here; of files some ranges of keys are.
            return ChangeSource.FILES
        if content is LogContent.CHANGELOG:
            if not self.is_upsert:
                return ChangeSource.AS_LOGGED
            return ChangeSource.LOOKED_UP if self.is_lookup else ChangeSource.FILES
        return ChangeSource.NORMALIZED if changelog is ChangelogState.NONE else ChangeSource.LOOKED_UP

    def check_age(self, snapshot: Snapshot, now_ms: int) -> None:
        """Checks that no record of a snapshot can have been compacted away; once all that there are have been read.

        Of a key that changes again Kafka forgets records that are old enough, which leaves no trace: the old row of its
        next change would be one that nobody was told of.

        Args:
            snapshot: The oldest one that is read.
            now_ms: The time now.

        Raises:
            SnapshotExpired: One may have been; reason `LOG_TOO_SHORT`.
        """
        if self.is_upsert and now_ms - snapshot.committed_at_ms > UNCOMPACTED_MS - _CLOCKS_MS:
            raise SnapshotExpired(
                f"The log keeps all records of a key for {UNCOMPACTED_MS // 60_000} minutes, and snapshot"
                f" {snapshot.snapshot_id} is as old: some of its records may have been compacted away.",
                reason=LOG_TOO_SHORT,
            )


def can_do_without_log(error: LakelogError, *, requires_log: bool) -> bool:
    """Whether a stream goes on without a log that failed so. Pure.

    Args:
        error: What happened.
        requires_log: The log was asked for.
    """
    if isinstance(error, SnapshotExpired):
        return error.reason == LOG_TOO_SHORT
    if isinstance(error, NotFound):
        return error.reason != "TABLE_NOT_FOUND"
    if isinstance(error, PermissionDenied | InvalidArgument):
        # Who reads may have no credentials of the brokers, or no client for them, but all files.
        return not requires_log
    return isinstance(error, Unavailable)
