"""Which snapshots' changes come out of the table's log, and which out of its files (semantics 4). Pure.

Both show the same, so that whoever reads may take either, and go from one to the other between snapshots.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied, SnapshotExpired, Unavailable
from lakelog.format.schema import TableSchema
from lakelog.format.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.format.table import TableInfo
from lakelog.log.table_codec import load_log_settings
from lakelog.log.topic_rules import UNCOMPACTED_MS
from lakelog.options.table_options import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions
from lakelog.reads.changes import TOLD_ROWS

LOG_TOO_SHORT: Final = "LOG_TOO_SHORT"
"""Why a log that does not hold what is to be read of it (any more) cannot be used."""

_CLOCKS_MS: Final = 300_000
"""By so much the clocks of brokers, of the metastore's database and of readers may differ."""


class LogWay(enum.Enum):
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
class LogWays:
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
    def of(table: TableInfo) -> LogWays:
        """Those of a table as it is."""
        is_lookup = TableOptions(table.options).get(CHANGELOG_PRODUCER) == "lookup"
        return LogWays(table.schema, load_log_settings(table).is_upsert, is_lookup)

    def find(self, snapshot: Snapshot) -> LogWay:
        """How the changes of a snapshot are known."""
        content, changelog = snapshot.log, snapshot.changelog
        if snapshot.kind is SnapshotKind.COMPACT and changelog is not ChangelogState.ATTACHED:
            return LogWay.NOTHING
        if content is LogContent.NONE or snapshot.is_told_late or snapshot.schema_id != self.schema.schema_id:
            return LogWay.FILES
        if not self.schema.primary_key:
            return LogWay.AS_LOGGED
        if snapshot.added_rows > TOLD_ROWS:
            # All of a snapshot is in memory here; of files some ranges of keys are.
            return LogWay.FILES
        if content is LogContent.CHANGELOG:
            if not self.is_upsert:
                return LogWay.AS_LOGGED
            return LogWay.LOOKED_UP if self.is_lookup else LogWay.FILES
        return LogWay.NORMALIZED if changelog is ChangelogState.NONE else LogWay.LOOKED_UP

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


def can_do_without_log(error: LakelogError, *, insists: bool) -> bool:
    """Whether a stream goes on without a log that failed so. Pure.

    Args:
        error: What happened.
        insists: The log was asked for.
    """
    if isinstance(error, SnapshotExpired):
        return error.reason == LOG_TOO_SHORT
    if isinstance(error, NotFound):
        return error.reason != "TABLE_NOT_FOUND"
    if isinstance(error, PermissionDenied | InvalidArgument):
        # Who reads may have no credentials of the brokers, or no client for them, but all files.
        return not insists
    return isinstance(error, Unavailable)
