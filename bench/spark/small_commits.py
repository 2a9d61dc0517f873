"""W9 (Spark): commits of 100 rows one after the other, against `df.write.parquet` of the same rows."""

from __future__ import annotations

import functools
import shutil
import statistics
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import lakelog.spark
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, absolute, compare
from bench.sdk import HASHED
from bench.shapes import order_free_hash, q1, q1_schema
from bench.spark.stack import WARM_UPS, SparkBench, open_spark, write_plain

_ROWS = 100
_COMMITS = 40
"""Of a run; there are seven runs with the warm-ups."""
_TARGET = 0.77


def measure_small_commits(bench: Bench) -> Iterator[Figure]:
    """Rows that the program has, and rows of a file of 100 rows, which tasks read and write."""
    with open_spark(bench) as on:
        for is_keyed in (False, True):
            for is_brought in (True, False):
                yield from _measure(bench, on, is_keyed, is_brought)


def _measure(bench: Bench, on: SparkBench, is_keyed: bool, is_brought: bool) -> Iterator[Figure]:
    count = bench.scaled(_COMMITS)
    batches = [q1(np.arange(_ROWS * number, _ROWS * (number + 1)), number) for number in range(count)]
    frames = [
        on.spark.createDataFrame(rows) if is_brought else from_file(on, rows, number)
        for number, rows in enumerate(batches)
    ]
    expected = order_free_hash(pa.concat_tables(batches).select(HASHED))
    taken: list[float] = []
    rows = f"{_ROWS} rows of {'the program' if is_brought else 'a file'}"
    label = f"{rows} into {'a keyed' if is_keyed else 'an append'} table"
    yield compare(
        f"commits of {label} ({count} a run)",
        functools.partial(_commit, on, is_keyed, frames, expected, taken),
        functools.partial(_write, on.folder / "small", frames, expected),
        pairs=bench.pairs,
        warm_ups=WARM_UPS,
        target=_TARGET,
    )
    yield absolute(f"commit of {label}, p50", "ms", [statistics.median(taken[WARM_UPS * count :]) * 1e3])


def from_file(on: SparkBench, rows: pa.Table, number: int) -> DataFrame:
    """The rows as a DataFrame of a file of that number."""
    path = on.folder / f"{number}.parquet"
    pq.write_table(rows, path)
    return on.read(path)


def _commit(
    on: SparkBench, is_keyed: bool, frames: list[DataFrame], expected: int, taken: list[float]
) -> Callable[[], Hashable]:
    name = "b.small"
    options = {"bucket": "2"} if is_keyed else {}
    table = on.catalog.create_table(name, q1_schema(), primary_key=["id"] if is_keyed else [], options=options)
    for frame in frames:
        begin = time.perf_counter()
        lakelog.spark.write(frame, name)
        taken.append(time.perf_counter() - begin)

    def answer() -> int:
        check_equal("small commits", order_free_hash(table.scan(HASHED).to_arrow()), expected)
        check_equal("snapshots", table.snapshots().num_rows, len(frames))
        on.catalog.drop_table(name)
        return len(frames)

    return answer


def _write(folder: Path, frames: list[DataFrame], expected: int) -> Callable[[], Hashable]:
    for number, frame in enumerate(frames):
        write_plain(frame, folder / str(number), dictionary=False)

    def answer() -> int:
        found = pa.concat_tables([pq.read_table(place, columns=HASHED) for place in folder.iterdir()])
        check_equal("write.parquet", order_free_hash(found), expected)
        shutil.rmtree(folder)
        return len(frames)

    return answer
