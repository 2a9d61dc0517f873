"""Which batches of a stream Spark's own Parquet reader can read, and the files of its tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final

from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.options.values import TableOptions
from lakelog.spark.executor.read_changes import ChangeSplit
from lakelog.spark.stream.log_splits import LogSplit
from lakelog.spark.stream.splits import READ_BYTES
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.merging.removed_rows import has_removed_rows
from lakelog.storage.parquet.live_file import LiveFile


@dataclass(frozen=True)
class FileSlice:
    """What a task reads of a file: the row groups whose middle is within some bytes.

    Args:
        file: The file.
        start: The first byte.
        length: The number of bytes.
        snapshot_id: The snapshot whose change its rows are.
    """

    file: LiveFile
    start: int
    length: int
    snapshot_id: int


FileTask = Sequence[FileSlice]

_LEAST_BYTES: Final = 4 << 20
"""Less is not worth a task of its own."""

_OPENING_BYTES: Final = 1 << 20
"""Opening a file takes about as long as reading so much of one."""


def plan_file_tasks(splits: Sequence[ChangeSplit] | Sequence[LogSplit], cores: int) -> list[FileTask] | None:
    """The files that each task reads, in the order in which it emits their rows.

    Args:
        splits: The tasks of a batch without a condition, as Python would read them.
        cores: The number of tasks that run at once; each is to have as much work as the others.

    Returns:
        None: some rows of the batch are not in files as the stream shows them.
    """
    units: list[list[FileSlice]] = []
    for split in splits:
        if not isinstance(split, ChangeSplit) or not _is_in_files(split):
            return None
        units += _to_units(split)
    return list(_spread(units, cores))


def _is_in_files(split: ChangeSplit) -> bool:
    if not split.table.schema.primary_key:
        return not any(has_removed_rows(file, split.table.schema) for file in split.files)
    if split.parts:
        return all(part.states is None for part in split.parts)
    return split.rows_at is not None and not _needs_merging(split.files)


def _needs_merging(files: Sequence[LiveFile]) -> bool:
    for bucket in group_by_bucket(files).values():
        sections = split_sections([KeyRange(file.min_key, file.max_key) for file in bucket])
        if len(sections) < len(bucket) or any(file.delete_count for file in bucket):
            return True
    return False


def _to_units(split: ChangeSplit) -> list[list[FileSlice]]:
    """What a task reads in sequence: the files of a bucket; without buckets a file, or a part of a large one."""
    files = [*split.files, *(file for part in split.parts for file in part.files)]
    if TableOptions(split.table.options).bucket_count(bool(split.table.schema.primary_key)) > 0:
        return [[_slice(split, file) for file in found] for found in group_by_bucket(files).values()]
    return [
        [_slice(split, file, start, min(READ_BYTES, file.size_bytes - start))]
        for file in files
        for start in range(0, file.size_bytes, READ_BYTES)
    ]


def _slice(split: ChangeSplit, file: LiveFile, start: int = 0, length: int | None = None) -> FileSlice:
    snapshot_id = file.added_snapshot if split.rows_at is None else split.rows_at
    return FileSlice(file, start, file.size_bytes if length is None else length, snapshot_id)


def _spread(units: Sequence[Sequence[FileSlice]], cores: int) -> Iterator[FileTask]:
    """Adjacent units for each task, as many tasks as keep all cores busy to the end."""
    ends = list(accumulate(sum(each.length + _OPENING_BYTES for each in unit) for unit in units))
    if not ends:
        return
    rounds = -(-ends[-1] // (cores * READ_BYTES))
    count = max(min(rounds * cores, ends[-1] // _LEAST_BYTES), 1)
    places = [
        min((start + end) * count // (2 * ends[-1]), count - 1)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    for _, group in groupby(zip(places, units, strict=True), key=itemgetter(0)):
        yield [each for _, unit in group for each in unit]
