"""DELETE, UPDATE, MERGE and TRUNCATE as statements: names, counts, guards, plans."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import CommitConflict, InvalidArgument, NotFound, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.row_changes import RowChanges
from lakelog.sdk.tables.table import Table
from lakelog.sql import SqlSession
from lakelog.sql.query import duckdb_query
from lakelog.writes.row_changes.clauses import RowCounts


@pytest.fixture
def session(catalog: Catalog) -> SqlSession:
    session = SqlSession(catalog, "shop")
    session.execute("CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, s STRING, PRIMARY KEY (id)) WITH ('bucket' = '2')")
    session.execute("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
    session.execute("CREATE TABLE log (id BIGINT, v BIGINT, s STRING)")
    session.execute("INSERT INTO log SELECT * FROM t")
    return session


def _rows(session: SqlSession, name: str = "t") -> list[tuple[Any, ...]]:
    found = session.execute(f"SELECT id, v, s FROM {name} ORDER BY id").to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("name", ["t", "log"])
def test_statements_say_how_many_rows_they_changed(session: SqlSession, name: str) -> None:
    updated = session.execute(f"UPDATE {name} SET v = v + 1, s = DEFAULT WHERE id <> 1")
    assert updated.message == f"Snapshot 2 of shop.{name} written: 2 rows updated."
    assert (updated.table, updated.snapshot_id, updated.changed) == (f"shop.{name}", 2, RowCounts(updated=2))
    deleted = session.execute(f"DELETE FROM {name} WHERE v = 21")
    assert deleted.message == f"Snapshot 3 of shop.{name} written: 1 row deleted."
    assert session.execute(f"DELETE FROM {name} WHERE v = 21").message == f"No row of shop.{name} was changed."
    merged = session.execute(
        f"MERGE INTO {name} USING (SELECT id + 2 AS id, v, s FROM t) AS src ON {name}.id = src.id "
        "WHEN MATCHED THEN UPDATE SET s = src.s WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged.changed is not None
    assert merged.changed.updated == 1
    assert merged.changed.inserted >= 1
    left = len(_rows(session, name))
    assert session.execute(f"TRUNCATE TABLE {name}").changed == RowCounts(deleted=left)
    assert _rows(session, name) == []


def test_names_and_aliases_stand_before_columns(session: SqlSession) -> None:
    session.execute("UPDATE t SET t.v = t.v * 2 WHERE t.id = 1 AND shop.t.v = 10")
    session.execute("UPDATE shop.t AS x SET v = x.v + 1 WHERE x.id = 1")
    session.execute("DELETE FROM t y WHERE y.id = 3 AND (y.s = 'y.s' OR y.v > 0)")
    assert _rows(session) == [(1, 21, "a"), (2, 20, "b")]
    with pytest.raises(InvalidArgument, match="Both sides of the MERGE are named 't'"):
        session.execute("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE")
    session.execute(
        "MERGE INTO t USING log ON t.id = log.id WHEN MATCHED AND log.v = 10 THEN UPDATE SET s = log.s || '!'"
    )
    assert _rows(session) == [(1, 21, "a!"), (2, 20, "b")]
    with pytest.raises(NotFound):
        session.execute("UPDATE nothing SET v = 1")


def test_parameters_and_quotes(session: SqlSession) -> None:
    session.execute("UPDATE t SET s = :s WHERE id IN :ids", params={"s": "it's", "ids": [1, 2]})
    session.execute("UPDATE t SET s = 'two''s' WHERE s = 'it''s' AND id = 2")
    assert [row[2] for row in _rows(session)] == ["it's", "two's", "c"]


def test_guards_are_hints(session: SqlSession) -> None:
    session.execute("UPDATE t SET v = 1 WHERE id = 1")
    for statement in (
        "UPDATE t /*+ OPTIONS('if-snapshot' = '1') */ SET v = 2",
        "DELETE FROM t /*+ OPTIONS('if-snapshot' = '1') */ WHERE id = 1",
        "MERGE INTO t /*+ OPTIONS('if-snapshot' = '1') */ AS x USING log ON x.id = log.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(CommitConflict, match="if_snapshot=1"):
            session.execute(statement)
    with pytest.raises(InvalidArgument, match="commit-user"):
        session.execute("UPDATE t /*+ OPTIONS('commit-user' = 'w') */ SET v = 2")


def test_a_source_that_reads_the_table_is_read_again(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run, tries = duckdb_query.run_query, []

    def run_and_disturb(*arguments: Any) -> Any:
        found = run(*arguments)
        tries.append(1)
        if len(tries) == 1:
            SqlSession(session.catalog, "shop").execute("UPDATE t SET v = 100 WHERE id = 3")
        return found

    monkeypatch.setattr(duckdb_query, "run_query", run_and_disturb)
    session.execute(
        "MERGE INTO t AS x USING (SELECT 1 AS id, sum(v) AS total FROM t) AS y ON x.id = y.id "
        "WHEN MATCHED THEN UPDATE SET v = y.total"
    )
    monkeypatch.undo()
    assert _rows(session)[0] == (1, 130, "a")
    assert len(tries) == 2


def test_explain_shows_what_would_be_done(session: SqlSession) -> None:
    explained = session.execute(
        "EXPLAIN MERGE INTO t USING (SELECT * FROM log WHERE v > 10) AS l ON t.id = l.id "
        "WHEN MATCHED AND l.v = 20 THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    facts = {(row["operation"], row["object"], row["fact"]): row["value"] for row in explained.to_arrow().to_pylist()}
    assert facts["scan", "shop.log", "filter"] == "(`v` > 10)"
    assert facts["scan", "shop.t", "snapshot"] == "1"
    assert facts["write", "shop.t", "mode"] == "merge"
    assert facts["write", "shop.t", "clause 1"] == "WHEN MATCHED AND l.v = 20 THEN DELETE"
    update = session.execute("EXPLAIN UPDATE t AS x SET v = x.v + 1, s = DEFAULT WHERE x.id = 5").to_arrow().to_pylist()
    facts = {(row["operation"], row["object"], row["fact"]): row["value"] for row in update}
    assert facts["scan", "shop.t", "filter"] == "id = 5"
    assert facts["scan", "shop.t", "files"].endswith("of 2")
    assert (facts["write", "shop.t", "set v"], facts["write", "shop.t", "set s"]) == ("x.v + 1", "DEFAULT")
    assert session.execute("EXPLAIN DELETE FROM log").to_arrow().num_rows > 0
    assert _rows(session) == [(1, 10, "a"), (2, 20, "b"), (3, 30, "c")]


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id IN (SELECT id FROM chosen)", [1, 3]),
        ("id NOT IN (SELECT id FROM chosen WHERE id IS NOT NULL)", [2]),
        ("id NOT IN (SELECT id FROM chosen)", [1, 2, 3]),
        ("s = 'b' AND EXISTS (SELECT 1 FROM chosen c WHERE c.id = x.id AND c.id * 10 = v)", [1, 3]),
        ("v < (SELECT avg(v) FROM {name})", [2, 3]),
        ("x.v = (SELECT max(y.v) FROM {name} y WHERE y.id <= x.id) AND x.id > 2", [1, 2]),
        ("CASE WHEN id = 1 THEN TRUE WHEN id = 2 THEN NULL END", [2, 3]),
        ("s RLIKE '^[bc]$' -- and nothing else", [1]),
        ("(id, s) IN (SELECT id, s FROM {name} VERSION AS OF 1 WHERE id > 1)", [1]),
    ],
)
def test_conditions_beyond_filters(session: SqlSession, name: str, condition: str, left: list[int]) -> None:
    session.execute("CREATE TABLE chosen (id BIGINT)")
    session.execute("INSERT INTO chosen VALUES (2), (7), (NULL)")
    before = _rows(session, name)
    updated = session.execute(f"UPDATE {name} AS x SET v = -x.v WHERE {condition.format(name=name)}")
    assert updated.changed == RowCounts(updated=3 - len(left))
    assert [row for row in _rows(session, name) if row[1] > 0] == [row for row in before if row[0] in left]
    session.execute(f"UPDATE {name} SET v = abs(v)")
    deleted = session.execute(f"DELETE FROM {name} x WHERE {condition.format(name=name)}")
    assert deleted.changed == RowCounts(deleted=3 - len(left))
    assert _rows(session, name) == [row for row in before if row[0] in left]


def test_portions_are_tested_one_by_one(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.writes.row_changes.target_rows._PORTION_ROWS", 1)
    for name in ("t", "log"):
        session.execute(f"INSERT INTO {name} VALUES (4, 40, 'd'), (5, 50, 'e')")
        session.execute(f"DELETE FROM {name} WHERE v > (SELECT avg(v) FROM {name}) AND id <> 5")
        assert [row[0] for row in _rows(session, name)] == [1, 2, 3, 5]


@pytest.mark.parametrize("name", ["t", "log"])
@pytest.mark.parametrize("changed", ["the table", "another table"])
def test_what_a_condition_reads_must_be_unchanged(
    session: SqlSession, monkeypatch: pytest.MonkeyPatch, name: str, changed: str
) -> None:
    session.execute("CREATE TABLE chosen (id BIGINT)")
    session.execute("INSERT INTO chosen VALUES (1)")
    write, tries = RowChanges._write_portion, []

    def disturb(*arguments: Any) -> None:
        write(*arguments)
        tries.append(1)
        if len(tries) == 1:
            other = SqlSession(session.catalog, "shop")
            other.execute(
                f"INSERT INTO {name} VALUES (9, 900, 'z')" if changed == "the table" else "TRUNCATE TABLE chosen"
            )

    monkeypatch.setattr(RowChanges, "_write_portion", disturb)
    where = f"v < (SELECT max(v) FROM {name}) / 2" if changed == "the table" else "id NOT IN (SELECT id FROM chosen)"
    session.execute(f"DELETE FROM {name} WHERE {where}")
    assert [row[0] for row in _rows(session, name)] == ([9] if changed == "the table" else [])


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("id IN (SELECT nope FROM log)", "nope.*The columns: t has id, v, s; shop.log has"),
        ("id IN (SELECT id FROM nowhere)", "'shop.nowhere' does not exist"),
        ("id IN (SELECT id, v FROM log)", "2 columns"),
        ("v = (SELECT v FROM log)", "More than one row"),
        ("id IN (SELECT id FROM log) LIMIT 1", "Subqueries are not possible in a filter"),
        ("id IN (SELECT id FROM log", "Subqueries are not possible in a filter"),
        ("id = = 2", "Here stands a column"),
        ("nope IN (SELECT id FROM log)", "nope"),
        ("foo(id) = 1", "foo"),
    ],
)
@pytest.mark.parametrize("has_rows", [True, False])
def test_conditions_that_cannot_be(session: SqlSession, condition: str, words: str, has_rows: bool) -> None:
    if not has_rows:
        session.execute("TRUNCATE TABLE t")
        if "More than" in words:
            return
    snapshots = session.execute("SELECT count(*) FROM t$snapshots").to_arrow()
    for statement in ("DELETE FROM t", "UPDATE t SET v = 0"):
        with pytest.raises((InvalidArgument, NotFound), match=words):
            session.execute(f"{statement} WHERE {condition}")
    assert session.execute("SELECT count(*) FROM t$snapshots").to_arrow() == snapshots


def test_explain_of_a_condition_beyond_filters(session: SqlSession) -> None:
    found = session.execute("EXPLAIN DELETE FROM t WHERE id = 1 AND v IN (SELECT v FROM log WHERE id = 2)").to_arrow()
    facts = {(row["object"], row["fact"]): row["value"] for row in found.to_pylist()}
    assert facts["shop.t", "filter"] == "(`id` = 1)"
    assert facts["shop.log", "filter"] == "(`id` = 2)"
    assert facts["shop.t", "mode"] == "delete"


def test_a_missing_source_is_named(session: SqlSession) -> None:
    with pytest.raises(NotFound, match=r"'shop\.nowhere' does not exist"):
        session.execute("MERGE INTO t USING nowhere AS s ON t.id = s.id WHEN MATCHED THEN DELETE")


def test_columns_of_a_source_are_named_after_its_alias(session: SqlSession) -> None:
    session.execute(
        "MERGE INTO t USING (VALUES (1, 11), (5, 55)) AS s(id, n) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.n WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.n)"
    )
    assert _rows(session) == [(1, 11, "a"), (2, 20, "b"), (3, 30, "c"), (5, 55, None)]


@pytest.mark.parametrize("name", ["t", "log"])
def test_truncate_counts_the_rows_that_it_has_removed(
    session: SqlSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    overwrite = Table.overwrite

    def disturb(table: Table, *arguments: Any, **named: Any) -> Any:
        SqlSession(session.catalog, "shop").execute(f"INSERT INTO {name} VALUES (8, 1, 'y'), (9, 1, 'z')")
        return overwrite(table, *arguments, **named)

    monkeypatch.setattr(Table, "overwrite", disturb)
    assert session.execute(f"TRUNCATE TABLE {name}").changed == RowCounts(deleted=5)
    monkeypatch.undo()
    assert _rows(session, name) == []
    assert session.execute(f"TRUNCATE TABLE {name}").changed == RowCounts()


def test_truncate_of_a_table_without_a_snapshot(session: SqlSession) -> None:
    session.execute("CREATE TABLE empty (id BIGINT)")
    for _ in range(2):
        assert session.execute("TRUNCATE TABLE empty").changed == RowCounts()


def test_truncate_is_done_if_its_rows_can_no_longer_be_counted(
    session: SqlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(table: Table, **state: Any) -> None:
        raise SnapshotExpired("Snapshot 1 has expired.")

    monkeypatch.setattr(Table, "scan", scan)
    result = session.execute("TRUNCATE TABLE t")
    assert (result.changed, result.snapshot_id) == (None, 2)
    assert result.message == "Snapshot 2 of shop.t written: the number of rows is not known."
    monkeypatch.undo()
    assert _rows(session) == []
