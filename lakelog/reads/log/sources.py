"""Which snapshots' changes come from the table's log, and which from its files (semantics 4). Pure.

Both show the same, so a reader can use either, and can switch between them from one snapshot to the next.
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
"""The reason when a log does not hold (any more) what should be read from it."""

_CLOCKS_MS: Final = 300_000
"""How far the clocks of brokers, of the metastore's database and of readers may differ."""


class ChangeSource(enum.Enum):
    """How a reader gets a snapshot's changes."""

    NOTHING = "nothing"
    """The snapshot shows no changes."""
    FILES = "files"
    AS_LOGGED = "as logged"
    """The records are shown as they are."""
    NORMALIZED = "normalized"
    """From the records and the rows before them, without updates that change nothing."""
    LOOKED_UP = "looked up"
    """From both, with the rules of the table's changelog."""


@dataclass(frozen=True)
class ChangeSources:
    """The change sources of one table with a log.

    Args:
        schema: The schema to read with.
        is_upsert: Whether the log leaves out values that were replaced.
        is_lookup: The changelog producer is `lookup`.
    """

    schema: TableSchema
    is_upsert: bool
    is_lookup: bool

    @staticmethod
    def of(table: TableInfo) -> ChangeSources:
        """The sources of a table in its current state."""
        is_lookup = TableOptions(table.options).get(CHANGELOG_PRODUCER) == "lookup"
        return ChangeSources(table.schema, load_log_settings(table).is_upsert, is_lookup)

    def find(self, snapshot: Snapshot) -> ChangeSource:
        """Returns the source of a snapshot's changes."""
        content, changelog = snapshot.log, snapshot.changelog
        if snapshot.kind is SnapshotKind.COMPACT and changelog is not ChangelogState.ATTACHED:
            return ChangeSource.NOTHING
        if content is LogContent.NONE or snapshot.is_changelog_deferred or snapshot.schema_id != self.schema.schema_id:
            return ChangeSource.FILES
        if not self.schema.primary_key:
            return ChangeSource.AS_LOGGED
        if snapshot.added_rows > EMITTED_ROWS:
            # All of a snapshot is in memory here; with files only some key ranges are.
            return ChangeSource.FILES
        if content is LogContent.CHANGELOG:
            if not self.is_upsert:
                return ChangeSource.AS_LOGGED
            return ChangeSource.LOOKED_UP if self.is_lookup else ChangeSource.FILES
        return ChangeSource.NORMALIZED if changelog is ChangelogState.NONE else ChangeSource.LOOKED_UP

    def check_age(self, snapshot: Snapshot, now_ms: int) -> None:
        """Checks that no record of a snapshot can have been compacted away; call it after all existing ones are read.

        When a key changes again, Kafka may delete its older records without a trace. The old row of the next change
        would then be a row that readers have never seen.

        Raises:
            SnapshotExpired: A record may be missing; reason `LOG_TOO_SHORT`.
        """
        if self.is_upsert and now_ms - snapshot.committed_at_ms > UNCOMPACTED_MS - _CLOCKS_MS:
            raise SnapshotExpired(
                f"The log keeps all records of a key for {UNCOMPACTED_MS // 60_000} minutes, and snapshot"
                f" {snapshot.snapshot_id} is as old: some of its records may have been compacted away.",
                reason=LOG_TOO_SHORT,
            )


def can_do_without_log(error: LakelogError, *, requires_log: bool) -> bool:
    """Whether a stream can go on without a log that failed with this error. Pure.

    Args:
        error: What happened.
        requires_log: Whether the user requested the log.
    """
    if isinstance(error, SnapshotExpired):
        return error.reason == LOG_TOO_SHORT
    if isinstance(error, NotFound):
        return error.reason != "TABLE_NOT_FOUND"
    if isinstance(error, PermissionDenied | InvalidArgument):
        # A reader may lack credentials for the brokers, or a client for them, but can read all files.
        return not requires_log
    return isinstance(error, Unavailable)
