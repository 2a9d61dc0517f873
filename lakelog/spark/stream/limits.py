"""The size of one batch of a stream. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.reads.change_plan import has_changes
from lakelog.spark.stream.offsets import StreamOffset


@dataclass(frozen=True)
class ReadSize:
    """How much there is to read.

    Args:
        files: Data files, or changelog files if these are read.
        size_bytes: Their size.
        rows: The rows in them, before filtering.
    """

    files: int = 0
    size_bytes: int = 0
    rows: int = 0

    def plus(self, other: ReadSize) -> ReadSize:
        """The sum of both."""
        return ReadSize(self.files + other.files, self.size_bytes + other.size_bytes, self.rows + other.rows)


@dataclass(frozen=True)
class TriggerLimits:
    """The limits of one batch, which has at least one snapshot, or one chunk of the first rows; None: no limit.

    Args:
        files: The number of files to read.
        size_bytes: Their size.
        rows: The rows in them, before filtering.
    """

    files: int | None = None
    size_bytes: int | None = None
    rows: int | None = None

    @property
    def are_none(self) -> bool:
        """Whether a batch takes all that there is."""
        return self.files is None and self.size_bytes is None and self.rows is None

    def admit(self, size: ReadSize) -> bool:
        """Whether a size is within the limits."""
        pairs = ((size.files, self.files), (size.size_bytes, self.size_bytes), (size.rows, self.rows))
        return all(last is None or value <= last for value, last in pairs)


def pick_last(
    snapshots: Iterable[Snapshot],
    offset: StreamOffset,
    limits: TriggerLimits,
    *,
    shows_overwrites: bool,
    measure_changelog: Callable[[int], ReadSize] | None,
) -> Snapshot | None:
    """Picks the last snapshot of the batch that begins after an offset.

    Args:
        snapshots: In rising order, from that of the offset on if it is retained; read no further than needed.
        offset: Where the batch begins.
        limits: The limits of the batch.
        shows_overwrites: Whether what overwrites changed is shown.
        measure_changelog: Returns the size of a snapshot's changelog files, by its id; None: data files are read even
            if there is a changelog.

    Returns:
        None: there is no snapshot after the offset.
    """
    last: Snapshot | None = None
    size = ReadSize()
    before_bytes = 0 if offset.snapshot_id == 0 else None
    shown = 0
    for each in snapshots:
        if each.snapshot_id > offset.snapshot_id:
            # If rows are shown as they were written, changelogs are not measured.
            is_shown = measure_changelog is None or has_changes(each)
            if each.kind is SnapshotKind.COMPACT:
                is_shown &= measure_changelog is not None
            elif each.kind is SnapshotKind.OVERWRITE:
                is_shown &= shows_overwrites
            if is_shown and not offset.passes_over(each):
                if measure_changelog is not None and each.changelog is ChangelogState.ATTACHED:
                    size = size.plus(measure_changelog(each.snapshot_id))
                else:
                    size = size.plus(_measure_data(each, before_bytes))
                shown += 1
                if shown > 1 and not limits.admit(size):
                    break
            last = each
        before_bytes = each.total_bytes
    return last


def _measure_data(snapshot: Snapshot, before_bytes: int | None) -> ReadSize:
    """The size of the data files that a snapshot added.

    Args:
        snapshot: It knows the size of all live files; if it only added files, its own size is the difference.
        before_bytes: The size of the live files before it; None: not known.
    """
    known = snapshot.kind is SnapshotKind.APPEND and before_bytes is not None
    # Else the size of all its live files, which is never too little.
    size_bytes = snapshot.total_bytes - (before_bytes or 0) if known else snapshot.total_bytes
    return ReadSize(snapshot.added_files, size_bytes, snapshot.added_rows)
