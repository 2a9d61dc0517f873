"""Hints: options of one read of a query, as users of Flink write them, and what no hint may be."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.sql import SqlSession

FIRST = "/*+ OPTIONS('scan.snapshot-id' = '1') */"


def rows(session: SqlSession, sql: str) -> list[tuple[Any, ...]]:
    result = session.execute(sql).rows
    assert result is not None
    return [tuple(row.values()) for row in result.to_pylist()]


@pytest.fixture
def filled(session: SqlSession) -> SqlSession:
    session.execute("CREATE TABLE t (id INT)")
    for number in (1, 2, 3):
        session.execute(f"INSERT INTO t VALUES ({number})")
    return session


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT count(*) FROM t {FIRST}", [(1,)]),
        (f"SELECT count(*) FROM shop.t {FIRST} WHERE id > 0", [(1,)]),
        (f"SELECT count(*) FROM t {FIRST} AS x WHERE x.id = 1", [(1,)]),
        ("SELECT max(id) FROM t AS x /*+ options('scan.snapshot-id'='2')*/", [(2,)]),
        ("SELECT sum(id) FROM t /*+ OPTIONS('incremental-between' = '1,3') */", [(5,)]),
        (f"SELECT a.id, b.id AS other FROM t {FIRST} a JOIN t b ON b.id = a.id + 2", [(1, 3)]),
        (f"WITH q AS (SELECT * FROM t {FIRST}) SELECT count(*) FROM q", [(1,)]),
        (f"SELECT id FROM t WHERE id NOT IN (SELECT id FROM t {FIRST}) ORDER BY id", [(2,), (3,)]),
        # A comment is no hint, and a hint to the planner changes no rows.
        ("SELECT count(*) FROM t /* OPTIONS('scan.snapshot-id' = '1') */", [(3,)]),
        ("SELECT count(*) FROM t /*lakelog options 0*/", [(3,)]),
        ("SELECT /*+ BROADCAST(t) */ count(*) FROM t", [(3,)]),
        ("SELECT '/*+ OPTIONS(1) */' AS text", [("/*+ OPTIONS(1) */",)]),
        ("SELECT count(*) FROM t FOR SYSTEM_VERSION AS OF 2", [(2,)]),
    ],
)
def test_options_of_one_read(filled: SqlSession, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(filled, sql) == expected


def test_changes_are_the_same_whatever_a_query_names(session: SqlSession) -> None:
    session.execute("CREATE TABLE u (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    session.execute("INSERT INTO u VALUES (1, 'a')")
    session.execute("INSERT INTO u VALUES (1, 'b')")
    changed = "u /*+ OPTIONS('incremental-between' = '0,2', 'incremental-between-scan-mode' = 'changelog') */"
    assert rows(session, f"SELECT * FROM {changed}") == [(1, "a", "+I"), (1, "a", "-U"), (1, "b", "+U")]
    assert rows(session, f"SELECT count(*) FROM {changed}") == [(3,)]
    assert rows(session, f"SELECT _row_kind FROM {changed} WHERE id = 1 AND v = 'b'") == [("+U",)]


def test_an_insert_reads_with_options(filled: SqlSession) -> None:
    filled.execute(f"INSERT INTO t SELECT id + 10 FROM t {FIRST}")
    assert rows(filled, "SELECT id FROM t WHERE id > 3") == [(11,)]


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshotid' = '1') */", ["scan.snapshotid", "scan.snapshot-id"]),
        ("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest') */", ["scan.mode", "option of subscriptions"]),
        (f"SELECT * FROM t VERSION AS OF 1 {FIRST}", ["character 33", "directly follow"]),
        (f"SELECT * FROM t WHERE id > 1 {FIRST}", ["character 30", "directly follow"]),
        (f"WITH q AS (SELECT 1) SELECT * FROM q {FIRST}", ["directly follow"]),
        (f"SELECT * FROM t$tags {FIRST}", ["t$tags", "only the present state"]),
        ("SELECT * FROM t /*+ BROADCAST(t) */", ["character 17", "OPTIONS("]),
        ("SELECT * FROM t /*+ OPTIONS('a' = '1'), OPTIONS('b' = '2') */", ["Give one OPTIONS"]),
        ("INSERT INTO /*+ OPTIONS('if-snapshot' = '2') */ t VALUES (1)", ["character 13", "Leave it out"]),
        ("INSERT INTO t VALUES /*+ OPTIONS('if-snapshot' = '2') */ (1)", ["character 22", "Leave it out"]),
    ],
)
def test_hints_that_cannot_be(filled: SqlSession, sql: str, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        filled.execute(sql)
    for part in parts:
        assert part in caught.value.message


def test_a_filter_has_no_hints(filled: SqlSession) -> None:
    with pytest.raises(InvalidArgument, match="Hints are possible only"):
        filled.catalog.table("shop.t").scan(filter="id = 1 /*+ x */")


def test_a_query_to_insert_may_stand_in_parentheses(filled: SqlSession) -> None:
    filled.execute("INSERT INTO t (SELECT id + 10 FROM t WHERE id = 1)")
    filled.execute("INSERT INTO t (id) (WITH q AS (SELECT 12 AS id) SELECT id FROM q)")
    assert rows(filled, "SELECT id FROM t WHERE id > 3 ORDER BY id") == [(11,), (12,)]
