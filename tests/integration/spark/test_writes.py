"""What a write replaces, what it refuses, and with which words."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import lakelog.spark
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.sdk.tables.table import Table
from tests.integration.spark.spark_tables import MakeTable, stored_files

PARTS = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.string())]
)


@pytest.fixture
def parts(make_table: MakeTable) -> Table:
    table = make_table(PARTS, ("day", "k"), partition_by=["day"], options={"bucket": "2"})
    days = [dt.date(2024, 1, day) for day in (1, 2, 3)]
    table.upsert(pa.table({"day": days, "k": [1, 2, 3], "v": ["a", "b", "c"]}, schema=PARTS))
    return table


def state(table: Table) -> list[tuple[int, int, str | None]]:
    return sorted((row["day"].day, row["k"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def rows(spark: SparkSession, *values: str) -> DataFrame:
    lines = " UNION ALL ".join(f"SELECT DATE '2024-01-0{line[0]}' day, {line[1]} k, '{line[2]}' v" for line in values)
    return spark.sql(lines)


def through_format(df: DataFrame, table: Table, **options: str) -> None:
    writer = df.write.format("lakelog").option("table", table.name).mode("overwrite")
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.save()


def test_overwrites(spark: SparkSession, parts: Table) -> None:
    lakelog.spark.write(rows(spark, "15x"), parts.name, mode="overwrite", partition="dynamic")
    assert state(parts) == [(1, 5, "x"), (2, 2, "b"), (3, 3, "c")]
    one = rows(spark, "26y").drop("day")
    lakelog.spark.write(one, parts.name, mode="overwrite", partition={"day": dt.date(2024, 1, 2)})
    assert state(parts) == [(1, 5, "x"), (2, 6, "y"), (3, 3, "c")]
    with pytest.raises(InvalidArgument, match="only the partition day="):
        lakelog.spark.write(rows(spark, "17z"), parts.name, mode="overwrite", partition={"day": dt.date(2024, 1, 2)})
    nothing = rows(spark, "11x").where("false")
    lakelog.spark.write(nothing, parts.name, mode="overwrite", partition={"day": dt.date(2024, 1, 3)})
    assert state(parts) == [(1, 5, "x"), (2, 6, "y")]
    lakelog.spark.write(nothing, parts.name, mode="overwrite", partition="dynamic")
    assert state(parts) == [(1, 5, "x"), (2, 6, "y")]
    lakelog.spark.write(rows(spark, "39w"), parts.name, mode="overwrite")
    assert state(parts) == [(3, 9, "w")]


def test_overwrites_through_the_data_source(spark: SparkSession, parts: Table) -> None:
    through_format(rows(spark, "15x"), parts)
    assert state(parts) == [(1, 5, "x"), (2, 2, "b"), (3, 3, "c")]
    through_format(rows(spark, "26y").drop("day"), parts, partition='{"day": "2024-01-02"}')
    assert state(parts) == [(1, 5, "x"), (2, 6, "y"), (3, 3, "c")]
    through_format(rows(spark, "39w"), parts, dynamic_partition_overwrite="false")
    assert state(parts) == [(3, 9, "w")]


def test_columns_that_are_left_out_are_null_only_where_that_is_said(spark: SparkSession, parts: Table) -> None:
    sparse, there = rows(spark, "11x").drop("v"), stored_files(parts)
    writer = sparse.write.format("lakelog").option("table", parts.name).mode("append")
    with pytest.raises(PySparkException, match="v: expected string, got nothing: add the column, or set fill-missing"):
        writer.save()
    with pytest.raises(InvalidArgument, match="v: expected string, got nothing"):
        lakelog.spark.write(sparse, parts.name)
    assert (state(parts)[0], stored_files(parts)) == ((1, 1, "a"), there)
    writer.option("fill-missing", "true").save()
    lakelog.spark.write(rows(spark, "22x").drop("v"), parts.name, fill_missing=True)
    through_format(rows(spark, "39x").drop("v"), parts, fill_missing="true")
    assert state(parts) == [(1, 1, None), (2, 2, None), (3, 9, None)]
    lakelog.spark.write(sparse, parts.name, mode="delete")
    assert state(parts) == [(2, 2, None), (3, 9, None)]


def test_a_write_that_rests_on_what_was_read_loses_no_row_of_another(spark: SparkSession, parts: Table) -> None:
    kept, seen = rows(spark, "11x"), parts.scan().snapshot_id
    parts.upsert(pa.table({"day": [dt.date(2024, 1, 2)], "k": [9], "v": ["other"]}, schema=PARTS))
    there = stored_files(parts)
    for guard in ("if_snapshot", "if_unchanged"):
        with pytest.raises(CommitConflict, match=rf"since snapshot 1 \({guard}=1\)"):
            lakelog.spark.write(kept, parts.name, mode="overwrite", **{guard: seen})  # type: ignore[arg-type]
    with pytest.raises(CommitConflict, match=r"since snapshot 1 \(if_snapshot=1\)"):
        lakelog.spark.write(kept, parts.name, mode="overwrite", options={"if-snapshot": seen})
    with pytest.raises(PySparkException, match=r"since snapshot 1 \(if_snapshot=1\)"):
        through_format(kept, parts, if_snapshot=str(seen))
    assert stored_files(parts) == there
    # The partition of the first day is as it was.
    through_format(kept, parts, if_unchanged=str(seen))
    lakelog.spark.write(rows(spark, "11y"), parts.name, if_snapshot=3)
    assert state(parts) == [(1, 1, "y"), (2, 2, "b"), (2, 9, "other"), (3, 3, "c")]


def test_deletes_without_their_sequence_are_refused(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(PARTS, ("day", "k"), options={"sequence.field": "v"})
    table.upsert(pa.table({"day": [dt.date(2024, 1, 1)], "k": [1], "v": ["b"]}, schema=PARTS))
    of_sequence = r"'v', which is part of its 'sequence\.field'.*latest=True"
    # Before any task runs, as the columns are known.
    with pytest.raises(InvalidArgument, match=f"The keys to delete from .* have no column {of_sequence}"):
        lakelog.spark.write(rows(spark, "11x").drop("v"), table.name, mode="delete")
    with pytest.raises(InvalidArgument, match=f"Row 0 of the keys to delete from .* has no value for {of_sequence}"):
        lakelog.spark.write(rows(spark, "11x").withColumn("v", lit(None).cast("string")), table.name, mode="delete")
    assert state(table) == [(1, 1, "b")]
    lakelog.spark.write(rows(spark, "11c"), table.name, mode="delete")
    assert state(table) == []


def test_nan_is_above_all_numbers_also_inside_a_row_group(spark: SparkSession, make_table: MakeTable) -> None:
    """Statistics in a Parquet footer say nothing of NaN; Spark must not leave a row group out by them."""
    table = make_table(pa.schema([("x", pa.float64()), ("y", pa.struct([("z", pa.float32())]))]))
    table.append(pa.table({"x": [1.0, float("nan"), 2.0], "y": [{"z": 1.0}, {"z": float("nan")}, None]}))
    assert lakelog.spark.read_table(spark, table.name, filter="x > 5").count() == 1
    assert lakelog.spark.read_table(spark, table.name).where("y.z > 5").count() == 1


@pytest.mark.parametrize(
    ("select", "arguments", "message"),
    [
        ("1 k, 'a' v", {}, "day: expected date32"),
        ("DATE '2024-01-01' day, 1 k, 2 v", {}, "v: expected string, got int32"),
        ("DATE '2024-01-01' day, 1 k, 'a' v, 5 w", {}, "w: expected no such column"),
        ("DATE '2024-01-01' day, 3000000000 k, 'a' v", {}, "Column 'k' has 3000000000"),
        ("DATE '2024-01-01' day, CAST(NULL AS INT) k, 'a' v", {}, "Column 'k' .*NOT NULL|NOT NULL"),
        ("DATE '2024-01-01' day, 1 k, 'a' v, '+X' _row_kind", {}, r"'\+X'"),
        ("DATE '2024-01-01' day, 1 k, INTERVAL '1' DAY v", {}, "v"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"mode": "upsert"}, "'append', 'delete' or 'overwrite'"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"partition": "dynamic"}, "mode is 'append'"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"mode": "overwrite", "partition": {"dy": 1}}, "no partition column"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"writer": "w"}, "identifier= is missing"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"options": {"comit-user": "w"}}, "commit-user"),
        ("DATE '2024-01-01' day, 1 k, 'a' v", {"options": {"scan.snapshot-id": "1"}}, "option of reads"),
    ],
)
def test_refused_writes(
    spark: SparkSession, parts: Table, select: str, arguments: dict[str, Any], message: str
) -> None:
    before = state(parts)
    with pytest.raises(InvalidArgument, match=message):
        lakelog.spark.write(spark.sql("SELECT " + select), parts.name, **arguments)
    assert state(parts) == before
    assert len(stored_files(parts)) == parts.files().num_rows


def test_refused_reads(spark: SparkSession, parts: Table) -> None:
    for arguments, message in (
        ({"columns": ["kk"]}, "no column 'kk'; near it are k"),
        ({"filter": "nope > 1"}, "filter of .*nope"),
        ({"options": {"scan.mode": "latest"}}, "is an option of subscriptions"),
        ({"snapshot_id": 0}, "numbered from 1"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            lakelog.spark.read_table(spark, parts.name, **arguments)
    with pytest.raises(NotFound, match="nowhere"):
        lakelog.spark.read_table(spark, "nowhere.t")
    for options, message in (({}, "'table' is missing"), ({"table": parts.name, "filter": "nope > 1"}, "nope")):
        reader = spark.read.format("lakelog")
        for key, value in options.items():
            reader = reader.option(key, value)
        with pytest.raises(Exception, match=message):
            reader.load()


def test_a_session_without_lakelog(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match="install"):
        lakelog.spark.read_table(spark.newSession(), "a.b")


def test_the_token_is_not_shown(spark: SparkSession, make_table: MakeTable) -> None:
    """Neither conf nor plans nor the data source's class hold the token."""
    from pyspark import cloudpickle

    from lakelog.spark.connection import make_connection
    from lakelog.spark.source.data_source import LakelogSource

    arguments: dict[str, Any] = dict.fromkeys(("tls", "tls_ca", "tls_cert", "tls_key"))
    connection = make_connection("127.0.0.1:7450", token="sesame-open", **arguments)
    assert connection.token_file is not None
    source = type("Source", (LakelogSource,), {"connection": connection})
    assert b"sesame" not in cloudpickle.dumps(source)  # type: ignore[no-untyped-call]
    assert "sesame" not in repr(connection)
