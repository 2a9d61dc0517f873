"""Two callers that use one name for the first time, at one moment, on metastores of their own: one of them gets it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import PermissionDenied
from metastore.commits.group_queue import GroupQueue
from metastore.ownership import Principal
from metastore.postgres.commits.commits import PostgresCommits
from metastore.postgres.schema import migration
from metastore.postgres.schema.alembic_steps import upgrade
from metastore.postgres.schema.all_tables import metadata
from metastore.postgres.schema.revisions import read_revisions
from metastore.postgres.store import PostgresTransaction
from metastore.testing import InProcessMetastore
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

    async def look_only(*_: Any) -> None:
        pass

    monkeypatch.setattr(PostgresCommits, "take_names", look_only)
    assert [winners(rivals, commit, commit) for _ in range(3)] == [2, 2, 2]


def others_at_the_gate(on: InProcessMetastore, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What becomes of another writer's commit while one of six commits under a new name takes long: answered, waits.

    The six are for tables of their own, as many as the gate has groups.
    """
    write = PostgresCommits.record_group
    tables = [make_table(on) for _ in range(7)]
    begun, release = threading.Event(), threading.Event()

    async def record_group(self: PostgresCommits, records: Any) -> None:
        if not begun.is_set() and records.results[0].identifier == 1:
            begun.set()
            while not release.is_set():
                await asyncio.sleep(0.01)
        await write(self, records)

    monkeypatch.setattr(PostgresCommits, "record_group", record_group)
    name = f"six-{next(_names)}"
    alice, bob = (on.acting_as(Principal(each)) for each in ("alice", "bob"))
    with ThreadPoolExecutor(7) as pool:
        first = pool.submit(commit, alice, name, tables[0].table_uuid)
        assert begun.wait(30)
        same = [pool.submit(commit, alice, name, table.table_uuid) for table in tables[1:6]]
        waiting = 0
        with psycopg.connect(database, autocommit=True) as connection:
            while waiting < 5 and not all(each.done() for each in same):
                rows = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
                waiting = rows.fetchall()[0][0]
        other = pool.submit(commit, bob, f"other-{next(_names)}", tables[6].table_uuid)
        if waiting < 5:
            other.result(30)
        outcome = "answered" if other.done() else "waits"
        release.set()
        for each in (first, *same, other):
            each.result(30)
    return outcome


def test_six_commits_under_a_new_name_leave_the_gate_to_others(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_in_process(migrated_url)
    assert others_at_the_gate(opened, migrated_url.replace("+psycopg", ""), monkeypatch) == "answered"
    opened.close()


def test_control_with_a_claim_at_the_beginning(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are there turns, which leave a group to other callers."""
    make_queue = GroupQueue.__init__
    monkeypatch.setattr(GroupQueue, "__init__", lambda self, commits, files, _: make_queue(self, commits, files, 6))
    opened = open_in_process(migrated_url)
    lock = PostgresTransaction.lock_group

    async def lock_group(self: PostgresTransaction, keys: Any) -> Any:
        await self.claim_writers({keys.writers[0]: "bob" if keys.writers[0].startswith("other") else "alice"})
        return await lock(self, keys)

    monkeypatch.setattr(PostgresTransaction, "lock_group", lock_group)
    assert others_at_the_gate(opened, migrated_url.replace("+psycopg", ""), monkeypatch) == "waits"
    opened.close()


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
