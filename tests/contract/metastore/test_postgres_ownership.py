"""Two callers that use one name for the first time, at one moment, on metastores of their own: one of them gets it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import PermissionDenied
from metastore.ownership import Principal
from metastore.postgres.commits import commits
from metastore.postgres.schema import migration
from metastore.postgres.schema.alembic_steps import upgrade
from metastore.postgres.schema.all_tables import metadata
from metastore.postgres.schema.revisions import read_revisions
from metastore.postgres.store import PostgresTransaction
from tests.support.metastore.making import empty, make_table
from tests.support.metastore.opening import open_in_process

Use: TypeAlias = Callable[[Metastore, str, str], Any]

ROUNDS = 25
_names = itertools.count(1)


@pytest.fixture
def rivals(migrated_url: str) -> Iterator[tuple[Metastore, Metastore]]:
    opened = [open_in_process(migrated_url) for _ in range(2)]
    yield opened[0].acting_as(Principal("alice")), opened[1].acting_as(Principal("bob"))
    for each in opened:
        each.close()


def commit(on: Metastore, name: str, table_uuid: str) -> Any:
    return on.commit(empty(on.get_table_by_uuid(table_uuid), 1, writer=name))


def stage(on: Metastore, name: str, table_uuid: str) -> Any:
    return on.stage_attempt([table_uuid], name)


def register(on: Metastore, name: str, table_uuid: str) -> Any:
    return on.register_writer(name)


def winners(rivals: tuple[Metastore, Metastore], *uses: Use) -> int:
    """How many of the rivals could use a new name; each uses it in a table of its own, so that no lock orders them."""
    tables = [make_table(each) for each in rivals]
    name = f"name-{next(_names)}"

    def use(place: int) -> bool:
        try:
            uses[place](rivals[place], name, tables[place].table_uuid)
        except PermissionDenied:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(use, range(2)))


@pytest.mark.parametrize("other", [commit, stage, register])
@pytest.mark.parametrize("one", [commit, stage, register])
def test_one_of_two_gets_a_name(rivals: tuple[Metastore, Metastore], one: Use, other: Use) -> None:
    for _ in range(ROUNDS):
        assert winners(rivals, one, other) == 1


def test_control_without_waiting_for_the_rival(
    rivals: tuple[Metastore, Metastore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is only looked up is free for both."""
    monkeypatch.setattr(commits, "_claims", lambda claims: [])

    async def lock_group(self: PostgresTransaction, keys: Any) -> Any:
        keys.claims.clear()
        return await looked_up(self, keys)

    looked_up = PostgresTransaction.lock_group
    monkeypatch.setattr(PostgresTransaction, "lock_group", lock_group)
    assert [winners(rivals, commit, commit) for _ in range(3)] == [2, 2, 2]


def test_a_name_of_before_owners_belongs_to_its_next_user(migrated_url: str) -> None:
    """Its row is there, without an owner."""
    opened = open_in_process(migrated_url)
    table = make_table(opened)
    epoch = opened.register_writer("old")
    alice, bob = (opened.acting_as(Principal(name)) for name in ("alice", "bob"))
    alice.commit(empty(table, 1, writer="old", epoch=epoch))
    with pytest.raises(PermissionDenied, match="'alice'"):
        bob.register_writer("old")
    assert alice.register_writer("old") > epoch
    opened.close()


def test_the_migration_frees_the_names_of_jobs(postgres_url: str) -> None:
    """Whoever had registered one had fenced all later holders of the job."""
    url = postgres_url.replace("+psycopg", "")
    with migration._connect(url) as connection:
        before = read_revisions().previous["0004"]
        assert before is not None
        upgrade(connection, metadata, migration.VERSION_TABLE, to=before)
        connection.exec_driver_sql("INSERT INTO writer (writer, epoch) VALUES ('job/7', 3), ('w', 2)")
        connection.commit()
    migration.migrate(url)
    with migration._connect(url) as connection:
        rows = connection.exec_driver_sql("SELECT writer, epoch, owner FROM writer").fetchall()
    assert [tuple(row) for row in rows] == [("w", 2, None)]
