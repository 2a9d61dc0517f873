"""Sorted runs of a bucket: universal compaction works on these instead of files.

A run is one file of level 0, or all files of one level above it. Runs are ordered from the newest to the oldest: level
0 by the files' places in the order, the latest first, then the levels, the lowest first. The rules of picking need only
the runs, of which there are few. So a caller that updates them with `update_runs` never lists a bucket's files to find
that nothing is due.

Why levels are in order: a compaction takes the newest runs up to some run and puts its output between those and the
next older one; each output file takes the latest place of its inputs, and a moved file keeps its own. So places fall
from level to level. Files that are committed while a compaction runs have later places than all its inputs and stay at
level 0, above its output. If only some rewrites of a plan were committed, places of files that share no key may be
reversed; nothing here depends on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.commit.facts import OrderKey
from lakelog.format.merge.sections import KeyRange

_Numbers = npt.NDArray[np.int64]

_COLUMNS: Final = (
    "file_id",
    "level",
    "row_count",
    "delete_count",
    "size_bytes",
    "order_snapshot",
    "order_ordinal",
    "order_time_ms",
)


@dataclass(frozen=True)
class SortedRun:
    """One sorted run.

    Args:
        level: Its level.
        size_bytes: The size of all its files.
        file_count: At level 0 one.
        order_key: At level 0 the file's place in the order; else (0, 0), since the level alone determines it.
    """

    level: int
    size_bytes: int
    file_count: int = 1
    order_key: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class BucketFiles:
    """The live files of one bucket in columns, run by run, the newest run first, and in a run in the order of keys.

    Args:
        partition: The encoded partition.
        bucket: Its number.
        file_ids: Int64, as all arrays here; one value per file.
        levels: The level of each.
        row_counts: All rows of each.
        delete_counts: Rows that delete.
        sizes_bytes: The sizes of the files.
        order_keys: One row per file: order snapshot, order ordinal, order time in milliseconds.
        ranges: The key ranges.
        starts: Where each run begins, ascending.
    """

    partition: bytes
    bucket: int
    file_ids: _Numbers
    levels: _Numbers
    row_counts: _Numbers
    delete_counts: _Numbers
    sizes_bytes: _Numbers
    order_keys: _Numbers
    ranges: tuple[KeyRange, ...]
    starts: _Numbers

    def __len__(self) -> int:
        return len(self.file_ids)

    @property
    def runs(self) -> tuple[SortedRun, ...]:
        """The sorted runs, the newest first."""
        if not len(self):
            return ()
        counts = np.diff(np.append(self.starts, len(self)))
        sizes = np.add.reduceat(self.sizes_bytes, self.starts)
        return tuple(
            SortedRun(level, size, count, (snapshot, ordinal) if level == 0 else (0, 0))
            for level, size, count, (snapshot, ordinal, _) in zip(
                self.levels[self.starts].tolist(),
                sizes.tolist(),
                counts.tolist(),
                self.order_keys[self.starts].tolist(),
                strict=True,
            )
        )

    def count_files(self, run_count: int) -> int:
        """How many files the first `run_count` runs have; they are the first files."""
        return int(self.starts[run_count]) if run_count < len(self.starts) else len(self)

    def order_key_of(self, index: int) -> OrderKey:
        """A file's place in the order."""
        snapshot, ordinal, time_ms = self.order_keys[index].tolist()
        return OrderKey(snapshot, ordinal, time_ms)


def to_bucket_files(files: pa.Table) -> BucketFiles:
    """Sorts the files of one bucket, as a plan lists them, run by run. Pure.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`, in any order; at least one file.

    Raises:
        InvalidArgument: There is no file, or files of more than one bucket.
    """
    partitions, buckets = files["partition"].unique().to_pylist(), files["bucket"].unique().to_pylist()
    if len(partitions) != 1 or len(buckets) != 1:
        raise InvalidArgument(
            f"A compaction is planned for one bucket, but the {files.num_rows} files given are of "
            f"{len(buckets)} buckets in {len(partitions)} partitions. Plan bucket by bucket."
        )
    columns = {name: _to_numbers(files[name]) for name in _COLUMNS}
    lower, upper = files["min_key"].to_pylist(), files["max_key"].to_pylist()
    by_key = sorted(range(len(lower)), key=lambda index: (lower[index] or b"", upper[index] or b""))
    ranks = np.empty(len(lower), np.int64)
    ranks[by_key] = np.arange(len(lower))
    is_level_0 = columns["level"] == 0
    order = np.lexsort(
        (
            ranks,
            np.where(is_level_0, -columns["order_ordinal"], 0),
            np.where(is_level_0, -columns["order_snapshot"], 0),
            columns["level"],
        )
    )
    levels = columns["level"][order]
    is_start = np.append(True, (levels[1:] != levels[:-1]) | (levels[1:] == 0))
    order_keys = np.column_stack([columns[name] for name in ("order_snapshot", "order_ordinal", "order_time_ms")])
    return BucketFiles(
        partitions[0],
        buckets[0],
        columns["file_id"][order],
        levels,
        columns["row_count"][order],
        columns["delete_count"][order],
        columns["size_bytes"][order],
        order_keys[order],
        tuple(KeyRange(lower[index], upper[index]) for index in order.tolist()),
        np.flatnonzero(is_start),
    )


def update_runs(runs: Sequence[SortedRun], added: pa.Table, removed: pa.Table) -> tuple[SortedRun, ...]:
    """Returns a bucket's sorted runs after a commit. Pure; its cost depends on the commit, not on the bucket.

    Args:
        runs: The runs before it, the newest first.
        added: The files that it added, or moved to another level, with the columns `level`, `size_bytes`,
            `order_snapshot` and `order_ordinal`, all of this bucket.
        removed: The files that it removed, or moved from their level, with the same columns.

    Returns:
        The runs, the newest first.

    Raises:
        InvalidArgument: A removed file is in no run: the runs are not those before this commit.
    """
    found = {(run.level, run.order_key): run for run in runs}
    for files, sign in ((added, 1), (removed, -1)):
        for level, size, snapshot, ordinal in zip(
            *(_to_numbers(files[name]).tolist() for name in ("level", "size_bytes", "order_snapshot", "order_ordinal")),
            strict=True,
        ):
            key = (level, (snapshot, ordinal) if level == 0 else (0, 0))
            run = found.get(key, SortedRun(level, 0, 0, key[1]))
            found[key] = replace(run, size_bytes=run.size_bytes + sign * size, file_count=run.file_count + sign)
    left = [run for run in found.values() if run.file_count != 0]
    wrong = next((run for run in left if run.file_count < 0), None)
    if wrong is not None:
        raise InvalidArgument(
            f"A commit removes a file of level {wrong.level} that the bucket's sorted runs do not have; they are of "
            "another snapshot. List the bucket's files and make its runs anew."
        )
    return tuple(sorted(left, key=lambda run: (run.level, -run.order_key[0], -run.order_key[1])))


def _to_numbers(column: pa.ChunkedArray) -> _Numbers:
    numbers: _Numbers = column.to_numpy().astype(np.int64)
    return numbers
