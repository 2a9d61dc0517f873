"""What SQL says of databases, tables and statements themselves: SHOW ... LIKE, information_schema and EXPLAIN."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.sql import SqlSession
from tests.integration.sql.orders import ORDERS, fill, rows


def facts(session: SqlSession, sql: str) -> dict[tuple[str, str], dict[str, str]]:
    """By operation and object: facts by name."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for _, operation, name, fact, value in rows(session, sql):
        found.setdefault((operation, name), {})[fact] = value
    return found


def test_show_like(session: SqlSession) -> None:
    for name in ("orders", "order_items", "stock", "Ordering"):
        session.execute(f"CREATE TABLE {name} (a INT)")
    assert rows(session, "SHOW TABLES LIKE 'order%'") == [("Ordering",), ("order_items",), ("orders",)]
    assert rows(session, "SHOW TABLES IN shop LIKE 'order_'") == [("orders",)]
    assert rows(session, "SHOW TABLES LIKE 'st*'") == [("stock",)]
    assert rows(session, "SHOW TABLES LIKE 'st.ck'") == []
    session.execute("CREATE DATABASE other")
    assert rows(session, "SHOW DATABASES LIKE 'sh%'") == [("shop",)]
    with pytest.raises(InvalidArgument, match="is written in single quotes"):
        session.execute("SHOW TABLES LIKE orders")


def test_information_schema(session: SqlSession) -> None:
    session.execute(ORDERS)
    session.execute("CREATE DATABASE other COMMENT 'the other one'")
    session.execute("CREATE TABLE other.log (a INT, b ARRAY<STRING> COMMENT 'names') COMMENT 'a log'")
    session.execute("INSERT INTO other.log VALUES (1, NULL)")
    assert rows(session, "SELECT * FROM information_schema.schemata ORDER BY schema_name") == [
        ("lakelog", "other", "the other one"),
        ("lakelog", "shop", None),
    ]
    tables = "SELECT table_schema, table_name, table_type, comment, snapshot_id FROM information_schema.tables"
    assert rows(session, f"{tables} ORDER BY 1") == [
        ("other", "log", "BASE TABLE", "a log", 1),
        ("shop", "orders", "BASE TABLE", None, None),
    ]
    ((created_at,),) = rows(session, "SELECT created_at FROM information_schema.tables WHERE table_name = 'log'")
    assert abs(dt.datetime.now(dt.UTC) - created_at) < dt.timedelta(minutes=5)
    columns = "SELECT column_name, ordinal_position, is_nullable, data_type, primary_key_position, comment"
    assert rows(session, f"{columns} FROM INFORMATION_SCHEMA.columns WHERE table_name = 'orders' ORDER BY 2") == [
        ("id", 1, "NO", "BIGINT", 2, None),
        ("dt", 2, "NO", "STRING", 1, None),
        ("price", 3, "YES", "DECIMAL(10,2)", None, "in euros"),
        ("rating", 4, "YES", "DOUBLE", None, None),
    ]
    joined = (
        "SELECT t.table_name, count(*) FROM information_schema.tables t JOIN information_schema.columns c "
        "ON t.table_schema = c.table_schema AND t.table_name = c.table_name GROUP BY 1 ORDER BY 1"
    )
    assert rows(session, joined) == [("log", 2), ("orders", 4)]


