"""What is written by Spark or the SDK comes back through Spark as it was."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import InvalidArgument, NotFound
from lakelog.spark.batch import few_rows
from tests.integration.spark.spark_tables import MakeTable

UTC = dt.UTC
ALL_TYPES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("number", pa.int32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(7, 2)),
        ("huge", pa.decimal128(38, 0)),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("many", pa.list_(pa.field("element", pa.int32()))),
        ("pair", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string())))])),
        ("named", pa.map_(pa.string(), pa.field("value", pa.float64()))),
    ]
)
ROWS = [
    {"id": 1},
    {
        "id": 2,
        "flag": True,
        "tiny": -128,
        "small": 32767,
        "number": -(2**31),
        "real": -0.0,
        "double": math.nan,
        "price": Decimal("-12345.67"),
        "huge": Decimal(10**38 - 1),
        "text": "żółć \U0001f600",
        "raw": b"\x00\xff",
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(1582, 10, 4, 1, 2, 3, 456789, tzinfo=UTC),
        "local": dt.datetime(2024, 3, 10, 2, 30),  # noqa: DTZ001
        "many": [1, None, 3],
        "pair": {"a": 5, "b": ["x", None]},
        "named": [("k", 1.5), ("n", None)],
    },
    {
        "id": 3,
        "flag": False,
        "real": math.inf,
        "double": -0.0,
        "text": "",
        "raw": b"",
        "day": dt.date(9999, 12, 31),
        "at": dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        "local": dt.datetime(1900, 1, 1),  # noqa: DTZ001
        "many": [],
        "pair": {"a": None, "b": None},
        "named": [],
    },
]


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same rows, signs of zeros and NaN included."""

    def shown(table: pa.Table) -> list[str]:
        return sorted(repr(row) for row in table.to_pylist())

    return left.schema.names == right.schema.names and shown(left) == shown(right)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_all_types(spark: SparkSession, make_table: MakeTable, key: tuple[str, ...]) -> None:
    table = make_table(ALL_TYPES, key)
    data = pa.Table.from_pylist(ROWS, ALL_TYPES)
    (table.upsert if key else table.append)(data)
    read = lakelog.spark.read_table(spark, table.name)
    assert same(read.toArrow(), data)
    copy = make_table(ALL_TYPES, key)
    lakelog.spark.write(read, copy.name)
    assert same(copy.scan().to_arrow(), data)
    source = spark.read.format("lakelog").option("table", copy.name).load()
    assert same(source.toArrow(), data)
    source.write.format("lakelog").option("table", copy.name).mode("append").save()
    assert copy.scan().count() == (3 if key else 6)


def test_values_with_merging(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(ALL_TYPES, ("id",))
    table.upsert(pa.table({"id": [2, 3, 4, 5]}), fill_missing=True)
    table.upsert(pa.Table.from_pylist(ROWS, ALL_TYPES))
    table.delete(pa.table({"id": [4]}))
    expected = pa.Table.from_pylist([*ROWS, {"id": 5}], ALL_TYPES)
    few = lakelog.spark.read_table(spark, table.name, filter="id > 0")
    assert not few.inputFiles(), "read at once"
    assert few.schema == lakelog.spark.read_table(spark, table.name).schema
    # No row, of columns of all types.
    assert lakelog.spark.read_table(spark, table.name, filter="id = 77").toArrow().num_rows == 0
    assert same(few.toArrow(), expected)
    assert same(lakelog.spark.read_table(spark, table.name).toArrow(), expected)
    assert same(spark.read.format("lakelog").option("table", table.name).load().toArrow(), expected)


def test_a_range_of_rows_with_lists(spark: SparkSession, make_table: MakeTable) -> None:
    pairs = pa.list_(pa.struct([pa.field("a", pa.int64())]))
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("pairs", pairs)])
    table = make_table(schema, ["id"])
    rows = [{"id": number, "pairs": None if number % 3 == 0 else [{"a": number}]} for number in range(20)]
    table.upsert(pa.Table.from_pylist(rows, schema=schema))
    few = lakelog.spark.read_table(spark, table.name, filter="id > 7 AND id < 15")
    assert not few.inputFiles(), "read at once"
    assert sorted(few.toArrow().to_pylist(), key=lambda row: row["id"]) == rows[8:15]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("double > 5", [2]),
        ("double = double", [2, 3]),
        ("double = 0.0", [3]),
        ("real <= 0", [2]),
        ("text = ''", [3]),
        ("day < DATE '2000-01-01'", [2]),
        ("at > TIMESTAMP '2024-11-03 01:29:00'", [3]),
        ("at > '2024-11-03 01:31:00'", []),
        ("pair.a = 5", [2]),
        ("size(many) = 3", [2]),
        ("id > 1 AND text RLIKE '^$'", [3]),
        ("id IN (1, 3)", [1, 3]),
    ],
)
@pytest.mark.parametrize("max_files", [0, few_rows.MAX_FILES])
def test_a_filter_means_what_spark_means(
    spark: SparkSession,
    make_table: MakeTable,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    ids: list[int],
    max_files: int,
) -> None:
    """Where few rows are read at once, and where Spark scans files."""
    monkeypatch.setattr(few_rows, "MAX_FILES", max_files)
    table = make_table(ALL_TYPES)
    for row in ROWS:
        table.append(pa.Table.from_pylist([row], ALL_TYPES))
    rows = lakelog.spark.read_table(spark, table.name, columns=["id"], filter=condition)
    assert rows.columns == ["id"]
    assert sorted(row.id for row in rows.collect()) == ids
    everything = lakelog.spark.read_table(spark, table.name).where(condition)
    assert sorted(row.id for row in everything.collect()) == ids


