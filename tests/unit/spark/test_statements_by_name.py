"""Which statements of `lakelog.spark.sql` are lakelog's own, and which ones are Spark's."""

from __future__ import annotations

import pytest

from lakelog.spark.names.statements import is_own, is_query, quote_system_names


@pytest.mark.parametrize(
    "statement",
    [
        "",
        " -- nothing\n",
        "CREATE TABLE shop.t (temp INT)",
        "create or replace table shop.t (a INT)",
        "/* why */ INSERT INTO shop.t SELECT a[0] FROM x",
        "DELETE FROM shop.t",
        "MERGE INTO shop.t USING s ON 1 = 1 WHEN MATCHED THEN DELETE",
        "SHOW TABLES IN shop",
        "CALL sys.compact('shop.t')",
    ],
)
def test_own_statements(statement: str) -> None:
    assert is_own(statement)
    assert not is_query(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SET a = 1",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "SHOW VIEWS",
        "DESCRIBE FUNCTION abs",
        "USE lakelog.shop",
        "EXPLAIN SELECT 1",
        "CACHE TABLE t",
    ],
)
def test_statements_of_spark(statement: str) -> None:
    assert not is_own(statement)
    assert not is_query(statement)


@pytest.mark.parametrize(
    "statement", ["select a[0] FROM shop.t", "-- c\n/* d */ WITH x AS (SELECT 1) FROM x", "(SELECT 1)", "VALUES (1)"]
)
def test_queries(statement: str) -> None:
    assert is_query(statement)
    assert not is_own(statement)


@pytest.mark.parametrize(
    ("statement", "quoted"),
    [
        ("SELECT * FROM shop.o$snapshots s", "SELECT * FROM shop.`o$snapshots` s"),
        ("FROM lakelog.shop.o$files JOIN o$tags", "FROM lakelog.shop.`o$files` JOIN `o$tags`"),
        ("SELECT 'it''s a$b', \"a$b\", r'\\', 'a$b'", None),
        (r"SELECT 'it\'s a$b' FROM `o$files`", None),
        ("SELECT 1 -- a$b\n/* c$d\n */ FROM x", None),
        ("SELECT ${v}, $$ a$b $$, $t$ a$b $$ $t$", None),
        ("-- it's\nSELECT 1 FROM a$b", "-- it's\nSELECT 1 FROM `a$b`"),
    ],
)
def test_names_of_system_tables_are_quoted(statement: str, quoted: str | None) -> None:
    assert quote_system_names(statement) == (statement if quoted is None else quoted)
