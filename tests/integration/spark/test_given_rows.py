"""Rows that a DataFrame brings itself are written by the driver program, and mean what they mean by tasks."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakelog.spark
from lakelog.errors import InvalidArgument
from lakelog.spark.batch import given_rows
from lakelog.spark.batch.given_rows import collect_given_rows
from lakelog.spark.installation import installation_of
from lakelog.writes import attempts_ahead
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files
from tests.support.spark.write_ways import written_by_tasks

HERE = "file:///t"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
PARTS = pa.schema([pa.field("day", pa.date32(), nullable=False), *SCHEMA])


def brought(spark: SparkSession, *values: tuple[int, str | None]) -> DataFrame:
    keys, texts = zip(*values, strict=True)
    return spark.createDataFrame(pa.table({"k": keys, "v": texts}, schema=SCHEMA))


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda spark: brought(spark, (1, "a"), (2, None)), 2),
        (lambda spark: brought(spark, (1, "a"), (2, None)).where("k > 1").selectExpr("k + 1 k", "v"), 1),
        (lambda spark: spark.range(0, 1000, numPartitions=3).selectExpr("id k", "current_timestamp() v"), 1000),
        (lambda spark: spark.range(10_000_000).limit(7), 7),
        (lambda spark: spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(k, v)"), 2),
        (lambda spark: spark.sql("SELECT 1 k"), 1),
        (lambda spark: brought(spark, (1, "a")).unionAll(brought(spark, (1, "b"))).repartition(4), 2),
        (lambda spark: spark.createDataFrame(pa.table({"k": pa.array([], pa.int64())})), 0),
        (lambda spark: spark.range(given_rows.MAX_ROWS), given_rows.MAX_ROWS),
    ],
)
def test_rows_that_are_few(spark: SparkSession, make: Callable[[SparkSession], DataFrame], count: int) -> None:
    found = collect_given_rows(make(spark), HERE)
    assert found is not None
    assert found.num_rows == count


@pytest.mark.parametrize(
    "make",
    [
        lambda spark: spark.range(given_rows.MAX_ROWS + 1),
        # Of few rows may come many, and what a function of Python does may take an executor's memory.
        lambda spark: spark.range(10).selectExpr("explode(sequence(1, 1000000)) k"),
        lambda spark: spark.range(10).select(sf.udf(lambda k: k, "long")("id").alias("k")),
        lambda spark: spark.range(10).mapInArrow(lambda batches: batches, "id long"),
        lambda spark: spark.range(100).crossJoin(spark.range(100)),
        # Few rows may be large.
        lambda spark: spark.range(4000).selectExpr("id k", "repeat('x', 300000) v"),
        lambda spark: spark.range(10).selectExpr("sequence(1, 10000000) v"),
        lambda spark: spark.range(4000).selectExpr("collect_list(id) v"),
        # Where rows come from is not the driver program.
        lambda spark: spark.sparkContext.parallelize([(1,)]).toDF(["k"]),
    ],
)
def test_rows_that_may_be_many(spark: SparkSession, make: Callable[[SparkSession], DataFrame]) -> None:
    assert collect_given_rows(make(spark), HERE) is None


def test_executors_of_other_machines_write_to_folders_themselves(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = brought(spark, (1, "a"))
    monkeypatch.setattr("lakelog.spark.batch.given_rows.is_on_this_machine", lambda _master: False)
    assert collect_given_rows(rows, HERE) is None
    assert collect_given_rows(rows, "s3://lake/t") is not None


def test_few_rows_of_a_file_are_read_by_tasks(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA)
    lakelog.spark.write(brought(spark, (1, "a")), table.name)
    assert collect_given_rows(lakelog.spark.read_table(spark, table.name).limit(1), HERE) is None


def test_no_python_task_runs(spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("a task")

    monkeypatch.setattr("lakelog.spark.batch.table_write.row_writer", refuse)
    for key in ((), ("k",)):
        table = make_table(SCHEMA, key)
        assert lakelog.spark.write(brought(spark, (1, "a"), (2, None)), table.name).snapshot_id == 1
        assert sorted(table.scan().to_arrow().column("k").to_pylist()) == [1, 2]
        with written_by_tasks(), pytest.raises(AssertionError, match="a task"):
            lakelog.spark.write(brought(spark, (1, "a")), table.name)


@pytest.mark.parametrize("by_tasks", [False, True])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_each_bucket_has_a_run_and_a_changelog(
    spark: SparkSession, make_table: MakeTable, producer: str, by_tasks: bool
) -> None:
    table = make_table(SCHEMA, ("k",), options={"bucket": "3", "changelog-producer": producer})
    with written_by_tasks(by_tasks):
        lakelog.spark.write(brought(spark, *((k, "old") for k in range(30))), table.name)
        kinds = brought(spark, (1, "first"), (1, "last"), (2, "new"), (77, "x")).withColumn(
            "_row_kind", sf.when(sf.col("k") == 2, "-D").otherwise("+I")
        )
        lakelog.spark.write(kinds, table.name)
    assert table.scan(filter="k IN (1, 2, 77)").to_arrow().to_pylist() == [{"k": 1, "v": "last"}, {"k": 77, "v": "x"}]
    added = table.files().to_pylist()
    assert sorted((row["added_snapshot"], row["bucket"]) for row in added if row["added_snapshot"] == 1) == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert stored_files(table) >= live_files(table)
    if producer == "none":
        assert stored_files(table) == live_files(table)
        return
    changes = table.changes(1, 2, timeout=10).to_arrow().sort_by("k").to_pylist()
    shown = sorted((row["_row_kind"], row["k"], row["v"]) for row in changes)
    expected = {
        "input": [("+I", 1, "first"), ("+I", 1, "last"), ("+I", 77, "x"), ("-D", 2, "new")],
        "lookup": [("+I", 77, "x"), ("+U", 1, "last"), ("-D", 2, "old"), ("-U", 1, "old")],
    }[producer]
    assert shown == expected


@pytest.mark.parametrize("by_tasks", [False, True])
def test_overwrites_deletes_and_columns_that_are_left_out(
    spark: SparkSession, make_table: MakeTable, by_tasks: bool
) -> None:
    table = make_table(PARTS, ("day", "k"), partition_by=["day"], options={"bucket": "2"})
    first, second = dt.date(2024, 1, 1), dt.date(2024, 1, 2)

    def state() -> list[tuple[int, int, str | None]]:
        return sorted((row["day"].day, row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())

    with written_by_tasks(by_tasks):
        for day in (first, second):
            lakelog.spark.write(brought(spark, (1, "a"), (2, "b")).withColumn("day", sf.lit(day)), table.name)
        narrow = brought(spark, (3, "c")).selectExpr("cast(k AS int) k", "v")
        lakelog.spark.write(narrow, table.name, mode="overwrite", partition={"day": first})
        assert state() == [(1, 3, "c"), (2, 1, "a"), (2, 2, "b")]
        keys = spark.sql("SELECT DATE '2024-01-02' day, 1L k")
        lakelog.spark.write(keys, table.name, mode="delete")
        lakelog.spark.write(keys.selectExpr("day", "k + 8 k"), table.name, fill_missing=True)
        assert state() == [(1, 3, "c"), (2, 2, "b"), (2, 9, None)]
        nothing = brought(spark, (1, "a")).where("k > 1")
        lakelog.spark.write(nothing, table.name, mode="overwrite", partition={"day": second})
        assert state() == [(1, 3, "c")]


@pytest.mark.parametrize("by_tasks", [False, True])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("SELECT 1L k, 2 v", "v: expected string, got int"),
        ("SELECT 1L k", "v: expected string, got nothing"),
        ("SELECT 1L k, 'a' v, 'b' v", "2 columns of this name"),
        ("SELECT CAST(NULL AS bigint) k, 'a' v", "'k'.*NULL|NULL.*'k'"),
        ("SELECT 1L k, INTERVAL 1 MONTH v", "type that a table cannot have|expected string"),
        ("SELECT IF(id < 5, id, raise_error('too large')) k, 'a' v FROM range(10)", None),
    ],
)
def test_refused_rows_leave_nothing(
    spark: SparkSession, make_table: MakeTable, rows: str, message: str | None, by_tasks: bool
) -> None:
    table = make_table(SCHEMA, ("k",))
    with written_by_tasks(by_tasks), pytest.raises(InvalidArgument if message else Exception) as caught:
        lakelog.spark.write(spark.sql(rows), table.name)
    assert re.search(message or "too large", str(caught.value))
    assert table.snapshots().num_rows == 0
    assert stored_files(table) == set()


@pytest.mark.parametrize("by_tasks", [False, True])
def test_a_repetition_is_applied_once(spark: SparkSession, make_table: MakeTable, by_tasks: bool) -> None:
    table = make_table(SCHEMA)
    with written_by_tasks(by_tasks):
        results = [
            lakelog.spark.write(brought(spark, (n, "a")), table.name, writer="w", identifier=n) for n in (1, 1, 2, 1)
        ]
    assert [result.already_applied for result in results] == [False, True, False, True]
    assert table.scan().count() == 2
    assert stored_files(table) == live_files(table)


def test_writes_in_a_row_share_calls_that_open_attempts(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts_ahead, "_USABLE_S", 600.0)
    table = make_table(pa.schema([("k", pa.int64())]))
    ahead = installation_of(spark).attempts_ahead
    counts: list[int] = []
    original = ahead._metastore.stage_attempt

    def stage(*args: Any, **kwargs: Any) -> Any:
        counts.append(kwargs.get("count", 1))
        return original(*args, **kwargs)

    monkeypatch.setattr(ahead._metastore, "stage_attempt", stage)
    for number in range(7):
        lakelog.spark.write(spark.createDataFrame(pa.table({"k": [number]})), table.name)
    assert counts == [1, 2, 4]
    with pytest.raises(InvalidArgument):
        lakelog.spark.write(spark.createDataFrame(pa.table({"k": ["no number"]})), table.name)
    lakelog.spark.write(spark.createDataFrame(pa.table({"k": [7]})), table.name)
    assert counts[3:] == [8, 1], "after an error nothing that was opened before is used"
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(8))