def test_files_left_out_by_a_filter(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_rows, "MAX_FILES", 0)
    table = make_table(pa.schema([("n", pa.int64())]))
    for n in range(5):
        table.append(pa.table({"n": [n]}))
    assert len(lakelog.spark.read_table(spark, table.name, filter="n >= 3").inputFiles()) == 2


def test_no_rows(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(ALL_TYPES, ("id",))
    assert lakelog.spark.read_table(spark, table.name).count() == 0
    assert spark.read.format("lakelog").option("table", table.name).load().count() == 0
    nothing = spark.createDataFrame([], "id bigint")
    with pytest.raises(InvalidArgument, match="got nothing: add the column, or set fill_missing"):
        lakelog.spark.write(nothing, table.name)
    result = lakelog.spark.write(nothing, table.name, fill_missing=True)
    assert result.snapshot_id is None
    result = lakelog.spark.write(nothing, table.name, options={"fill-missing": "true"}, allow_empty=True)
    assert result.snapshot_id == 1
    assert lakelog.spark.read_table(spark, table.name).columns == ALL_TYPES.names


def test_states(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())]), ("k",))
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}))
    first = lakelog.spark.read_table(spark, table.name)
    between = table.snapshots().column("committed_at")[0].as_py()
    table.upsert(pa.table({"k": [2, 3], "v": ["c", "d"]}))
    # A DataFrame stays at the snapshot it was planned on.
    assert sorted(map(tuple, first.collect())) == [(1, "a"), (2, "b")]
    newest = [(1, "a"), (2, "c"), (3, "d")]
    assert sorted(map(tuple, lakelog.spark.read_table(spark, table.name).collect())) == newest
    table.tags.create("first", 1)
    by_options: list[dict[str, Any]] = [{"options": {"scan.snapshot-id": 1}}, {"options": {"scan.tag-name": "first"}}]
    for arguments in ({"snapshot_id": 1}, {"timestamp": between}, {"tag": "first"}, *by_options):
        rows = lakelog.spark.read_table(spark, table.name, **arguments)
        assert sorted(map(tuple, rows.collect())) == [(1, "a"), (2, "b")]
    with pytest.raises(NotFound, match="7"):
        lakelog.spark.read_table(spark, table.name, snapshot_id=7)
    with pytest.raises(InvalidArgument, match="both"):
        lakelog.spark.read_table(spark, table.name, snapshot_id=1, timestamp=5)
    loaded = spark.read.format("lakelog").option("table", table.name).option("scan.tag-name", "first").load()
    assert sorted(map(tuple, loaded.collect())) == [(1, "a"), (2, "b")]
    table.rollback_to("first")
    assert sorted(map(tuple, lakelog.spark.read_table(spark, table.name).collect())) == [(1, "a"), (2, "b")]


def test_odd_names(spark: SparkSession, make_table: MakeTable) -> None:
    schema = pa.schema([pa.field("a.b", pa.int32(), nullable=False), ("c`d e", pa.int32()), ("_metadata", pa.int32())])
    table = make_table(schema, ("a.b",), options={"bucket": "3"})
    data = pa.table([[1, 2], [3, 4], [5, 6]], schema=schema)
    lakelog.spark.write(spark.createDataFrame(data), table.name)
    lakelog.spark.write(spark.createDataFrame(data.slice(0, 1)), table.name)
    rows = lakelog.spark.read_table(spark, table.name, columns=["_metadata", "a.b"])
    assert sorted(map(tuple, rows.collect())) == [(5, 1), (6, 2)]


def test_int_keys_meet_in_their_bucket(spark: SparkSession, make_table: MakeTable) -> None:
    """An int hashes otherwise than a bigint of the same value: rows must be cast before they are shuffled."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int32())])
    table = make_table(schema, ("k",), options={"bucket": "7"})
    table.upsert(pa.table({"k": list(range(100)), "v": [0] * 100}))
    lakelog.spark.write(spark.range(100).selectExpr("cast(id as int) k", "1 v"), table.name)
    lakelog.spark.write(spark.range(50).selectExpr("cast(id as double) k", "2 v"), table.name)
    found = {row.k: row.v for row in lakelog.spark.read_table(spark, table.name).collect()}
    assert found == {k: 2 if k < 50 else 1 for k in range(100)}
    assert found == dict(zip(*table.scan().to_arrow().to_pydict().values(), strict=True))


def test_a_schema_that_is_given_picks_columns_by_name(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(
        pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string()), ("w", pa.string())]), ("k",)
    )
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"], "w": ["b"]}))

    def read(schema: str, **options: str) -> list[tuple[object, ...]]:
        reader = spark.read.format("lakelog").schema(schema).option("table", table.name).options(**options)
        return list(map(tuple, reader.load().collect()))

    assert read("k int, v string, w string") == [(1, "a", "b")]
    assert read("w string, v string, k int not null") == [("b", "a", 1)]
    assert read("w string") == [("b",)]
    assert read("v string", filter="w = 'b'") == [("a",)]
    assert read("v string", columns="w,v") == [("a",)]
    with pytest.raises(AnalysisException) as error:
        read("k smallint, V string, W2 string, w string not null")
    said = str(error.value)
    assert f"The schema given for the read of {table.name} does not fit in 4 columns" in said
    assert "k: expected int, got smallint" in said
    assert "V: expected no such column, got string: leave it out; or is 'v' meant?" in said
    assert "W2: expected no such column" in said
    assert "w: expected nullable, got NOT NULL" in said
    with pytest.raises(AnalysisException, match="k: expected no such column"):
        read("k int", columns="v")
