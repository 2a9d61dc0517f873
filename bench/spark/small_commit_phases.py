"""Where the time of W9 (Spark) goes: a write of 100 rows of a file, and what it consists of."""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from pyspark.sql import DataFrame

import lakelog.spark
from bench.context import Bench
from bench.measure import Figure, absolute
from bench.shapes import q1, q1_schema
from bench.spark.small_commits import from_file
from bench.spark.stack import SparkBench, open_spark, write_plain
from lakelog.arguments import parse_table_name
from lakelog.spark.batch import given_rows
from lakelog.spark.batch.commit import open_attempt
from lakelog.spark.batch.small_input import collect_small_input
from lakelog.spark.installation import installation_of

_ROWS = 100
_CALLS = 60
_WARM_UPS = 20


def measure_phases(bench: Bench) -> Iterator[Figure]:
    """Medians of single calls; each has a DataFrame of its own, which Spark has not planned yet."""
    with open_spark(bench) as on:
        for name, call in _phases(on).items():
            frames = [_make_frame(on, number) for number in range(_WARM_UPS + bench.scaled(_CALLS))]
            taken = [_time(call, frame) for frame in frames][_WARM_UPS:]
            yield absolute(f"{name}, p50", "ms", [statistics.median(taken) * 1e3])


def _phases(on: SparkBench) -> dict[str, Callable[[DataFrame], object]]:
    on.catalog.create_table("b.plain", q1_schema())
    on.catalog.create_table("b.keyed", q1_schema(), primary_key=["id"], options={"bucket": "2"})
    metastore = installation_of(on.spark).metastore
    info = metastore.get_table(parse_table_name("b.plain"))
    folder, number = on.folder / "small", itertools.count()

    def write_by_tasks(frame: DataFrame, table: str) -> object:
        kept, given_rows.MAX_ROWS = given_rows.MAX_ROWS, -1  # type: ignore[misc]
        try:
            return lakelog.spark.write(frame, table)
        finally:
            given_rows.MAX_ROWS = kept  # type: ignore[misc]

    return {
        "table's state": lambda _: metastore.get_table(info.name),
        "attempt": lambda _: open_attempt(metastore, info, None),
        "rows to the driver program": lambda frame: collect_small_input(frame, info.location),
        "write, append table": lambda frame: lakelog.spark.write(frame, "b.plain"),
        "write, keyed table": lambda frame: lakelog.spark.write(frame, "b.keyed"),
        "write by tasks, append table": lambda frame: write_by_tasks(frame, "b.plain"),
        "write by tasks, keyed table": lambda frame: write_by_tasks(frame, "b.keyed"),
        "write.parquet": lambda frame: write_plain(frame, folder / str(next(number)), dictionary=False),
    }


def _make_frame(on: SparkBench, number: int) -> DataFrame:
    shutil.rmtree(on.folder / "small", ignore_errors=True)
    return from_file(on, q1(np.arange(_ROWS * number, _ROWS * (number + 1)), number), number)


def _time(call: Callable[[DataFrame], object], frame: DataFrame) -> float:
    begin = time.perf_counter()
    call(frame)
    return time.perf_counter() - begin
