"""Streams into a table: each batch once, whatever is repeated (semantics 5.8)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakelog.spark
from lakelog.sdk.tables.table import Table
from tests.integration.spark.checkpointed_stream import SCHEMA, Stream
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files


@pytest.fixture(params=["write_stream", "format"])
def stream(request: pytest.FixtureRequest, spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> Stream:
    return Stream(spark, make_table(SCHEMA, options={"bucket": "-1"}), tmp_path, request.param)


def rows_of(table: Table) -> list[tuple[int, int]]:
    return sorted((row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def test_each_batch_once(stream: Stream) -> None:
    stream.put("a", [1, 2], 0)
    stream.put("b", [3], 1)
    stream.run()
    assert rows_of(stream.table) == [(1, 0), (2, 0), (3, 1)]
    snapshots = stream.table.snapshots().to_pylist()
    assert [snapshot["identifier"] for snapshot in snapshots] == [0, 1]
    assert len({snapshot["writer"] for snapshot in snapshots}) == 1
    # A restart goes on with the numbers; a batch whose end was forgotten is planned again, and changes nothing.
    stream.put("c", [4], 2)
    stream.run()
    stream.forget_last_batch()
    stream.run()
    assert rows_of(stream.table) == [(1, 0), (2, 0), (3, 1), (4, 2)]
    assert stored_files(stream.table) == live_files(stream.table)
    stream.put("d", [5], 3)
    stream.run()
    assert [snapshot["identifier"] for snapshot in stream.table.snapshots().to_pylist()] == [0, 1, 2, 3]
    assert len(rows_of(stream.table)) == 5


def test_a_new_checkpoint_is_a_new_stream(stream: Stream) -> None:
    stream.put("a", [1], 0)
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.run()
    assert rows_of(stream.table) == [(1, 0), (1, 0)], "a stream that begins anew must not be taken for the old one"


def test_a_new_checkpoint_under_an_old_name_is_refused(stream: Stream) -> None:
    stream.put("a", [1], 0)
    stream.run(**{"commit-user": "ingest"})
    assert stream.table.snapshots().to_pylist()[0]["writer"] == "ingest"
    shutil.rmtree(stream.checkpoint)
    with pytest.raises(StreamingQueryException, match="another checkpoint"):
        stream.run(**{"commit-user": "ingest"})
    assert rows_of(stream.table) == [(1, 0)]


def test_a_missing_batch_is_refused(stream: Stream, make_table: MakeTable) -> None:
    """The checkpoint says that batches were written which this table never got."""
    stream.put("a", [1], 0)
    stream.run()
    stream.put("b", [2], 0)
    stream.table = make_table(SCHEMA, options={"bucket": "-1"})
    with pytest.raises(StreamingQueryException, match="meant to follow 0"):
        stream.run()
    assert rows_of(stream.table) == []
    assert stored_files(stream.table) == set()


def test_upserts(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    stream = Stream(spark, make_table(SCHEMA, ("k",), options={"bucket": "2"}), tmp_path, "write_stream")
    for number in range(3):
        stream.put(str(number), list(range(number, 10)), number)
    stream.run()
    assert dict(rows_of(stream.table)) == {0: 0, 1: 1} | dict.fromkeys(range(2, 10), 2)


@pytest.mark.parametrize("form", ["write_stream", "format"])
def test_columns_that_a_stream_leaves_out(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path, form: str
) -> None:
    stream = Stream(spark, make_table(SCHEMA.append(pa.field("w", pa.string())), ("k",)), tmp_path, form)
    stream.put("a", [1], 2)
    with pytest.raises(StreamingQueryException, match="w: expected string, got nothing"):
        stream.run()
    assert rows_of(stream.table) == []
    stream.run(**{"fill-missing": "true"})
    assert rows_of(stream.table) == [(1, 2)]


def test_a_sink_without_a_name_is_refused(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    table = make_table(SCHEMA)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        df = spark.readStream.format("rate").load().selectExpr("value k", "value v")
        query = df.writeStream.format("lakelog").option("table", table.name).trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="commit-user"):
            query.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_complete_replaces_the_whole_table_partitions_without_rows_included(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    table = make_table(pa.schema([("k", pa.int64()), ("most", pa.int64())]), partition_by=["most"])
    stream = Stream(spark, table, tmp_path, "format")
    stream.put("a", [1, 2], 5)
    run_aggregation(stream, "complete")
    assert table.scan().to_arrow().sort_by("k").to_pydict() == {"k": [1, 2], "most": [5, 5]}
    stream.put("b", [1, 2], 7)
    run_aggregation(stream, "complete")
    assert table.scan().to_arrow().sort_by("k").to_pydict() == {"k": [1, 2], "most": [7, 7]}


def test_changed_results_are_written_by_foreach_batch_as_the_page_says(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    table = make_table(pa.schema([pa.field("k", pa.int64(), nullable=False), ("most", pa.int64())]), ("k",))
    stream = Stream(spark, table, tmp_path, "format")
    stream.put("a", [1, 2], 5)
    with pytest.raises(StreamingQueryException, match="lakelog does not support Update mode"):
        run_aggregation(stream, "update")
    shutil.rmtree(stream.checkpoint)

    def write(batch: DataFrame, number: int) -> None:
        lakelog.spark.write(batch, table.name, writer="totals", identifier=number, previous_identifier=number - 1)

    for name, ks, v in (("b", [2, 3], 7), ("c", [3], 9)):
        run_aggregation(stream, "update", write)
        stream.put(name, ks, v)
    run_aggregation(stream, "update", write)
    assert table.scan().to_arrow().sort_by("k").to_pydict() == {"k": [1, 2, 3], "most": [5, 7, 9]}
    assert [each["added_rows"] for each in table.snapshots().to_pylist()] == [2, 2, 1]


def run_aggregation(stream: Stream, mode: str, write: Callable[[DataFrame, int], None] | None = None) -> None:
    df = stream.spark.readStream.schema("k bigint, v bigint").parquet(str(stream.inbox))
    writer = df.groupBy("k").agg(F.max("v").alias("most")).writeStream.outputMode(mode)
    writer = writer.option("table", stream.table.name).option("checkpointLocation", str(stream.checkpoint))
    writer = writer.format("lakelog") if write is None else writer.foreachBatch(write)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive


def test_save_modes_that_spark_keeps_from_us_are_refused_as_the_page_says(
    spark: SparkSession, make_table: MakeTable
) -> None:
    rows = spark.range(1).selectExpr("id k", "id v").write.format("lakelog").option("table", make_table(SCHEMA).name)
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match="cannot be written in the"):
            rows.mode(mode).save()


def test_a_failed_task_ends_with_our_sentence(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(pa.schema([("v", pa.int32())]))
    rows = spark.range(1).selectExpr("5000000000 v")
    with pytest.raises(PySparkException) as failed:
        rows.write.format("lakelog").option("table", table.name).mode("append").save()
    said = str(failed.value)
    assert "[lakelog InvalidArgument, VALUE_MISMATCH, " in said
    sentence = said.rindex("Column 'v' has 5000000000 in row 0")
    # What stands behind it is where in Spark's Java the task failed.
    assert all(line.lstrip().startswith(("at ", "...")) for line in said[sentence:].splitlines()[1:] if line.strip())
