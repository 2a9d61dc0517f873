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
    """Removed files and may have added others."""
    COMPACT = "COMPACT"
    """Rewrote files without changing what a read returns."""


class ChangelogState(enum.Enum):
    """Whether a snapshot has changelog files for its changes (semantics 3)."""

    NONE = "none"
    """It has no changelog; a reader finds the changes from the data files."""
    PENDING = "pending"
    """A compactor still has to make its changelog; until then streams show neither it nor later snapshots."""
    ATTACHED = "attached"
    """Its changelog files have all of its changes; without any, nothing has changed. For a COMPACT: they have what has
    changed in its buckets since their previous full compaction (3.6)."""
    LATER = "later"
    """The changelog producer was `full-compaction`: the next full compaction emits its changes."""


class LogContent(enum.Enum):
    """Which files hold the rows that a snapshot brings to the table's external log (semantics 4)."""

    NONE = "none"
    """The table had no log, or the snapshot brings nothing to it, as with compactions and overwrites."""
    DATA = "data"
    """Its data files: in append tables these are the rows as they arrived."""
    CHANGELOG = "changelog"
    """Its changelog files: with the producer `input`, or with `log.content` = `changelog`."""
    SEGMENTS = "segments"
    """Its log segments: files with the rows as they arrived, written for the log alone."""


@dataclass(frozen=True)
class Snapshot:
    """One committed change of one table. Times are in milliseconds since the epoch by the database's clock.

    `total_*` count what is live at the snapshot, including rows that merging hides; `added_*` and `removed_files` count
    what the snapshot itself added and removed; a file that only gets another level is in both. Changelog files are in
    none of these counts.
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
    """The snapshots that the same commit made of other tables: their ids by table uuid."""
    attempt_id: str = ""
    """For a table with an external log: the attempt that made it, which identifies records that were sent early."""
    sent_offsets: Mapping[int, int] | None = None
    """All its rows for the log were sent before the commit: by partition the offset after the last record; None: they
    were not."""

    @property
    def brings_changes(self) -> bool:
        """Whether a reader of changes may get rows because of it: no compaction, or one that emits a changelog."""
        return self.kind is not SnapshotKind.COMPACT or self.changelog is ChangelogState.ATTACHED

    @property
    def is_changelog_deferred(self) -> bool:
        """Whether it was committed under the changelog producer `full-compaction`.

        What streams have shown up to it is then no state of the table, but what full compactions have emitted.
        """
        return self.changelog is ChangelogState.LATER or (
            self.kind is SnapshotKind.COMPACT and self.changelog is ChangelogState.ATTACHED
        )
