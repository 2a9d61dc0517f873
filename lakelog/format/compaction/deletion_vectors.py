"""Whether deletion vectors are worth building for a bucket: superseded rows are found once, not by each read. Pure.

Objectives, which conflict: a read of a bucket whose runs share keys reads their key columns and merges them, again in
each process; building costs about one such read, a snapshot and a small file, and rewrites nothing; the next compaction
of the bucket invalidates the result. So vectors are built if reads gain more than they cost:

1. A bucket below `MIN_BUCKET_BYTES` is merged in some hundredths of a second, and compacted often. It is left alone.
2. Each read saves the key and sequence columns of all runs that share keys, minus `READ_COST_BYTES` for the file of
   positions that it opens instead. This must be at least another `READ_COST_BYTES`, so that a few reads pay for the
   build: for 2.4 M rows it takes a fifth of a second, and saves a read of three columns 0.07 CPU s of 0.25.
3. For a bucket that is written to the work is in vain: it is due once nothing was written for `QUIET_MS`. Busy buckets
   are compacted.
4. If a compaction is due, it comes instead: it leaves less to merge than any positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.compaction.due import READ_COST_BYTES, Due, find_priority_of_bytes
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.merge.sections import KeyRange, split_sections

MIN_BUCKET_BYTES: Final = 16 << 20
"""Merging the keys of a smaller bucket takes reads less time than opening a few more files."""

QUIET_MS: Final = 60_000
"""How long no commit has touched a bucket before its vectors are built."""


@dataclass(frozen=True)
class RunSums:
    """A sorted run of a bucket as sums.

    Args:
        level: Its level.
        size_bytes: The size of all its files.
        file_count: How many there are.
        row_count: All rows.
        delete_count: Rows that delete.
        uncovered_count: How many of its files do not say which rows they supersede.
        keys: A range that contains all keys.
        order_key: At level 0 the file's place in the order; else (0, 0), since the level alone determines it.
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
    """Whether a bucket's vectors are to be built once it is quiet. Pure.

    It decides by sums: runs share keys if their ranges do, and only a listing of files shows whether each file of a
    section is covered.

    Args:
        runs: All runs of the bucket, the newest first.
        bytes_a_row: The size of the columns that decide the merge, per row.
        has_sequence: The table has a `sequence.field`, so deletes beat late rows only for a while: no vectors are built
            for sections with deletes.
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
