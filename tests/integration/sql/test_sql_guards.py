"""INSERT that rests on what was read: of the table itself without a word, else by OPTIONS behind its name."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.sdk.tables.table import Table
from lakelog.sql import SqlSession


def names(session: SqlSession, table: str = "users") -> list[str]:
    found = session.execute(f"SELECT u FROM {table} ORDER BY u").rows
    assert found is not None
    return found.column("u").to_pylist()


def append_after_each_scan(session: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer adds a row as soon as a query has settled which snapshot of a table it reads."""
    scan = Table.scan

    def scan_then_append(self: Table, *arguments: Any, **more: Any) -> Any:
        found = scan(self, *arguments, **more)
        with monkeypatch.context() as inner:
            inner.setattr(Table, "scan", scan)
            SqlSession(session.catalog, "shop").execute(f"INSERT INTO {self.name} VALUES ('other')")
        return found

    monkeypatch.setattr(Table, "scan", scan_then_append)


@pytest.fixture
def users(session: SqlSession) -> SqlSession:
    session.execute("CREATE TABLE users (u STRING)")
    session.execute("INSERT INTO users VALUES ('a'), ('b')")
    return session


@pytest.mark.parametrize(
    "query", ["SELECT u FROM users WHERE u <> 'a'", "SELECT x.u FROM users x JOIN users y ON x.u = y.u"]
)
def test_an_overwrite_from_its_own_table_takes_no_row_of_another(
    users: SqlSession, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    with monkeypatch.context() as inner:
        append_after_each_scan(users, inner)
        with pytest.raises(CommitConflict, match=r"shop.users has changed since snapshot 1 \(if_snapshot=1\)"):
            users.execute(f"INSERT OVERWRITE users {query}")
    assert {"a", "b", "other"} == set(names(users))
    users.execute(f"INSERT OVERWRITE users {query}")
    assert "other" in names(users)


def test_an_empty_table_is_guarded_as_well(users: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    users.execute("CREATE TABLE fresh (u STRING)")
    with monkeypatch.context() as inner:
        append_after_each_scan(users, inner)
        with pytest.raises(CommitConflict, match="since snapshot 0"):
            users.execute("INSERT OVERWRITE fresh SELECT u FROM fresh UNION ALL SELECT u FROM fresh")
    assert set(names(users, "fresh")) == {"other"}


def test_other_tables_and_named_snapshots_guard_nothing(users: SqlSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier state is asked for by name: it is meant to replace what came since."""
    users.execute("CREATE TABLE copy (u STRING)")
    with monkeypatch.context() as inner:
        append_after_each_scan(users, inner)
        users.execute("INSERT OVERWRITE copy SELECT u FROM users")
        users.execute("INSERT OVERWRITE users SELECT u FROM users VERSION AS OF 1")
    assert names(users) == ["a", "b"]


def test_options_after_the_name_guard_any_insert(users: SqlSession) -> None:
    users.execute("INSERT INTO users /*+ OPTIONS('if-snapshot' = '1') */ VALUES ('c')")
    for key in ("if-snapshot", "if-unchanged"):
        for rows in ("VALUES ('d')", "SELECT u FROM users"):
            with pytest.raises(CommitConflict, match=rf"since snapshot 1 \({key.replace('-', '_')}=1\)"):
                users.execute(f"INSERT INTO users /*+ OPTIONS('{key}' = '1') */ {rows}")
    with pytest.raises(InvalidArgument, match=r"if-snapshop.*if-snapshot"):
        users.execute("INSERT INTO users /*+ OPTIONS('if-snapshop' = '1') */ VALUES ('d')")
    with pytest.raises(InvalidArgument, match="INSERT cannot give one"):
        users.execute("INSERT INTO users /*+ OPTIONS('commit-user' = 'me') */ VALUES ('d')")
    with pytest.raises(InvalidArgument, match="Hints are possible only after a table"):
        users.execute("INSERT INTO /*+ OPTIONS('if-snapshot' = '1') */ users VALUES ('d')")
    assert names(users) == ["a", "b", "c"]


def test_a_rollback_is_guarded(users: SqlSession) -> None:
    users.execute("INSERT INTO users VALUES ('c')")
    with pytest.raises(CommitConflict, match="since snapshot 1"):
        users.execute("CALL sys.rollback_to('users', 1, if_snapshot => 1)")
    users.execute("CALL sys.rollback_to('users', 1, if_snapshot => 2)")
    assert names(users) == ["a", "b"]