def test_only_tables_that_are_meant_are_asked_for(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        session.execute(f"CREATE TABLE {name} (x INT)")
    asked: list[str] = []
    metastore = session.catalog.metastore
    get = metastore.get_table

    def noted(name: TableName) -> TableInfo:
        asked.append(str(name))
        return get(name)

    monkeypatch.setattr(metastore, "get_table", noted)
    query = "SELECT table_name FROM information_schema.tables"
    assert rows(session, f"{query} WHERE table_name IN ('a', 'b') AND table_schema = 'shop' ORDER BY 1") == [
        ("a",),
        ("b",),
    ]
    assert sorted(asked) == ["shop.a", "shop.b"]
    asked.clear()
    assert rows(session, f"{query} WHERE table_name = 'a' OR table_name = 'c' ORDER BY 1") == [("a",), ("c",)]
    assert len(asked) == 3
    assert rows(session, f"{query} WHERE table_schema = 'Shop'") == []


def test_views_that_do_not_exist(session: SqlSession) -> None:
    with pytest.raises(NotFound, match="There are schemata, tables, columns"):
        session.execute("SELECT * FROM information_schema.views")
    with pytest.raises(InvalidArgument, match="shows only the present state"):
        session.execute("SELECT * FROM information_schema.tables VERSION AS OF 3")
    with pytest.raises(InvalidArgument, match=r"information_schema\.tables has table_catalog, table_schema"):
        session.execute("SELECT nope FROM information_schema.tables")


def test_explain_shows_what_is_left_of_a_table(session: SqlSession) -> None:
    fill(session)
    session.execute("INSERT INTO orders VALUES (7, 'c', 1, NULL)")
    whole = facts(session, "EXPLAIN SELECT * FROM orders")["scan", "shop.orders"]
    assert whole == {
        "snapshot": "3",
        "files": "5 of 5",
        "buckets": whole["buckets"],
        "partitions": "3 of 3",
        "rows in files": "5 of 5",
        "bytes": whole["bytes"],
        "columns": "id, dt, price, rating",
        "filter": "none",
        "merge engine": "deduplicate, by dt, id",
    }
    part = facts(session, "EXPLAIN SELECT price FROM orders WHERE dt = 'b' AND rating * 2 > 1 ORDER BY price LIMIT 3")
    scan = part["scan", "shop.orders"]
    assert (scan["files"], scan["buckets"], scan["partitions"]) == ("1 of 5", f"1 of {whole['buckets'][0]}", "1 of 3")
    assert (scan["columns"], scan["filter"]) == ("dt, price, rating", "(`dt` = 'b')")
    assert ("query", "TOP_N") in part
    past = facts(session, "EXPLAIN SELECT count(*) FROM orders VERSION AS OF 1")["scan", "shop.orders"]
    assert (past["snapshot"], past["partitions"]) == ("1", "1 of 1")


def test_explain_reads_no_rows(session: SqlSession, tmp_path: Path) -> None:
    fill(session)
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"damaged")
    assert ("scan", "shop.orders") in facts(session, "EXPLAIN SELECT * FROM orders a JOIN orders b ON a.id = b.id")
    before = session.catalog.table("shop.orders").snapshots().num_rows
    assert facts(session, "EXPLAIN INSERT OVERWRITE orders SELECT * FROM orders")["write", "shop.orders"] == {
        "mode": "overwrite the partitions that the rows lie in",
        "columns": "id, dt, price, rating",
        "merge engine": "deduplicate, by dt, id",
        "changelog": "none",
        "guard": "refused where the table has changed since snapshot 2",
    }
    values = facts(session, "EXPLAIN INSERT INTO orders VALUES (1, 'a', 1, NULL), (2, 'a', 1, NULL)")
    assert (values["write", "shop.orders"]["rows"], values["write", "shop.orders"]["mode"]) == ("2", "upsert")
    made = facts(session, "EXPLAIN CREATE TABLE t PRIMARY KEY (id) AS SELECT id, price FROM orders")
    assert made["create", "shop.t"]["columns"] == "id BIGINT, price DECIMAL(10,2)"
    assert session.catalog.table("shop.orders").snapshots().num_rows == before
    assert rows(session, "SHOW TABLES") == [("orders",)]


def test_explain_of_files(session: SqlSession, tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"a": [number], "b": ["x"]}), tmp_path / f"{number}.parquet")
    read = f"read_parquet('{tmp_path}/*.parquet')"
    found = facts(session, f"EXPLAIN SELECT a FROM {read} WHERE a > 1")
    assert found["read files", read] == {"files": "3", "columns": "a"}
    assert "1" in found["query", "PYTHON_ARROW_SCAN"]["filters"]
    assert ("read", "orders$files") in facts(session, f"{_made(session)} SELECT * FROM orders$files")


def _made(session: SqlSession) -> str:
    session.execute(ORDERS)
    return "EXPLAIN"


@pytest.mark.parametrize(
    ("sql", "reported"),
    [
        ("EXPLAIN", "EXPLAIN is followed by SELECT"),
        ("EXPLAIN SHOW TABLES", "EXPLAIN is followed by SELECT"),
        ("EXPLAIN ANALYZE SELECT 1", "Leave this word out"),
        ("EXPLAIN SELECT nope FROM orders", "nope"),
        ("EXPLAIN INSERT INTO orders VALUES 1", "at character 35"),
    ],
)
def test_what_cannot_be_explained(session: SqlSession, sql: str, reported: str) -> None:
    session.execute(ORDERS)
    with pytest.raises(InvalidArgument) as failed:
        session.execute(sql)
    assert reported in failed.value.message
