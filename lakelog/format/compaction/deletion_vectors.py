"""Whether a bucket is worth marking: finding once which of its rows are superseded, so that reads need not. Pure.

Objectives, which pull against each other: a read of a bucket whose runs share keys reads their key columns and merges
them, each process anew; a mark costs about one such read, a snapshot and a small file, and rewrites nothing; the next
compaction of the bucket makes it void. So it is done where reads gain more than it costs:

1. A bucket below `MIN_BUCKET_BYTES` is merged in some hundredths of a second, and compacted often. It is left alone.
2. What each read saves are the key and sequence columns of all runs that share keys, less `READ_COST_BYTES` for the
   file of positions that it opens instead. That must be at least another `READ_COST_BYTES`, so that a few reads have
   paid for the mark: of 2.4 M rows it takes a fifth of a second, and spares a read of three columns 0.07 CPU s of 0.25.
3. A bucket that is written to is marked in vain: it is due once nothing came for `QUIET_MS`. Busy buckets come to be
   compacted.
4. Where a compaction is due, that comes: it leaves less to be merged than any positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.compaction.due import READ_COST_BYTES, Due, find_priority_of_bytes
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.merge.sections import KeyRange, split_sections

MIN_BUCKET_BYTES: Final = 16 << 20
"""Merging the keys of a smaller bucket takes reads less than opening a few more files does."""

QUIET_MS: Final = 60_000
"""For so long no commit has touched a bucket that is marked."""


@dataclass(frozen=True)
class RunSums:
    """A sorted run of a bucket by sums.

    Args:
        level: Its level.
        size_bytes: Of all its files.
        file_count: How many there are.
        row_count: All rows.
        delete_count: Rows that take away.
        uncovered_count: How many of its files do not say which rows they supersede.
        keys: Within these are all keys.
        order_key: At level 0 the file's place in the order; else (0, 0), since the level alone says it.
    """

    level: int
    size_bytes: int
    file_count: int
    row_count: int
    delete_count: int
    uncovered_count: int
    keys: KeyRange
    order_key: tuple[int, int] = (0, 0)


def plan_deletion_vectors(runs: Sequence[RunSums], bytes_a_row: int, *, has_sequence: bool) -> Due | NoPlan:
    """Whether a bucket is to be marked once it is quiet. Pure.

    It goes by what sums tell: runs share keys as far as their ends do, and whether each file of a section is known is
    only found by whoever lists them.

    Args:
        runs: All of the bucket, the newest first.
        bytes_a_row: What the columns take by which rows are merged.
        has_sequence: The table has a `sequence.field`, so that deletes beat late rows for a while only: what is merged
            with deletes is not marked.
    """
    size_bytes = sum(run.size_bytes for run in runs)
    if size_bytes < MIN_BUCKET_BYTES:
        return NoPlan(f"The bucket has {size_bytes} bytes; below {MIN_BUCKET_BYTES} reads gain too little.")
    merged_bytes = 0
    for section in split_sections([run.keys for run in runs]):
        # Runs come newest first: the last one is the oldest, and has nothing below it.
        members = [runs[place] for place in section]
        if not any(run.uncovered_count for run in members[:-1]):
            continue
        if has_sequence and any(run.delete_count for run in members):
            continue
        merged_bytes += sum(run.row_count for run in members) * bytes_a_row
    if not merged_bytes:
        return NoPlan("Nothing is to be merged of which it is not known which rows are superseded.")
    saved_bytes = merged_bytes - READ_COST_BYTES
    if saved_bytes < READ_COST_BYTES:
        return NoPlan(f"The keys to be merged have {merged_bytes} bytes: a read would save too little.")
    why = f"Each read merges {merged_bytes} bytes of keys, which finding them once would spare it."
    return Due(find_priority_of_bytes(saved_bytes, merged_bytes), why, QUIET_MS)
