"""Streams of Spark over changes of a table's columns, and writes that bring columns (semantics 7.6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog import AddColumn, DropColumn, MoveColumn, RenameColumn, SetDefault, WidenColumn
from lakelog.errors import InvalidArgument
from lakelog.sdk.tables.table import Table
from lakelog.spark.java import stream_calls
from lakelog.spark.task_errors import find_lakelog_error
from tests.integration.spark.spark_tables import MakeTable

COLUMNS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("name", pa.string()), ("qty", pa.int32())])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each batch: `files`, or `rows` that Python makes."""
    found: list[str] = []
    original = stream_calls.StreamCalls._plan

    def plan(self: Any, asked: Any) -> dict[str, Any]:
        made = original(self, asked)
        if made.get("files") or made.get("rows"):
            found.append("rows" if "rows" in made else "files")
        return made

    monkeypatch.setattr(stream_calls.StreamCalls, "_plan", plan)
    return found


def wait_until(is_done: Callable[[], bool], within_s: float = 30.0) -> None:
    end_s = time.monotonic() + within_s
    while not is_done():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def put(table: Table, number: int, **names: str) -> None:
    data = pa.table(
        {"k": pa.array([number], pa.int32()), "name": [f"n{number}"], "qty": pa.array([number], pa.int32())}
    )
    data = data.rename_columns([names.get(name, name) for name in data.column_names])
    (table.upsert if table.info.schema.primary_key else table.append)(data, fill_missing=True)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_running_query_goes_on_and_its_checkpoint_too(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str], kind: str
) -> None:
    table = make_table(COLUMNS, ("k",) if kind == "keyed" else ())
    put(table, 1)
    found: list[dict[str, Any]] = []

    def start() -> Any:
        stream = spark.readStream.format("lakelog").option("table", table.name).load()
        writer = stream.writeStream.foreachBatch(
            lambda batch, _: found.extend(row.asDict() for row in batch.collect())
        ).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.start()

    query = start()
    try:
        wait_until(lambda: len(found) == 1)
        table.alter(columns=[RenameColumn("qty", "amount"), AddColumn("note", pa.string(), default="-", first=True)])
        put(table, 2, qty="amount")
        wait_until(lambda: len(found) == 2)
        assert {key: found[1][key] for key in ("k", "name", "qty")} == {"k": 2, "name": "n2", "qty": 2}
        assert "note" not in found[1]
        table.alter(columns=[WidenColumn("amount", pa.int64()), MoveColumn("name", first=True)])
        put(table, 3, qty="amount")
        wait_until(lambda: not query.isActive)
        error = find_lakelog_error(query.exception())
        assert isinstance(error, InvalidArgument)
        assert "qty: INT became BIGINT" in error.message
        assert "everything up to snapshot 2" in error.message
    finally:
        query.stop()
    query = start()
    try:
        wait_until(lambda: len(found) == 3)
        assert list(found[2])[:4] == ["name", "note", "k", "amount"]
        assert (found[2]["k"], found[2]["amount"], found[2]["note"]) == (3, 3, "-")
    finally:
        query.stop()
    if kind == "append":
        assert answers == ["files", "files", "files"]


def test_rows_from_before_a_change_are_shown_as_they_are_now(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, answers: list[str]
) -> None:
    table = make_table(COLUMNS)
    put(table, 1)
    table.alter(
        columns=[
            AddColumn("note", pa.string(), default="-"),
            WidenColumn("qty", pa.int64()),
            RenameColumn("name", "title"),
            DropColumn("k"),
        ]
    )
    stream = spark.readStream.format("lakelog").option("table", table.name).load()
    query = stream.writeStream.format("memory").queryName("changed").trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert [row.asDict() for row in spark.table("changed").collect()] == [{"title": "n1", "qty": 1, "note": "-"}]
    # Spark's own reader knows no defaults.
    assert answers == ["rows"]


@pytest.mark.parametrize("way", ["write", "format"])
@pytest.mark.parametrize("rows", ["few", "many"])
def test_columns_that_rows_bring_are_added(spark: SparkSession, make_table: MakeTable, way: str, rows: str) -> None:
    table = make_table(COLUMNS)
    put(table, 1)
    df = spark.range(2, 3).selectExpr(
        "cast(id as int) k", "cast(5000000000 as bigint) qty", "named_struct('a', 1) more"
    )
    if rows == "many":
        # Of a plan of its own, so that tasks write them.
        df = df.repartition(2)

    def write(**options: str) -> None:
        if way == "write":
            lakelog.spark.write(df, table.name, options=options)
        else:
            writer = df.write.format("lakelog").mode("append").option("table", table.name)
            writer.options(
                **{key.replace("merge-schema", "mergeSchema"): value for key, value in options.items()}
            ).save()

    with pytest.raises(Exception, match=r"add it to the table, as .*merge.schema") as caught:
        write()
    assert "more" in str(caught.value)
    write(**{"merge-schema": "true"})
    write(**{"merge-schema": "true"})
    found = table.scan().to_arrow().sort_by("k")
    assert found.schema.names == ["k", "name", "qty", "more"]
    assert found.schema.field("qty").type == pa.int64()
    assert found.to_pylist() == [
        {"k": 1, "name": "n1", "qty": 1, "more": None},
        *[{"k": 2, "name": None, "qty": 5000000000, "more": {"a": 1}}] * 2,
    ]


@pytest.mark.parametrize("way", ["few", "tasks", "format"])
def test_columns_that_rows_leave_out_get_their_default(spark: SparkSession, make_table: MakeTable, way: str) -> None:
    table = make_table(COLUMNS)
    table.alter(
        columns=[
            SetDefault("name", "x"),
            SetDefault("qty", 7),
            AddColumn("at", pa.timestamp("us"), default=datetime(2013, 5, 6, 7, 8, 9)),  # noqa: DTZ001
        ]
    )
    df = spark.range(1, 2).selectExpr("cast(id as int) k")
    if way == "format":
        df.write.format("lakelog").mode("append").option("table", table.name).save()
    else:
        lakelog.spark.write(df if way == "few" else df.repartition(2), table.name)
    (row,) = table.scan().to_arrow().to_pylist()
    assert (row["k"], row["name"], row["qty"], str(row["at"])) == (1, "x", 7, "2013-05-06 07:08:09")
