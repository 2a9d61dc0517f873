"""Rows of append tables that conditions have deleted: no way of reading through Spark shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import deletion_vectors, live_rows
from lakelog.spark.java import table_stream
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.stream_query import StreamQuery

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


def put(*ks: int) -> pa.Table:
    return pa.table({"k": list(ks), "v": [0] * len(ks)}, schema=SCHEMA)


def make(make_table: MakeTable, **options: str) -> Table:
    table = make_table(SCHEMA, options=options)
    table.append(put(*range(200)))
    table.append(put(*range(200, 300)))
    table.append(put(*range(300, 400)))
    table.delete_where("k % 7 = 0 AND k < 300")
    return table


LEFT = [k for k in range(400) if k % 7 or k >= 300]


@pytest.mark.parametrize("form", ["case", "join", "path"])
def test_batch_reads_leave_them_out(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    if form == "path":
        monkeypatch.setattr(deletion_vectors, "MAX_DRIVER_KEY_BYTES", 0)
        monkeypatch.setattr(live_rows, "_SIZE_SCANS", 0)
    if form != "case":
        monkeypatch.setattr(live_rows, "_CASE_FILES", 0)
    table = make(make_table)
    read = lakelog.spark.read_table

    def ks(rows: Any) -> list[int]:
        return sorted(row.k for row in rows.collect())

    assert ks(read(spark, table.name)) == LEFT
    # A frame that the session knows is of files without these rows.
    assert ks(read(spark, table.name, snapshot_id=3)) == [*range(400)]
    assert ks(read(spark, table.name, filter="k BETWEEN 10 AND 22")) == [*range(10, 14), *range(15, 21), 22]
    assert read(spark, table.name).where("v = 0").count() == len(LEFT)
    source = spark.read.format("lakelog").option("table", table.name)
    assert ks(source.load()) == LEFT
    assert ks(source.option("filter", "k < 20").load()) == [k for k in range(20) if k % 7]
    table.delete_where("k >= 390")
    assert ks(read(spark, table.name)) == [k for k in LEFT if k < 390]


@pytest.mark.parametrize("by", ["java", "python"])
@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "k"}])
def test_streams_begin_without_them(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    options: dict[str, str],
) -> None:
    if by == "python":
        monkeypatch.setattr(table_stream, "stream_replacer", lambda _: None)
    table = make(make_table, **options)
    query = StreamQuery(spark, table.name, tmp_path)
    assert sorted(row["k"] for row in query.rows()) == LEFT
    # What a condition deletes later shows nothing, unless it is asked for; what is added does.
    table.delete_where("k = 1")
    table.append(put(1000))
    assert sorted(row["k"] for row in query.rows())[-1] == 1000


def test_an_overwrite_shows_only_new_rows(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    table = make_table(SCHEMA, options={"streaming-read-overwrite": "true"})
    table.append(put(1, 2, 3))
    table.append(put(4))
    table.delete_where("k = 2 OR k = 4")
    table.rollback_to(2)
    query = StreamQuery(spark, table.name, tmp_path, scan__snapshot_id="3")
    assert sorted(row["k"] for row in query.rows()) == [2, 4]
