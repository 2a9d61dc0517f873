"""Tables by their names in Spark: its SQL and its writers, lakelog's statements, views, tables from DataFrames."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import AlreadyExists, CommitConflict, InvalidArgument, LakelogError, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.spark.installation import CATALOG_CONF
from lakelog.spark.names import statements

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
_numbers = itertools.count(1)


@pytest.fixture
def shop(catalog: Catalog) -> Iterator[str]:
    """A database of its own, with the table `orders`."""
    name = f"shop{next(_numbers)}"
    catalog.create_database(name)
    table = catalog.create_table(f"{name}.orders", SCHEMA, primary_key=["k"], options={"bucket": "2"})
    table.upsert(put({1: "a", 2: "b"}))
    yield name
    catalog.drop_database(name, cascade=True, if_exists=True)


def put(values: dict[int, str]) -> pa.Table:
    return pa.table({"k": list(values), "v": list(values.values())}, schema=SCHEMA)


def run(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.sql(statement).collect()), key=repr)


def own(spark: SparkSession, statement: str, **more: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, lakelog.spark.sql(spark, statement, **more).collect()), key=repr)


def rows_of(catalog: Catalog, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in catalog.table(table).scan().to_arrow().to_pylist())


def test_queries_of_spark_name_tables(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    orders = f"lakelog.{shop}.orders"
    assert run(spark, f"SELECT v FROM {orders} WHERE k >= 2") == [("b",)]
    joined = f"{orders} a JOIN {orders} b USING (k)"
    assert run(spark, f"SELECT k FROM {joined} WHERE a.v IN (SELECT v FROM {orders})") == [(1,), (2,)]
    frame = spark.table(orders)
    catalog.table(f"{shop}.orders").upsert(put({3: "c"}))
    assert frame.count() == 3
    for past in ("VERSION AS OF 1", "VERSION AS OF 'first'"):
        catalog.table(f"{shop}.orders").tags.create("first", 1) if "first" in past else None
        assert run(spark, f"SELECT count(*) FROM {orders} {past}") == [(2,)]
    at = catalog.table(f"{shop}.orders").snapshots().column("committed_at")[0].as_py().timestamp() + 0.001
    assert run(spark, f"SELECT count(*) FROM {orders} TIMESTAMP AS OF timestamp_micros({int(at * 1e6)})") == [(2,)]
    assert run(spark, f"SELECT count(*) FROM {orders} WITH ('scan.snapshot-id' = '1')") == [(2,)]


def test_spark_lists_and_describes(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    assert (shop,) in run(spark, "SHOW NAMESPACES IN lakelog")
    assert run(spark, f"SHOW TABLES IN lakelog.{shop}") == [(shop, "orders", False)]
    described = run(spark, f"DESCRIBE TABLE lakelog.{shop}.orders")
    assert ("k", "bigint", None) in described
    assert ("primary-key", "k") in run(spark, f"SHOW TBLPROPERTIES lakelog.{shop}.orders")
    assert spark.catalog.tableExists(f"lakelog.{shop}.orders")
    assert not spark.catalog.tableExists(f"lakelog.{shop}.nope")
    assert run(spark, f"SELECT id FROM lakelog.{shop}.`orders$snapshots`") == [(1,)]
    assert (f"{shop}.orders",) in run(spark, "SELECT database || '.' || name FROM lakelog.sys.tables")


def test_spark_makes_changes_and_drops_tables(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    parts = f"lakelog.{shop}.parts"
    spark.sql(
        f"CREATE TABLE {parts} (id BIGINT NOT NULL COMMENT 'the id', dt DATE, v STRING, PRIMARY KEY (id, dt)) "
        "PARTITIONED BY (dt) TBLPROPERTIES ('bucket' = '2') COMMENT 'in parts'"
    )
    table = catalog.table(f"{shop}.parts")
    assert (table.primary_key, table.partition_by, table.comment) == (("id", "dt"), ("dt",), "in parts")
    assert table.options["bucket"] == "2"
    assert ("id", "bigint", "the id") in run(spark, f"DESCRIBE TABLE {parts}")
    spark.sql(f"INSERT INTO {parts} VALUES (1, DATE'2024-01-01', 'x'), (2, DATE'2024-01-02', 'y')")
    spark.sql(f"INSERT INTO {parts} (id, dt) SELECT id, DATE'2024-01-02' FROM range(5, 7)")
    spark.sql(f"INSERT OVERWRITE {parts} PARTITION (dt = DATE'2024-01-01') SELECT 9L, 'new'")
    days = date(2024, 1, 1), date(2024, 1, 2)
    assert rows_of(catalog, f"{shop}.parts") == [
        (2, days[1], "y"), (5, days[1], None), (6, days[1], None), (9, days[0], "new")
    ]  # fmt: skip
    spark.sql(f"DELETE FROM {parts} WHERE id IN (5, 6)")
    assert run(spark, f"SELECT id FROM {parts}") == [(2,), (9,)]
    spark.sql(f"INSERT OVERWRITE {parts} SELECT 7L, DATE'2024-01-03', 'only'")
    assert run(spark, f"SELECT id FROM {parts}") == [(7,)]
    spark.sql(f"ALTER TABLE {parts} SET TBLPROPERTIES ('snapshot.num-retained.min' = '5')")
    assert catalog.table(f"{shop}.parts").options["snapshot.num-retained.min"] == "5"
    spark.sql(f"CREATE TABLE lakelog.{shop}.made TBLPROPERTIES ('primary-key' = 'id') AS SELECT id FROM range(5)")
    assert catalog.table(f"{shop}.made").primary_key == ("id",)
    assert catalog.table(f"{shop}.made").count() == 5
    spark.sql(f"DROP TABLE {parts}")
    spark.sql(f"DROP TABLE IF EXISTS {parts}")
    assert catalog.tables(shop) == ["made", "orders"]
    spark.sql(f"CREATE DATABASE lakelog.{shop}x COMMENT 'more'")
    assert f"{shop}x" in catalog.databases()
    spark.sql(f"DROP DATABASE lakelog.{shop}x")
    assert f"{shop}x" not in catalog.databases()


def test_spark_alters_tables(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    orders = f"lakelog.{shop}.orders"
    frame = spark.table(orders)
    assert frame.count() == 2
    spark.sql(f"ALTER TABLE {orders} ADD COLUMNS (n INT COMMENT 'a number' FIRST, s STRUCT<a: INT>)")
    spark.sql(f"ALTER TABLE {orders} ADD COLUMN s.b STRING")
    spark.sql(f"ALTER TABLE {orders} ALTER COLUMN n TYPE BIGINT")
    spark.sql(f"ALTER TABLE {orders} ALTER COLUMN n AFTER v")
    spark.sql(f"ALTER TABLE {orders} RENAME COLUMN v TO value")
    spark.sql(f"ALTER TABLE {orders} ALTER COLUMN value COMMENT 'what'")
    spark.sql(f"COMMENT ON TABLE {orders} IS 'all orders'")
    table = catalog.table(f"{shop}.orders")
    assert table.schema.names == ["k", "value", "n", "s"]
    assert table.schema.field("n").type == pa.int64()
    described = run(spark, f"DESCRIBE TABLE {orders}")
    assert {("n", "bigint", "a number"), ("value", "string", "what")} <= set(described)
    assert [field.name for field in table.schema.field("s").type] == ["a", "b"]
    assert table.comment == "all orders"
    spark.sql(f"ALTER TABLE {orders} DROP COLUMN s")
    assert run(spark, f"SELECT * FROM {orders}") == [(1, "a", None), (2, "b", None)]
    with pytest.raises(AnalysisException):
        frame.collect()


def test_writers_of_spark_name_tables(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    name = f"lakelog.{shop}.saved"
    spark.range(3).write.saveAsTable(name)
    spark.range(3, 5).write.mode("append").saveAsTable(name)
    spark.range(5, 6).writeTo(name).append()
    spark.range(6, 7).write.insertInto(name)
    assert [k for (k,) in rows_of(catalog, f"{shop}.saved")] == list(range(7))
    spark.range(2).write.insertInto(name, overwrite=True)
    assert [k for (k,) in rows_of(catalog, f"{shop}.saved")] == [0, 1]
    uuid = catalog.table(f"{shop}.saved").uuid
    assert len(catalog.table(f"{shop}.saved").snapshots()) == 5
    assert catalog.table(f"{shop}.saved").uuid == uuid


@pytest.fixture
def defaults(catalog: Catalog, shop: str) -> str:
    """A table with a default of each type; `n` has none, and `must` cannot be NULL."""
    columns = {
        "must": (pa.int64(), -5), "flag": (pa.bool_(), True), "tiny": (pa.int8(), -128), "f": (pa.float32(), 0.1),
        "d": (pa.float64(), float("inf")), "price": (pa.decimal128(38, 2), Decimal("-1.50")),
        "text": (pa.string(), "it's \\ \"x\" ${y}\n"), "empty": (pa.string(), ""), "raw": (pa.binary(), b"\x00'"),
        "day": (pa.date32(), date(1, 2, 3)), "at": (pa.timestamp("us", tz="UTC"), datetime(1969, 1, 2, 3, tzinfo=UTC)),
        "local": (pa.timestamp("us"), pa.scalar("2024-01-02T03:04:05.000006").cast(pa.timestamp("us"))),
    }  # fmt: skip
    fields = [pa.field(name, kind, nullable=name != "must") for name, (kind, _) in columns.items()]
    schema = pa.schema([SCHEMA.field("k"), pa.field("n", pa.int32()), *fields])
    given = {name: value for name, (_, value) in columns.items()}
    catalog.create_table(f"{shop}.d", schema, primary_key=["k"], defaults=given)
    return f"{shop}.d"


def test_spark_fills_left_out_columns_with_their_defaults(
    spark: SparkSession, catalog: Catalog, shop: str, defaults: str
) -> None:
    name = f"lakelog.{defaults}"
    catalog.table(defaults).append(pa.table({"k": [0], "n": pa.nulls(1, pa.int32())}))
    spark.sql(f"INSERT INTO {name} (k) VALUES (1)")
    spark.sql(f"INSERT INTO {name} (k) SELECT k + 2 FROM {name} WHERE k = 0")
    spark.sql(f"INSERT INTO {name} (text, k, must) VALUES (DEFAULT, 3, DEFAULT)")
    spark.range(4, 5).toDF("k").writeTo(name).append()
    spark.range(5, 6).toDF("k").write.mode("append").saveAsTable(name)
    spark.table(name).where("k = 0").selectExpr("k + 6 AS k").writeTo(name).append()
    first, *others = [row[1:] for row in rows_of(catalog, defaults)]
    assert others == [first] * 6
    assert first[:2] == (None, -5)
    spark.sql(f"INSERT INTO {name} (k, text) VALUES (1, NULL)")
    assert run(spark, f"SELECT must, text FROM {name} WHERE k = 1") == [(-5, None)]
    spark.sql(f"INSERT OVERWRITE {name} (k, tiny) VALUES (9, 1)")
    assert run(spark, f"SELECT k, tiny, must, price FROM {name}") == [(9, 1, -5, Decimal("-1.50"))]
    frame = spark.table(name)
    own(spark, f"ALTER TABLE {defaults} ALTER COLUMN must SET DEFAULT 7")
    assert frame.count() == 1
    spark.sql(f"INSERT INTO {name} (k) VALUES (10)")
    assert run(spark, f"SELECT must FROM {name} WHERE k = 10") == [(7,)]


def test_rows_before_a_default_do_not_show_it(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    orders = f"lakelog.{shop}.orders"
    own(spark, f"ALTER TABLE {shop}.orders ADD COLUMN z INT")
    own(spark, f"ALTER TABLE {shop}.orders ALTER COLUMN z SET DEFAULT 7")
    spark.sql(f"INSERT INTO {orders} (k) VALUES (3)")
    expected = [(1, None), (2, None), (3, 7)]
    assert run(spark, f"SELECT k, z FROM {orders}") == expected
    assert run(spark, f"SELECT k FROM {orders} WHERE z IS NULL") == [(1,), (2,)]
    read = spark.read.format("lakelog").option("table", f"{shop}.orders").schema(spark.table(orders).schema).load()
    assert sorted(map(tuple, read.select("k", "z").collect())) == expected
    own(spark, f"ALTER TABLE {shop}.orders ALTER COLUMN z DROP DEFAULT")
    spark.sql(f"INSERT INTO {orders} (k) VALUES (4)")
    assert run(spark, f"SELECT z FROM {orders} WHERE k = 4") == [(None,)]


def test_copies_of_a_table_are_those_of_sparks_own_tables(
    spark: SparkSession, catalog: Catalog, shop: str, defaults: str, tmp_path: Path
) -> None:
    name = f"lakelog.{defaults}"
    spark.sql(f"INSERT INTO {name} (k) VALUES (1)")
    assert ("must", "bigint", None) in run(spark, f"DESCRIBE TABLE {name}")
    spark.sql(f"CREATE TABLE lakelog.{shop}.a AS SELECT k, must FROM {name}")
    spark.table(name).select("k", "must").write.saveAsTable(f"lakelog.{shop}.b")
    lakelog.spark.save_as_table(spark.table(name).select("k", "must"), f"{shop}.c")
    for copy in "abc":
        spark.sql(f"INSERT INTO lakelog.{shop}.{copy} (k) VALUES (2)")
        assert rows_of(catalog, f"{shop}.{copy}") == [(1, -5), (2, None)]
    folder = str(tmp_path / "copy")
    spark.table(name).select("k", "must").write.parquet(folder)
    assert "DEFAULT" not in spark.read.parquet(folder).schema.json()
    spark.sql(f"CREATE TABLE {shop}_copy USING parquet AS SELECT k, must FROM {name}")
    try:
        spark.sql(f"INSERT INTO {shop}_copy (k) VALUES (2)")
        # Spark gives a copy in its own catalog the defaults of the columns, as it does for copies of its own tables.
        assert run(spark, f"SELECT k, must FROM {shop}_copy") == [(1, -5), (2, -5)]
    finally:
        spark.sql(f"DROP TABLE {shop}_copy")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM lakelog.{shop}.nope", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lakelog.nope{shop}.orders", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SHOW TABLES IN lakelog.nope{shop}", "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM {orders} VERSION AS OF 77", "no snapshot 77"),
        ("ALTER TABLE {orders} ADD COLUMN n INT DEFAULT 5", "ADD COLUMN n ... DEFAULT 5"),
        ("INSERT INTO {orders} VALUES ('x', 'y')", "CANNOT_SAFELY_CAST"),
        ("INSERT INTO {orders} VALUES (NULL, 'y')", "Column 'k' has None"),
        ("INSERT INTO {orders} SELECT 1", "NOT_ENOUGH_DATA_COLUMNS"),
        ("CREATE TABLE {orders} (a INT)", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE lakelog.{shop}.c (a INT) USING csv", "not one of 'csv'"),
        ("CREATE TABLE lakelog.{shop}.c (a INT) LOCATION '/tmp/x'", "chooses the place"),
        ("CREATE TABLE lakelog.nope{shop}.c (a INT)", "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE lakelog.{shop}.c (a INT) PARTITIONED BY (bucket(4, a))", "bucket"),
        ("ALTER TABLE {orders} DROP COLUMN k", "k"),
        ("ALTER TABLE {orders} ALTER COLUMN v TYPE INT", "(?i)int"),
        ("ALTER TABLE {orders} RENAME TO lakelog.{shop}.other", "cannot be renamed"),
        ("DELETE FROM {orders} WHERE length(v) = 1", "(?i)delete"),
        ("UPDATE {orders} SET v = 'z'", "UPDATE"),
        ("DROP DATABASE lakelog.{shop}", "orders"),
    ],
)
def test_what_spark_refuses_changes_nothing(
    spark: SparkSession, catalog: Catalog, shop: str, statement: str, said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.sql(statement.format(shop=shop, orders=f"lakelog.{shop}.orders")).collect()
    assert rows_of(catalog, f"{shop}.orders") == [(1, "a"), (2, "b")]
    assert catalog.tables(shop) == ["orders"]


def test_own_statements_and_queries_of_spark(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    spark.range(3).createOrReplaceTempView("three")
    own(spark, f"CREATE TABLE {shop}.t (id BIGINT, v STRING, PRIMARY KEY (id)) WITH ('bucket' = '1')")
    assert own(spark, f"INSERT INTO {shop}.t VALUES (1, 'x')") == [(f"Snapshot 1 of {shop}.t written.", f"{shop}.t", 1)]
    own(spark, f"INSERT INTO {shop}.t SELECT id + 10, concat('n', id) FROM three")
    own(spark, f"ALTER TABLE {shop}.t ADD COLUMN w INT")
    assert own(
        spark,
        f"WITH n AS (SELECT * FROM {shop}.t) SELECT n.id, n.w, o.v FROM n JOIN {shop}.orders o ON n.id = o.k "
        "WHERE n.id NOT IN (SELECT id + 5 FROM three) AND o.k < :limit",
        params={"limit": 100},
    ) == [(1, None, "a")]
    assert own(spark, f"SELECT count(*) FROM {shop}.t VERSION AS OF 1") == [(1,)]
    assert own(spark, f"SELECT count(*) FROM lakelog.{shop}.t") == [(4,)]
    own(spark, f"DELETE FROM {shop}.t WHERE id = 1")
    own(spark, f"UPDATE {shop}.t SET v = 'u' WHERE id = 11")
    own(spark, f"INSERT OVERWRITE {shop}.t SELECT id, v, 1 FROM {shop}.t WHERE id > 10")
    assert rows_of(catalog, f"{shop}.t") == [(11, "u", 1), (12, "n2", 1)]
    made = f"CREATE TABLE {shop}.c PRIMARY KEY (ID) WITH ('bucket' = '1') AS SELECT id FROM {shop}.t"
    assert own(spark, made)[0][2] == 1
    assert catalog.table(f"{shop}.c").primary_key == ("id",)
    assert "exists already" in own(spark, made.replace("TABLE ", "TABLE IF NOT EXISTS ", 1))[0][0]
    assert own(spark, f"SHOW TABLES IN {shop}") == [("c",), ("orders",), ("t",)]
    assert own(spark, "DESCRIBE t", database=shop)[0][0] in ("id", "v", "w")
    assert own(spark, f"CALL sys.create_tag('{shop}.t', 'one')") is not None
    assert own(spark, f"SELECT id FROM {shop}.`c$snapshots`") == [(1,)]
    assert own(spark, f"SELECT s.id FROM {shop}.c$snapshots s WHERE 'c$tags' > ''") == [(1,)]
    assert len(own(spark, f"EXPLAIN SELECT id FROM lakelog.{shop}.c$snapshots")) == 1
    own(spark, f"INSERT INTO lakelog.{shop}.c SELECT 99")
    own(spark, f"DROP TABLE {shop}.c")
    # Spark's own statements.
    own(spark, "CREATE OR REPLACE TEMPORARY VIEW one AS SELECT 1 AS x")
    assert own(spark, "SELECT * FROM one") == [(1,)]
    assert own(spark, "SET spark.sql.session.timeZone") == [("spark.sql.session.timeZone", "America/New_York")]


def test_wrong_statements(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    spark.range(3).createOrReplaceTempView("a_view")
    wrong: list[tuple[str, type[Exception], str]] = [
        ("", InvalidArgument, "empty|statement"),
        (
            f"MERGE INTO {shop}.orders o USING a_view w ON o.k = w.id WHEN MATCHED THEN DELETE",
            InvalidArgument,
            r"'a_view' is a temporary view of Spark.*lakelog\.spark\.merge",
        ),
        (f"DELETE FROM {shop}.orders WHERE k IN (SELECT id FROM a_view)", InvalidArgument, r"lakelog\.spark\.merge"),
        (f"DELETE FROM {shop}.orders WHERE k IN (SELECT id FROM no_view)", InvalidArgument, "no current database"),
        ("SHOW TABLES", InvalidArgument, "no current database"),
        (f"INSERT INTO {shop}.orders SELECT 1", InvalidArgument, "returns 1 column for 2"),
        (f"INSERT INTO {shop}.orders (k, zz) SELECT 1, 2", InvalidArgument, "no column 'zz'"),
        (f"INSERT INTO {shop}.orders SELECT NULL, 'a'", InvalidArgument, "'k'"),
        (f"INSERT INTO {shop}.nope SELECT 1", NotFound, "nope"),
        (f"CREATE TABLE {shop}.orders AS SELECT 1 AS x", AlreadyExists, "exists already"),
        (f"CREATE TABLE {shop}.c PRIMARY KEY (q) AS SELECT 1 AS x", InvalidArgument, "q"),
        (f"CREATE TABLE {shop}.c AS SELECT CAST(raise_error('stop') AS STRING) AS x", Exception, "stop"),
        (f"SELECT * FROM {shop}.nope", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELEC 1", PySparkException, "SELEC"),
    ]
    for statement, kind, said in wrong:
        with pytest.raises(kind, match=said):
            own(spark, statement)
    assert catalog.tables(shop) == ["orders"]
    assert rows_of(catalog, f"{shop}.orders") == [(1, "a"), (2, "b")]


def test_an_overwrite_from_itself_loses_no_rows(
    spark: SparkSession, catalog: Catalog, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = statements._query

    def query(*args: Any) -> Any:
        found = original(*args)
        catalog.table(f"{shop}.orders").upsert(put({3: "new"}))
        return found

    monkeypatch.setattr(statements, "_query", query)
    with pytest.raises(CommitConflict):
        own(spark, f"INSERT OVERWRITE {shop}.orders SELECT k, v FROM {shop}.orders WHERE k = 1")
    assert rows_of(catalog, f"{shop}.orders") == [(1, "a"), (2, "b"), (3, "new")]


def test_views_are_in_step(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    assert lakelog.spark.create_views(spark, shop, prefix=f"{shop}_") == [f"{shop}_orders"]
    assert run(spark, f"SELECT count(*) FROM {shop}_orders") == [(2,)]
    catalog.table(f"{shop}.orders").upsert(put({3: "c"}))
    assert run(spark, f"SELECT count(*) FROM {shop}_orders") == [(3,)]
    spark.range(1).createOrReplaceTempView(f"{shop}_mine")
    catalog.create_table(f"{shop}.other", SCHEMA)
    catalog.drop_table(f"{shop}.orders")
    assert lakelog.spark.create_views(spark, shop, prefix=f"{shop}_") == [f"{shop}_other"]
    assert run(spark, f"SELECT count(*) FROM {shop}_other") == [(0,)]
    views = {name for _, name, *_ in run(spark, f"SHOW VIEWS LIKE '{shop}*'")}
    assert views == {f"{shop}_other", f"{shop}_mine"}
    with pytest.raises(NotFound, match="nope"):
        lakelog.spark.create_views(spark, "nope")


def test_tables_from_data_frames(spark: SparkSession, catalog: Catalog, shop: str) -> None:
    name = f"{shop}.saved"
    rows = spark.range(4).selectExpr("id", "CAST(id AS DECIMAL(5, 1)) AS price", "named_struct('a', id) AS pair")
    result = lakelog.spark.save_as_table(rows, name, primary_key=["id"], options={"bucket": 2}, comment="saved")
    assert result is not None
    assert result.snapshot_id == 1
    table = catalog.table(name)
    assert (table.primary_key, table.comment, table.count()) == (("id",), "saved", 4)
    assert not table.schema.field("id").nullable
    assert lakelog.spark.save_as_table(rows, name, mode="ignore") is None
    with pytest.raises(AlreadyExists, match="mode='append'"):
        lakelog.spark.save_as_table(rows, name)
    lakelog.spark.save_as_table(rows.where("id = 0"), name, mode="append", primary_key=["id"])
    lakelog.spark.save_as_table(rows.where("id > 1"), name, mode="overwrite", writer="w", identifier=1)
    assert catalog.table(name).count() == 2
    assert catalog.table(name).uuid == table.uuid
    with pytest.raises(InvalidArgument, match="its own is id"):
        lakelog.spark.save_as_table(rows, name, mode="append", primary_key=["price"])
    with pytest.raises(InvalidArgument, match="'replace' is not possible"):
        lakelog.spark.save_as_table(rows, name, mode="replace")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="nope"):
        lakelog.spark.save_as_table(rows, "nope.saved")
    failing = spark.range(20_000).selectExpr("CAST(raise_error('stop') AS STRING) AS x")
    with pytest.raises((PySparkException, LakelogError), match="stop"):
        lakelog.spark.save_as_table(failing, f"{shop}.failed")
    assert "failed" not in catalog.tables(shop)


def test_a_spark_that_takes_no_classes(spark: SparkSession, shop: str) -> None:
    given = spark.conf.get(CATALOG_CONF, "")
    assert given
    spark.conf.unset(CATALOG_CONF)
    try:
        with pytest.raises(InvalidArgument, match="createOrReplaceTempView"):
            own(spark, f"SELECT * FROM {shop}.orders")
        with pytest.raises(InvalidArgument, match="createOrReplaceTempView"):
            lakelog.spark.create_views(spark, shop)
    finally:
        spark.conf.set(CATALOG_CONF, given)
