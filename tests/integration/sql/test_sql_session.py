"""Statements against a metastore in this process and files in a folder."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import AlreadyExists, DataCorrupted, InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.sql import SqlSession, create_sql_of
from lakelog.sql.query.query import needed_columns, plan_select, pushed_filter
from tests.integration.sql.orders import ORDERS, fill, rows


def test_databases(session: SqlSession) -> None:
    assert session.execute("CREATE DATABASE IF NOT EXISTS shop").message == "Database shop exists already."
    with pytest.raises(AlreadyExists):
        session.execute("CREATE DATABASE shop")
    session.execute("CREATE DATABASE other COMMENT 'the other one'")
    assert rows(session, "SHOW DATABASES") == [("other",), ("shop",)]
    with pytest.raises(NotFound, match="othr"):
        session.execute("USE othr")
    assert session.execute("DROP DATABASE other").message == "Database other dropped."
    assert session.execute("DROP DATABASE IF EXISTS other").message == "There is no database other."
    session.execute(ORDERS)
    with pytest.raises(InvalidArgument, match=r"[Cc]ascade"):
        session.execute("DROP DATABASE shop")
    session.execute("DROP DATABASE shop CASCADE")
    with pytest.raises(InvalidArgument, match="no current database"):
        session.execute("SHOW TABLES")


def test_an_insert_returns_what_it_wrote(session: SqlSession) -> None:
    session.execute(ORDERS)
    wrote = session.execute("INSERT INTO orders VALUES (1, 'a', 1.50, 0.5)")
    assert (wrote.table, wrote.snapshot_id) == ("shop.orders", 1)
    nothing = session.execute("INSERT INTO orders SELECT * FROM orders WHERE id > 1")
    assert (nothing.table, nothing.snapshot_id) == ("shop.orders", None)
    assert session.execute("SHOW TABLES").table is None


def test_tables(session: SqlSession) -> None:
    assert session.execute(ORDERS).message == "Table shop.orders created."
    assert rows(session, "SHOW TABLES") == rows(session, "SHOW TABLES IN shop") == [("orders",)]
    assert rows(session, "DESCRIBE orders") == [
        ("id", "BIGINT", False, 2, None, None, None),
        ("dt", "STRING", False, 1, 1, None, None),
        ("price", "DECIMAL(10,2)", True, None, None, None, "in euros"),
        ("rating", "DOUBLE", True, None, None, None, None),
    ]
    session.execute("ALTER TABLE orders SET ('file.compression' = 'lz4')")
    assert rows(session, "SELECT * FROM orders$options ORDER BY key") == [("bucket", "2"), ("file.compression", "lz4")]
    with pytest.raises(InvalidArgument, match="'bucket' cannot change"):
        session.execute("ALTER TABLE orders SET ('bucket' = '8')")
    session.execute("ALTER TABLE orders RESET ('file.compression')")
    assert session.catalog.table("shop.orders").options == {"bucket": "2"}
    assert session.execute("DROP TABLE shop.orders").message == "Table shop.orders dropped."
    assert session.execute("DROP TABLE IF EXISTS orders").message == "There is no table shop.orders."
    with pytest.raises(NotFound):
        session.execute("DESCRIBE orders")


def test_show_create_table_makes_the_same_table(session: SqlSession) -> None:
    session.execute(ORDERS)
    ((statement,),) = rows(session, "SHOW CREATE TABLE orders")
    first = session.catalog.table("shop.orders")
    session.execute("DROP TABLE orders")
    session.execute(statement)
    second = session.catalog.table("shop.orders")
    assert (first.schema, first.primary_key, first.partition_by) == (
        second.schema,
        second.primary_key,
        second.partition_by,
    )
    assert first.options == second.options
    assert create_sql_of(second) == statement


def test_insert_and_select(session: SqlSession) -> None:
    fill(session)
    assert rows(session, "SELECT id, dt, price FROM orders ORDER BY dt, id") == [
        (1, "a", Decimal("9.99")),
        (2, "a", 2),
        (1, "b", 3),
    ]
    assert rows(session, "SELECT count(*) AS n FROM shop.orders") == [(3,)]
    assert rows(session, "SELECT id FROM orders WHERE price > 2.5 AND dt = 'b'") == [(1,)]
    assert rows(session, "SELECT o.dt, sum(o.price) FROM orders o GROUP BY o.dt ORDER BY 1 DESC LIMIT 1") == [("b", 3)]
    assert rows(session, "SELECT ORDERS.ID FROM shop.orders WHERE orders.dt = 'b'") == [(1,)]
    assert rows(session, "SELECT shop.orders.id FROM shop.orders WHERE rating IS NULL ORDER BY 1") == [(1,), (1,), (2,)]


def test_a_catalog_runs_single_statements(session: SqlSession) -> None:
    catalog = session.catalog
    assert isinstance(catalog, Catalog)
    assert catalog.sql(ORDERS, database="shop").message == "Table shop.orders created."
    assert catalog.sql("SELECT count(*) AS n FROM shop.orders").rows == pa.table({"n": [0]})
    with pytest.raises(InvalidArgument, match="no current database"):
        catalog.sql("SELECT * FROM orders")


def test_time_travel(session: SqlSession) -> None:
    fill(session)
    assert rows(session, "SELECT count(*) FROM orders VERSION AS OF 1") == [(2,)]
    assert rows(session, "SELECT count(*) FROM orders TIMESTAMP AS OF '2999-01-01 00:00:00'") == [(3,)]
    changed = """
        SELECT n.id, n.price - o.price FROM orders n
        JOIN orders VERSION AS OF 1 o ON n.id = o.id AND n.dt = o.dt WHERE n.price <> o.price
    """
    assert rows(session, changed) == [(1, Decimal("8.49"))]
    with pytest.raises(NotFound):
        session.execute("SELECT * FROM orders VERSION AS OF 99")
    with pytest.raises(NotFound, match=r"shop\.orders has no tag 'yesterday'; it has none"):
        session.execute("SELECT * FROM orders VERSION AS OF 'yesterday'")
    session.catalog.table("shop.orders").tags.create("first", 1)
    assert rows(session, "SELECT count(*) FROM orders VERSION AS OF 'first'") == [(2,)]
    assert rows(session, "SELECT sum(rows) FROM `orders$files` VERSION AS OF 'first'") == [(2,)]
    assert rows(session, "SELECT name, snapshot_id, rows FROM orders$tags") == [("first", 1, 2)]
    with session.catalog.subscribe(["shop.orders"], "latest", consumer_id="etl"):
        assert rows(session, "SELECT id, snapshot_id, expired FROM orders$consumers") == [("etl", 2, False)]
    by_hint = "SELECT count(*) FROM orders /*+ OPTIONS('scan.tag-name' = 'first') */"
    assert rows(session, by_hint) == [(2,)]
    with pytest.raises(InvalidArgument, match=r"VERSION AS OF 'a b' is no snapshot: give its id, .* or its tag in"):
        session.execute("SELECT * FROM orders VERSION AS OF 'a b'")
    with pytest.raises(InvalidArgument, match="'soon' is no timestamp"):
        session.execute("SELECT * FROM orders TIMESTAMP AS OF 'soon'")


def test_a_time_may_be_seconds_since_the_epoch(session: SqlSession) -> None:
    fill(session)
    assert rows(session, "SELECT count(*) AS n FROM orders TIMESTAMP AS OF 4102444800") == [(3,)]
    with pytest.raises(NotFound, match="at or before"):
        session.execute("SELECT * FROM orders TIMESTAMP AS OF 5")
    with pytest.raises(InvalidArgument, match="not milliseconds"):
        session.execute("SELECT * FROM orders TIMESTAMP AS OF 4102444800000")


def test_joins_subqueries_and_common_tables(session: SqlSession) -> None:
    fill(session)
    session.execute("CREATE TABLE days (dt STRING, name STRING)")
    session.execute("INSERT INTO days VALUES ('a', 'Monday'), ('c', 'Friday')")
    assert rows(session, "SELECT name, id FROM orders LEFT JOIN days USING (dt) ORDER BY name, id") == [
        (None, 1),
        ("Monday", 1),
        ("Monday", 2),
    ]
    assert rows(session, "SELECT id FROM orders LEFT JOIN days d ON orders.dt = d.dt WHERE d.name IS NULL") == [(1,)]
    assert rows(session, "SELECT name FROM days WHERE dt NOT IN (SELECT dt FROM orders)") == [("Friday",)]
    twice = "WITH o AS (SELECT * FROM orders) SELECT count(*) FROM o a, o b WHERE a.dt = b.dt"
    assert rows(session, twice) == [(5,)]
    assert rows(session, "SELECT id FROM orders WHERE dt = 'b' UNION ALL SELECT 7") == [(1,), (7,)]


def test_system_tables(session: SqlSession) -> None:
    fill(session)
    assert rows(session, "SELECT id, kind, added_rows FROM orders$snapshots ORDER BY id") == [
        (1, "APPEND", 2),
        (2, "APPEND", 2),
    ]
    assert rows(session, "SELECT sum(rows) FROM `orders$files` VERSION AS OF 1") == [(2,)]
    assert rows(session, "SELECT partition.dt, rows, last_snapshot FROM shop.orders$partitions ORDER BY 1") == [
        ("a", 3, 2),
        ("b", 1, 2),
    ]
    assert rows(session, "SELECT column, type FROM orders$schemas WHERE primary_key_position = 1") == [("dt", "STRING")]
    session.execute("ALTER TABLE orders ADD COLUMN added INT")
    ((version, added_ms),) = rows(
        session,
        "SELECT schema_id, epoch_ms(created_at) FROM orders$schemas WHERE column = 'added' AND created_by IS NULL",
    )
    info = session.catalog.table("shop.orders").info
    assert (version, added_ms) == (1, info.schema.created_at_ms)
    ((made_ms,),) = rows(session, "SELECT DISTINCT epoch_ms(created_at) FROM orders$schemas WHERE schema_id = 0")
    assert made_ms == info.created_at_ms
    with pytest.raises(NotFound, match=r"orders\$snapshot'.*\$snapshots"):
        session.execute("SELECT * FROM orders$snapshot")
    with pytest.raises(InvalidArgument, match="shows only the present state"):
        session.execute("SELECT * FROM orders$options VERSION AS OF 1")


def test_overwrites(session: SqlSession) -> None:
    fill(session)
    session.execute("INSERT OVERWRITE orders VALUES (5, 'a', 5, NULL)")
    assert rows(session, "SELECT id, dt FROM orders ORDER BY dt") == [(5, "a"), (1, "b")]
    session.execute(
        "INSERT OVERWRITE orders PARTITION (dt = 'b') (id, price, rating) VALUES (6, DEFAULT, NULL), (7, NULL, 1)"
    )
    assert rows(session, "SELECT id, dt FROM orders ORDER BY id") == [(5, "a"), (6, "b"), (7, "b")]
    session.execute("CREATE TABLE flat (a INT)")
    session.execute("INSERT INTO flat VALUES (1), (2)")
    session.execute("INSERT OVERWRITE flat SELECT a + 10 FROM flat WHERE a = 2")
    assert rows(session, "SELECT a FROM flat") == [(12,)]
    with pytest.raises(InvalidArgument, match=r"no partition column.*these are dt"):
        session.execute("INSERT OVERWRITE orders PARTITION (id = 1) VALUES ('a', 1, 1)")


def test_default_is_what_the_column_says(session: SqlSession) -> None:
    session.execute("CREATE TABLE d (id INT NOT NULL, n INT DEFAULT 7, t STRING DEFAULT 'x', at TIMESTAMP)")
    session.execute("ALTER TABLE d ALTER COLUMN at SET DEFAULT TIMESTAMP '2013-05-06 07:08:09'")
    session.execute("INSERT INTO d VALUES (1, DEFAULT, DEFAULT, DEFAULT), (2, NULL, NULL, NULL)")
    session.execute("INSERT INTO d (id, t) VALUES (3, DEFAULT), (4, 'y')")
    session.execute("INSERT INTO d (id) SELECT id + 4 FROM d WHERE id = 1")
    found = [(*row[:3], row[3] and str(row[3])[:19]) for row in rows(session, "SELECT * FROM d ORDER BY id")]
    at = "2013-05-06 07:08:09"
    assert found == [(1, 7, "x", at), (2, None, None, None), (3, 7, "x", at), (4, 7, "y", at), (5, 7, "x", at)]
    session.execute("ALTER TABLE d ALTER COLUMN n DROP DEFAULT")
    with pytest.raises(InvalidArgument, match=r"leaves out n of shop\.d\. Name all columns without a default"):
        session.execute("INSERT INTO d (id) VALUES (1)")


def test_inserts_into_a_partition(session: SqlSession) -> None:
    fill(session)
    session.execute("INSERT INTO orders PARTITION (dt = 'c') (id, price, rating) VALUES (8, 8, NULL), (9, 9, NULL)")
    session.execute("INSERT INTO orders PARTITION (dt = 'c') SELECT id, price, rating FROM orders WHERE dt = 'b'")
    assert rows(session, "SELECT id, dt FROM orders WHERE dt = 'c' ORDER BY id") == [(1, "c"), (8, "c"), (9, "c")]
    assert rows(session, "SELECT count(*) FROM orders") == [(6,)]
    with pytest.raises(InvalidArgument, match=r"'dt' is written twice"):
        session.execute("INSERT INTO orders PARTITION (dt = 'c') (id, dt) VALUES (8, 'c')")


def test_a_decimal_of_a_query_becomes_the_nearest_double(session: SqlSession) -> None:
    session.execute("CREATE TABLE numbers (d DOUBLE, f FLOAT, n DECIMAL(5, 2))")
    session.execute("INSERT INTO numbers SELECT 0.1, 0.5, 1.5")
    session.execute("INSERT INTO numbers SELECT n, n, n FROM numbers")
    assert rows(session, "SELECT d, f, n FROM numbers ORDER BY d") == [
        (0.1, 0.5, Decimal("1.50")),
        (1.5, 1.5, Decimal("1.50")),
    ]


def test_selects_may_have_what_our_own_statements_have_not(session: SqlSession) -> None:
    session.execute("CREATE TABLE nested (k INT, l ARRAY<INT>, m MAP<STRING, INT>)")
    session.execute("INSERT INTO nested VALUES (1, ARRAY[5, 6], MAP['a', 7])")
    assert rows(session, "SELECT l[0] AS a, m['a'] AS b, k | 4 AS c, k & 3 AS d, ~k AS e, k ^ 1 AS f FROM nested") == [
        (5, 7, 5, 1, -2, 0)
    ]
    session.execute("INSERT INTO nested (k, l, m) SELECT l[1], NULL, NULL FROM nested")
    assert rows(session, "SELECT k FROM nested ORDER BY k") == [(1,), (6,)]
    with pytest.raises(InvalidArgument, match=r"before '\[0"):
        session.catalog.table("shop.nested").scan(filter="l[0] = 5")


def test_common_tables_may_have_the_name_of_a_table(session: SqlSession) -> None:
    fill(session)
    last = "SELECT id FROM orders ORDER BY id DESC LIMIT 1"
    assert rows(session, f"WITH orders AS (SELECT id + 100 AS id FROM orders) {last}") == [(102,)]
    assert rows(session, f"WITH orders AS (SELECT id FROM orders VERSION AS OF 1), b AS ({last}) SELECT * FROM b") == [
        (2,)
    ]
    assert rows(
        session,
        "WITH a AS (SELECT count(*) AS n FROM orders), orders AS (SELECT 7 AS n) SELECT a.n, o.n AS o FROM a, orders o",
    ) == [(3, 7)]
    assert rows(
        session, "SELECT (WITH orders AS (SELECT 1 AS n) SELECT n FROM orders) AS n, count(*) AS c FROM orders"
    ) == [(1, 3)]


def test_inserts_that_cannot_be(session: SqlSession) -> None:
    session.execute(ORDERS)
    for sql, part in (
        ("INSERT INTO orders VALUES (1, 'a', 1)", "Row 1 has 3 values for 4 columns"),
        ("INSERT INTO orders (id, idd) VALUES (1, 1)", "no column 'idd'"),
        ("INSERT INTO orders (id, ID) VALUES (1, 1)", "written twice"),
        ("INSERT INTO orders (id) VALUES (1)", "leaves out dt, price, rating of shop.orders.*DEFAULT"),
        ("INSERT INTO orders (id, dt) SELECT 1, 'a'", "leaves out price, rating"),
        ("INSERT INTO orders VALUES (1, DEFAULT, 1, 1)", "It has no default, and the column is NOT NULL"),
        ("INSERT INTO orders VALUES (NULL, 'a', 1, 1)", "column 'id'.*NOT NULL"),
        ("INSERT INTO orders VALUES (1, 'a', 1.005, 1)", "column 'price'.*all of its digits"),
        ("INSERT INTO orders SELECT 1, 'a'", "returns 2 columns for 4"),
    ):
        with pytest.raises(InvalidArgument, match=f"(?s){part}"):
            session.execute(sql)
    assert session.catalog.table("shop.orders").snapshots().num_rows == 0


def test_queries_that_cannot_be(session: SqlSession) -> None:
    session.execute(ORDERS)
    for sql, part in (
        ("SELECT * FROM orders WHERE", "in line 1"),
        ("SELECT nope FROM orders", "nope"),
        ("SELECT * FROM read_text('/etc/passwd')", "is nothing that a query can read"),
        ("SELECT * FROM orders; SELECT 1", "2 statements"),
        ("SELECT * FROM a.b.c.d", "three parts"),
        ("SELECT read_text('/etc/passwd')", "cannot be run"),
        ("SELECT id FROM orders WHERE dt = 5 AND frobnicate(id)", "cannot be run"),
    ):
        with pytest.raises(InvalidArgument, match=part):
            session.execute(sql)
    with pytest.raises(NotFound, match="ordrs"):
        session.execute("SELECT * FROM ordrs")


def test_a_scan_gets_only_what_is_needed(session: SqlSession) -> None:
    session.execute(ORDERS)
    schema = session.catalog.table("shop.orders").schema

    def pushed(sql: str) -> tuple[list[str] | None, str | None]:
        plan = plan_select(sql)
        return needed_columns(plan, schema), pushed_filter(plan, plan.tables[0], schema)

    assert pushed("SELECT id FROM orders WHERE price > 5") == (["id", "price"], "(`price` > 5)")
    assert pushed("SELECT * FROM orders o WHERE o.dt = 'x' AND upper(o.dt) = 'X'") == (None, "(`dt` = 'x')")
    assert pushed("SELECT count(*) FROM orders") == (["id"], None)
    assert pushed("SELECT id FROM orders WHERE dt IN ('a', 'b') OR id BETWEEN 1 AND 5")[1] is not None
    assert pushed("SELECT id FROM orders LEFT JOIN x ON true WHERE orders.id = 5")[1] == "(`id` = 5)"
    # What may not be given to the scan.
    assert pushed("SELECT id FROM orders RIGHT JOIN x ON true WHERE orders.id = 5")[1] is None
    assert pushed("SELECT id FROM x LEFT JOIN orders ON true WHERE orders.id IS NULL")[1] is None
    assert pushed("SELECT id FROM orders JOIN x ON true WHERE id = 5")[1] is None
    assert pushed("SELECT id FROM orders WHERE id = 5 OR rating + 1 > 2")[1] is None
    assert pushed("SELECT id FROM orders WHERE dt = '\\\\'")[1] is None
    assert pushed("SELECT orders FROM orders")[0] is None


def test_floats_are_filtered_as_duckdb_does(session: SqlSession) -> None:
    session.execute("CREATE TABLE f (a FLOAT, b DOUBLE)")
    session.execute("INSERT INTO f VALUES (0.1, 0.1), (CAST('NaN' AS FLOAT), CAST('NaN' AS DOUBLE))")
    assert rows(session, "SELECT count(*) FROM f WHERE b = 0.1") == [(1,)]
    assert rows(session, "SELECT count(*) FROM f WHERE b > 5") == [(1,)]
    assert rows(session, "SELECT count(*) FROM f WHERE a = 0.1") == [(1,)]


def test_types_come_through(session: SqlSession) -> None:
    session.execute(
        "CREATE TABLE t (a TINYINT, b BINARY, c DATE, d TIMESTAMP, e TIMESTAMP_NTZ, f ARRAY<INT>, g MAP<STRING, INT>, "
        "h STRUCT<x: INT, y: STRING>, i BOOLEAN, j DECIMAL(38, 10))"
    )
    session.execute(
        "INSERT INTO t VALUES (1, X'00', '2020-01-01', '2020-01-01 00:00:00Z', '2020-01-01 05:00', array(1, NULL), "
        "map('k', 1), struct(1, 'y'), true, 1.5)"
    )
    result = session.execute("SELECT * FROM t").rows
    assert result is not None
    stored = session.catalog.table("shop.t").scan().to_arrow()
    assert result.schema.field("d").type == pa.timestamp("us", "UTC")
    assert result.to_pylist() == stored.to_pylist()


@pytest.mark.parametrize(
    "sql", ["SELECT sum(id) FROM orders", "SELECT id FROM orders WHERE id IN (SELECT id FROM orders)"]
)
def test_a_damaged_file_is_named(session: SqlSession, tmp_path: Path, sql: str) -> None:
    fill(session)
    for file in tmp_path.rglob("*.parquet"):
        file.write_bytes(b"damaged")
    with pytest.raises(DataCorrupted, match=r"\.parquet"):
        session.execute(sql)


def test_a_sum_of_whole_numbers_is_a_bigint(session: SqlSession) -> None:
    session.execute("CREATE TABLE t (small INT, large BIGINT)")
    session.execute("INSERT INTO t VALUES (1, 9223372036854775807), (2, 1)")
    found = session.execute("SELECT sum(small) AS total, sum(small) AS total, count(*) FROM t").rows
    assert found is not None
    assert found.schema.types == [pa.int64()] * 3
    assert found.columns[0].to_pylist() == [3]
    with pytest.raises(
        InvalidArgument, match=r"a sum is beyond the numbers of BIGINT\. Cast what is summed to DECIMAL"
    ):
        session.execute("SELECT sum(large) FROM t")
    assert rows(session, "SELECT sum(CAST(large AS DECIMAL(38, 0))) FROM t") == [(Decimal(2**63),)]
    assert rows(session, "SELECT 99999999999999999999") == [(Decimal("99999999999999999999"),)]


def test_what_fails_on_single_rows(session: SqlSession) -> None:
    fill(session)
    with pytest.raises(InvalidArgument, match=r"cannot be run.*Overflow"):
        session.execute("SELECT id + 9223372036854775807 FROM orders")


def test_without_duckdb_the_extra_is_named(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute(ORDERS)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InvalidArgument, match=r"pip install 'lakelog\[sql\]'"):
        session.execute("SELECT 1")
    assert rows(session, "SHOW TABLES") == [("orders",)]


def test_partitions_of_any_values_are_distinguished(session: SqlSession) -> None:
    session.execute("CREATE TABLE days (at TIMESTAMP_NTZ, n BIGINT) PARTITIONED BY (at)")
    times = pa.array([400_000_000_000_000_000, 0, None, 0], pa.timestamp("us"))  # The first one: the year 14645.
    session.catalog.table("shop.days").append(pa.table({"at": times, "n": [1, 2, 3, 4]}))
    found = session.execute("SELECT files, rows FROM days$partitions ORDER BY rows").rows
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, 1), (1, 1), (1, 2)]
    session.execute("CREATE TABLE plain (n BIGINT)")
    session.execute("INSERT INTO plain VALUES (1)")
    assert rows(session, "SELECT partition, files, rows FROM plain$partitions") == [(None, 1, 1)]
