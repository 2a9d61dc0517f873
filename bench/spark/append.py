"""W1 (a): a DataFrame appended in one commit, against `df.write.parquet` of the same rows."""

from __future__ import annotations

import functools
import shutil
import uuid
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import lakelog.spark
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, compare
from bench.sdk import BASE_ROWS, HASHED
from bench.shapes import order_free_hash, q1, q1_schema
from bench.spark.stack import WARM_UPS, SparkBench, open_spark, plain_writer, synchronise_folder

_SOURCE_FILES = 8
_TABLE = "b.t"
_REFERENCES = (
    ("", True, True),
    (", reference without dictionaries", False, True),
    (", reference without dictionaries that does not synchronise its files", False, False),
)


def measure_append(bench: Bench) -> Iterator[Figure]:
    """Rows are read from Parquet files, on both sides.

    The reference runs as it is, and without the dictionaries that Spark makes by default and that lakelog leaves out
    where they do not pay: for Q1 rows they take time and save nothing. Both synchronise their files, as ours does; a
    third does not.
    """
    rows = bench.scaled(BASE_ROWS)
    with open_spark(bench) as on:
        source, expected = write_source(on.folder / "source", rows)
        data = on.read(source)
        on.catalog.create_table(_TABLE, q1_schema())
        for name, dictionary, is_durable in _REFERENCES:
            yield compare(
                f"append, Spark{name}",
                functools.partial(_append, on, data, expected),
                functools.partial(_write, on.folder / uuid.uuid4().hex, data, expected, dictionary, is_durable),
                pairs=bench.pairs,
                warm_ups=WARM_UPS,
                target=0.9 if is_durable else None,
            )


def write_source(folder: Path, rows: int) -> tuple[Path, tuple[int, int]]:
    """Writes Q1 rows as some Parquet files; returns their folder, and the number and the hash of the rows."""
    folder.mkdir()
    each, total = rows // _SOURCE_FILES, 0
    for part in range(_SOURCE_FILES):
        data = q1(np.arange(part * each, (part + 1) * each), part)
        pq.write_table(data, folder / f"{part}.parquet", compression="zstd", use_dictionary=False)
        # The hash of rows is a sum over rows, so that those of parts add up.
        total += order_free_hash(data.select(HASHED))
    return folder, (each * _SOURCE_FILES, total % 2**64)


def _append(on: SparkBench, data: DataFrame, expected: tuple[int, int]) -> Callable[[], Hashable]:
    lakelog.spark.write(data, _TABLE)

    def answer() -> bool:
        table = on.catalog.table(_TABLE)
        found = table.scan(HASHED).to_arrow()
        right = check_equal("append", (found.num_rows, order_free_hash(found)), expected)
        # The next run writes into a new table, and finds as much room on the disk.
        on.catalog.drop_table(_TABLE)
        shutil.rmtree(unquote(table.location.removeprefix("file://")))
        on.catalog.create_table(_TABLE, q1_schema())
        return right

    return answer


def _write(
    folder: Path, data: DataFrame, expected: tuple[int, int], dictionary: bool, is_durable: bool
) -> Callable[[], Hashable]:
    plain_writer(data, dictionary=dictionary).parquet(str(folder))
    if is_durable:
        synchronise_folder(folder)

    def answer() -> bool:
        found = pq.read_table(folder, columns=HASHED)
        shutil.rmtree(folder)
        return check_equal("df.write.parquet", (found.num_rows, order_free_hash(found)), expected)

    return answer
