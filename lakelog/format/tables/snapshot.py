"""Snapshots: the numbered, immutable states of a table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class SnapshotKind(enum.Enum):
    """What a snapshot did."""

    APPEND = "APPEND"
    """Added rows of any row kind and removed no file."""
    OVERWRITE = "OVERWRITE"
    """Took files away and may have added others."""
    COMPACT = "COMPACT"
    """Rewrote files without changing what a read returns."""


class ChangelogState(enum.Enum):
    """Whether a snapshot tells its changes in files of their own (semantics 3)."""

    NONE = "none"
    """Nobody made a changelog; a reader finds the changes from the data files."""
    PENDING = "pending"
    """A compactor is to make its changelog; until then streams show neither it nor what comes behind it."""
    ATTACHED = "attached"
    """Its changelog files tell all of its changes; where it has none, nothing has changed. Of a COMPACT: they tell what
    has changed in its buckets since they were compacted as a whole the time before (3.6)."""
    LATER = "later"
    """The changelog producer was `full-compaction`: what it changed is told with the next full compaction."""


class LogContent(enum.Enum):
    """Which files hold the rows that a snapshot brings to the table's external log (semantics 4)."""

    NONE = "none"
    """The table had no log, or the snapshot brings nothing to it, as compactions and overwrites do."""
    DATA = "data"
    """Its data files: of append tables these are the rows as they came in."""
    CHANGELOG = "changelog"
    """Its changelog files: of the producer `input`, or with `log.content` = `changelog`."""
    SEGMENTS = "segments"
    """Its log segments: files that hold the rows as they came in, written for the log alone."""


@dataclass(frozen=True)
class Snapshot:
    """One committed change of one table. Times are in milliseconds since the epoch by the database's clock.

    `total_*` count what is live at the snapshot, rows that merging hides included; `added_*` and `removed_files` what
    the snapshot itself brought and took; a file that only gets another level is among both. Changelog files are in none
    of these counts.
    """

    snapshot_id: int
    snapshot_uuid: str
    parent_uuid: str
    kind: SnapshotKind
    schema_id: int
    committed_at_ms: int
    watermark_ms: int | None
    total_rows: int
    total_files: int
    total_bytes: int
    added_rows: int
    added_files: int
    removed_files: int
    writer: str
    identifier: int
    properties: Mapping[str, str] = field(default_factory=dict)
    changelog: ChangelogState = ChangelogState.NONE
    log: LogContent = LogContent.NONE
    co_committed: Mapping[str, int] = field(default_factory=dict)
    """What the same commit made of other tables: their snapshots' ids by table uuid."""
    attempt_id: str = ""
    """Of a table with an external log: the attempt that made it, by which records are known that were sent early."""
    sent_offsets: Mapping[int, int] | None = None
    """All that it brings to the log was sent before it was committed: by partition the offset behind the last record;
    None: it was not."""

    @property
    def is_changelog_deferred(self) -> bool:
        """Whether it was committed under the changelog producer `full-compaction`.

        What streams have shown up to it is then no state of the table, but what full compactions have told.
        """
        return self.changelog is ChangelogState.LATER or (
            self.kind is SnapshotKind.COMPACT and self.changelog is ChangelogState.ATTACHED
        )
