"""Changelogs of commits that come from Spark: by the tasks and by the step that commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from tests.integration.spark.spark_changelogs import (
    WAYS,
    Write,
    by_format,
    by_function,
    by_sql,
    changelog_files,
    check_files,
    frame_of,
    make,
    states,
)
from tests.integration.spark.spark_tables import MakeTable, stored_files
from tests.support.tables.keyed import emitted, replayed, rows, shown


@WAYS
def test_input_keeps_every_record_in_its_order(spark: SparkSession, make_table: MakeTable, write: Write) -> None:
    table = make(make_table, "input", bucket="1")
    frame = frame_of(
        spark,
        ("+I 1|10|1", "+I 1|20|2", "-U 1|10|3"),
        ("+U 1|10|4", "+I 2|1|5"),
        ("-D 1|20|6", "-D 1|99|-", "+I 1|10|7"),
    )
    write(frame, table)
    # By key, then arrival: by the task's number, and in it as the rows came.
    assert emitted(table, 0) == [
        "+I 1|10|1",
        "-U 1|10|3",
        "+U 1|10|4",
        "+I 1|10|7",
        "+I 1|20|2",
        "-D 1|20|6",
        "-D 1|99|-",
        "+I 2|1|5",
    ]
    assert shown(table) == {(1, 10): 7, (2, 1): 5}
    check_files(table, spark)


def test_input_of_a_stream_keeps_every_record_in_its_order(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    table = make(make_table, "input", bucket="1")
    # The larger file is the first task's.
    for lines in (tuple(f"+I 1|{k}|{k}" for k in range(40, 9, -1)), ("-D 1|25|0", "+U 1|5|1", "+U 1|25|2")):
        frame_of(spark, lines).write.mode("append").parquet(str(tmp_path / "in"))
    rows_in = spark.readStream.schema("pt bigint, k bigint, v bigint, _row_kind string").parquet(str(tmp_path / "in"))
    to_table = rows_in.writeStream.format("lakelog").option("table", table.name)
    query = to_table.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert len(table.files()) == 2, "each file was a task of its own"
    assert emitted(table, 0) == [
        "+U 1|5|1",
        *(f"+I 1|{k}|{k}" for k in range(10, 26)),
        "-D 1|25|0",
        "+U 1|25|2",
        *(f"+I 1|{k}|{k}" for k in range(26, 41)),
    ]


@WAYS
def test_lookup_emits_the_difference_of_all_tasks(spark: SparkSession, make_table: MakeTable, write: Write) -> None:
    table = make(make_table, "lookup")
    table.write(rows("+I 1|10|1", "+I 1|20|2", "+I 2|10|3", "+I 3|1|9"))
    frame = frame_of(
        spark, ("+I 1|10|5", "-D 1|20|0", "+I 1|30|6"), ("+U 1|10|7", "-D 1|30|0"), ("+I 2|10|8", "-D 2|77|0")
    )
    write(frame, table)
    assert sorted(emitted(table, 1)) == ["+U 1|10|7", "+U 2|10|8", "-D 1|20|2", "-U 1|10|1", "-U 2|10|3"]
    assert replayed(table) == shown(table) == {(1, 10): 7, (2, 10): 8, (3, 1): 9}
    check_files(table, spark)


def test_rows_inserted_by_sql(spark: SparkSession, make_table: MakeTable) -> None:
    table = make(make_table, "lookup")
    frame = frame_of(spark, ("+I 1|10|1", "+I 1|20|2")).drop("_row_kind")
    by_sql(frame, table)
    by_sql(frame, table)
    assert sorted(emitted(table, 1)) == ["+U 1|10|1", "+U 1|20|2", "-U 1|10|1", "-U 1|20|2"]


@WAYS
def test_an_overwrite_adds_none(spark: SparkSession, make_table: MakeTable, write: Write) -> None:
    for producer in ("input", "lookup"):
        table = make(make_table, producer)
        write(frame_of(spark, ("+I 1|1|1",)), table)
        frame = frame_of(spark, ("+I 1|1|2",)).drop("_row_kind")
        if write is by_function:
            lakelog.spark.write(frame, table.name, mode="overwrite")
        else:
            frame.write.format("lakelog").option("table", table.name).mode("overwrite").save()
        assert emitted(table, 1) == []
        assert len(changelog_files(table, spark)) == 1


@WAYS
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_a_write_without_rows(spark: SparkSession, make_table: MakeTable, write: Write, producer: str) -> None:
    table = make(make_table, producer)
    write(frame_of(spark, ("+I 1|1|1",)).where("false"), table)
    assert states(table) == []
    assert stored_files(table) == set()


def test_readers_of_all_kinds_see_the_same(spark: SparkSession, make_table: MakeTable) -> None:
    table = make(make_table, "lookup")
    by_function(frame_of(spark, ("+I 1|1|1", "+I 1|2|2")), table)
    by_format(frame_of(spark, ("+I 1|1|3",), ("-D 1|2|0",)), table)
    wanted = sorted(emitted(table, 0))

    def lines(frame: DataFrame) -> list[str]:
        return sorted(f"{row['_row_kind']} {row['pt']}|{row['k']}|{row['v']}" for row in frame.collect())

    assert wanted == ["+I 1|1|1", "+I 1|2|2", "+U 1|1|3", "-D 1|2|2", "-U 1|1|1"]
    assert lines(lakelog.spark.changes(spark, table.name)) == wanted
    between = spark.read.format("lakelog").option("table", table.name).option("incremental-between", "0,2")
    assert lines(between.option("incremental-between-scan-mode", "changelog").load()) == wanted
    with table.subscribe(scan_mode="from-snapshot", options={"scan.snapshot-id": 1}) as stream:
        seen: list[str] = []
        for batch in stream:
            seen += [
                f"{row['_row_kind']} {row['pt']}|{row['k']}|{row['v']}" for row in pa.table(batch.data).to_pylist()
            ]
            if len(seen) == len(wanted):
                break
    assert sorted(seen) == wanted
    query = (
        spark.readStream.format("lakelog")
        .option("table", table.name)
        .option("scan.snapshot-id", "1")
        .load()
        .writeStream.format("memory")
        .queryName("changelog_writes")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert lines(spark.table("changelog_writes")) == wanted
