"""W5 through Spark: `lakelog.spark.write` into tables that bring a `lookup` changelog, against one that brings none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import lakelog.spark
from bench.changelog import CASES, compare_tables, make_batches
from bench.context import Bench
from bench.measure import Figure
from bench.sdk import BASE_ROWS
from bench.shapes import q1
from bench.spark.stack import WARM_UPS, open_spark
from lakelog.sdk.tables.table import Table


def measure_spark(bench: Bench) -> Iterator[Figure]:
    """Each task looks up in the bucket that it writes."""
    base = bench.scaled(BASE_ROWS)
    data = q1(np.arange(base), 1)
    with open_spark(bench) as on:
        for rows, full, quick in CASES:
            per_run = quick if bench.quick else full
            batches = []
            for number, batch in enumerate(make_batches(base, rows, per_run * (bench.pairs + WARM_UPS))):
                path = on.folder / f"{rows}-{number}.parquet"
                # A file of two row groups is read by two tasks.
                pq.write_table(batch, path, compression="zstd", use_dictionary=False, row_group_size=rows // 2)
                batches.append((on.read(path), batch))
            label = f"{rows:,} rows, Spark ({per_run} a run)"
            yield from compare_tables(on.catalog, label, data, batches, _upsert, per_run, bench.pairs, WARM_UPS)


def _upsert(table: Table, given: DataFrame) -> object:
    return lakelog.spark.write(given, table.name)
