"""Append tables with buckets: only adjacent files are compacted, so that the order survives (semantics 6.3).

Rows of a bucket are read in the order in which they were committed: by their files' places, and among files of one
place, which a compaction has written, by their ids. The output takes the latest of the inputs' places, so nothing moves
over another file, and files that are committed meanwhile come after it.

`plan_window` goes through the files from the oldest on with a window of adjacent files. When the window has enough
files, it is a plan; when it is as large as a file, its oldest member is released. Released files never need to be
checked again, so a plan needs only the files after the place where the last one stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.commit.facts import OrderKey
from lakelog.format.compaction.plan import AppendPlan, NoPlan
from lakelog.format.compaction.settings import CompactionSettings

MIN_FULL_FILES: Final = 3
"""With fewer files a compaction as a whole would save less than it costs."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WaitingWindow:
    """The end of a bucket, where not enough small files are adjacent yet.

    Args:
        file_ids: The waiting files, in their order; may be empty.
        after: The place of the last released file: later plans need only files after it, and those of this very place
            whose ids are in `file_ids`. None: none was released.
        reason: Why nothing is due, in a sentence for people.
    """

    file_ids: tuple[int, ...]
    after: tuple[int, int] | None
    reason: str


def plan_window(files: pa.Table, settings: CompactionSettings) -> AppendPlan | WaitingWindow:
    """Plans the oldest window of adjacent files that is due in a bucket of an append table. Pure.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`, in any order: the live files of one bucket, all of
            them or those after some place.
        settings: The table's settings.

    Returns:
        A plan for `compaction.min.file-num` adjacent files, or a few more if a compaction has given several files one
        place; or the waiting files. A window is only planned if it leaves fewer files.
    """
    bucket = _to_neighbours(files)
    start, size_bytes = 0, 0
    for end, size in enumerate(bucket.sizes_bytes.tolist(), 1):
        size_bytes += size
        if end - start >= settings.min_file_count:
            last = bucket.find_end(end)
            total = int(bucket.sizes_bytes[start:last].sum())
            if -(-total // settings.target_file_size_bytes) < last - start:
                why = f"{last - start} neighbours have {total} bytes together; {settings.min_file_count} are enough."
                return bucket.to_plan(start, last, why)
        if end - start >= settings.min_file_count or size_bytes >= settings.target_file_size_bytes:
            size_bytes -= int(bucket.sizes_bytes[start])
            start += 1
    count = len(bucket.file_ids) - start
    return WaitingWindow(
        tuple(bucket.file_ids[start:].tolist()),
        bucket.order_of_key(start - 1) if start else None,
        f"{count} small file{'' if count == 1 else 's'} at the end of the bucket wait for others; "
        f"{settings.min_file_count} are enough.",
    )


def plan_whole_bucket(files: pa.Table, settings: CompactionSettings) -> AppendPlan | NoPlan:
    """Plans the compaction of a bucket of an append table as a whole: everything after its first large files. Pure.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`, in any order: all live files of one bucket.
        settings: The table's settings.

    Returns:
        None if fewer than `MIN_FULL_FILES` are left, or no more small ones than large ones, or if as many files would
        be written.
    """
    bucket = _to_neighbours(files)
    is_small = bucket.sizes_bytes < settings.small_file_bytes
    start = int(np.argmax(is_small)) if is_small.any() else len(is_small)
    count, small = len(is_small) - start, int(is_small[start:].sum())
    if count < MIN_FULL_FILES:
        return NoPlan(
            f"Behind the bucket's first {start} large files are {count}; {MIN_FULL_FILES} are needed."
            if start
            else f"The bucket has {count} files; {MIN_FULL_FILES} are needed."
        )
    if small <= count - small:
        return NoPlan(f"Of the bucket's last {count} files {small} are small, no more than there are large ones.")
    total = int(bucket.sizes_bytes[start:].sum())
    if -(-total // settings.target_file_size_bytes) >= count:
        return NoPlan(f"The bucket's last {count} files have {total} bytes and would be as many again.")
    return bucket.to_plan(start, len(is_small), f"{small} of the bucket's last {count} files are small.")


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """The files of a bucket in the order in which their rows are read."""

    partition: bytes
    bucket: int
    file_ids: _Numbers
    sizes_bytes: _Numbers
    order_keys: _Numbers

    def order_of_key(self, index: int) -> tuple[int, int]:
        """A file's place without its time."""
        snapshot, ordinal, _ = self.order_keys[index].tolist()
        return snapshot, ordinal

    def find_end(self, end: int) -> int:
        """The first index at or after `end` that does not separate files of one place.

        The output for a part of them would have their place, but a higher id, and so come after all of them.
        """
        while end < len(self.file_ids) and self.order_of_key(end) == self.order_of_key(end - 1):
            end += 1
        return end

    def to_plan(self, start: int, end: int, why: str) -> AppendPlan:
        """The plan to write the files from `start` to before `end` in sequence."""
        return AppendPlan(
            self.partition,
            self.bucket,
            tuple(self.file_ids[start:end].tolist()),
            int(self.sizes_bytes[start:end].sum()),
            OrderKey(*self.order_keys[end - 1].tolist()),
            why,
        )


def _to_neighbours(files: pa.Table) -> _Neighbours:
    ordered = files.sort_by([("order_snapshot", "ascending"), ("order_ordinal", "ascending"), ("file_id", "ascending")])
    names = ("file_id", "size_bytes", "order_snapshot", "order_ordinal", "order_time_ms")
    columns = [ordered[name].to_numpy().astype(np.int64) for name in names]
    return _Neighbours(
        ordered["partition"][0].as_py() if ordered.num_rows else b"",
        ordered["bucket"][0].as_py() if ordered.num_rows else 0,
        columns[0],
        columns[1],
        np.column_stack(columns[2:]),
    )
