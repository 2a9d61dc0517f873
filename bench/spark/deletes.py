"""Reads through Spark of an append table before and after a condition has deleted one row of a hundred."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import pyarrow.compute as pc

import lakelog.spark
from bench.context import Bench
from bench.deletes import FIRST_KEPT, SPREAD
from bench.expected import Q1_COLUMNS, digest_sql
from bench.measure import Figure, Work, WrongAnswerError, compare
from bench.sdk import BASE_ROWS, HASHED
from bench.shapes import order_free_hash, q1, q1_schema
from bench.spark.stack import WARM_UPS, SparkBench, open_spark
from lakelog.sdk.tables.table import Table


def measure_deletes(bench: Bench) -> Iterator[Figure]:
    """All columns and three, each with and without deleted rows; the session knows the positions from a read before."""
    with open_spark(bench) as on:
        whole, table = (on.catalog.create_table(f"b.{name}", q1_schema()) for name in ("whole", "t"))
        data = q1(np.arange(bench.scaled(BASE_ROWS)), 1)
        whole.append(data)
        table.append(data)
        table.delete_where(SPREAD)
        kept = data.filter(pc.field("v0") >= FIRST_KEPT).select(HASHED)
        found = lakelog.spark.read_table(on.spark, table.name, columns=HASHED).toArrow()
        if order_free_hash(found) != order_free_hash(kept):
            raise WrongAnswerError("the rows that are left are other ones")
        for columns in (Q1_COLUMNS, tuple(HASHED)):
            name = f"read after it, {'all' if columns == Q1_COLUMNS else len(columns)} columns, Spark"
            after, before = _read(on, table, columns), _read(on, whole, columns)
            yield compare(name, after, before, pairs=bench.pairs, warm_ups=WARM_UPS, target=0.9, same_answer=False)


def _read(on: SparkBench, table: Table, columns: tuple[str, ...]) -> Work:
    def read() -> Hashable:
        rows = lakelog.spark.read_table(on.spark, table.name).selectExpr(*digest_sql(columns))
        return tuple(rows.collect()[0])

    return read
