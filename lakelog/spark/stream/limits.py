"""How much one batch of a stream takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.format.snapshot import Snapshot, SnapshotKind
from lakelog.spark.stream.offsets import StreamOffset


@dataclass(frozen=True)
class TriggerLimits:
    """At most so much a batch, but at least one snapshot; None: any.

    Args:
        files: Data files.
        size_bytes: Their size.
        rows: That were written, before they are filtered.
    """

    files: int | None = None
    size_bytes: int | None = None
    rows: int | None = None

    @property
    def are_none(self) -> bool:
        """Whether a batch takes all that there is."""
        return self.files is None and self.size_bytes is None and self.rows is None

    def admit(self, files: int, size_bytes: int, rows: int) -> bool:
        """Whether so much is within the limits."""
        pairs = ((files, self.files), (size_bytes, self.size_bytes), (rows, self.rows))
        return all(last is None or value <= last for value, last in pairs)


def pick_last(
    snapshots: Iterable[Snapshot], offset: StreamOffset, limits: TriggerLimits, *, shows_overwrites: bool
) -> Snapshot | None:
    """Picks the last snapshot of the batch that begins behind an offset.

    Args:
        snapshots: In rising order from that of the offset on, where it is still kept; looked at no longer than needed.
        offset: Where the batch begins.
        limits: How much it takes.
        shows_overwrites: Whether what overwrites changed is shown.

    Returns:
        None: there is no snapshot behind the offset.
    """
    last: Snapshot | None = None
    files = size_bytes = rows = 0
    # Snapshots know the size of all live files: what one that only added brought is the difference.
    before_bytes = 0 if offset.snapshot_id == 0 else None
    shown = 0
    for each in snapshots:
        if each.snapshot_id > offset.snapshot_id:
            is_shown = each.kind is SnapshotKind.APPEND or (each.kind is SnapshotKind.OVERWRITE and shows_overwrites)
            if is_shown and not offset.passes_over(each):
                known = each.kind is SnapshotKind.APPEND and before_bytes is not None
                files += each.added_files
                rows += each.added_rows
                # Else all that is live at it, which is never too little.
                size_bytes += each.total_bytes - (before_bytes or 0) if known else each.total_bytes
                shown += 1
                if shown > 1 and not limits.admit(files, size_bytes, rows):
                    break
            last = each
        before_bytes = each.total_bytes
    return last
