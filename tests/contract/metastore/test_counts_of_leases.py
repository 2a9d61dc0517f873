"""Names of leases and pipelines that a writer makes up have a bound; it refuses no other caller and no known name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import PermissionDenied, ResourceExhausted
from lakelog.format.jobs.work import Pipeline
from metastore.jobs import leases, pipelines
from metastore.postgres.jobs import work
from metastore.postgres.schema import migration
from metastore.postgres.schema.alembic_steps import upgrade
from metastore.postgres.schema.all_tables import metadata
from metastore.store.transaction import Transaction
from metastore.testing import InProcessMetastore
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.parties import Parties, open_parties

REPORT = Pipeline("p", "shop.flights", "/in", "running", 7, "120 of 365 files", 245, 1000, 3, "")

Take = Callable[[GrpcMetastore, str], int]


@pytest.fixture(params=["memory", "postgres"])
def parties(request: pytest.FixtureRequest) -> Iterator[Parties]:
    with open_parties(request.getfixturevalue("migrated_url") if request.param == "postgres" else None) as opened:
        yield opened


def take_lease(who: GrpcMetastore, name: str) -> int:
    """Takes a free lease and returns its epoch."""
    grant = who.acquire_lease(f"pipeline/{name}", "host", 60_000)
    assert grant.acquired
    return grant.epoch


def take_and_report(who: GrpcMetastore, name: str) -> int:
    epoch = take_lease(who, name)
    who.report_pipeline(replace(REPORT, name=name), epoch)
    return epoch


def give_back(who: GrpcMetastore, name: str, epoch: int) -> None:
    who.release_lease(f"pipeline/{name}", epoch)


@pytest.mark.parametrize(
    ("take", "reason", "field"),
    [(take_lease, "TOO_MANY_LEASE_NAMES", "lease"), (take_and_report, "TOO_MANY_PIPELINES", "pipeline.name")],
    ids=["leases", "pipelines"],
)
def test_a_caller_has_a_limit_of_its_own(
    parties: Parties, monkeypatch: pytest.MonkeyPatch, take: Take, reason: str, field: str
) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 3 if take is take_lease else 100)
    monkeypatch.setattr(pipelines, "MAX_PIPELINES", 3)
    alice, bob, root = parties.alice, parties.bob, parties.root
    epochs = {name: take(alice, name) for name in ("a0", "a1", "a2")}
    with pytest.raises(
        ResourceExhausted, match=rf"^{field} is '.*a3', and .*of.* is the limit of one caller. Use "
    ) as caught:
        take(alice, "a3")
    assert (caught.value.reason, caught.value.metadata["field"]) == (reason, field)
    assert caught.value.metadata["limit"] == "3"
    assert {each.name for each in alice.list_pipelines()} == (set() if take is take_lease else set(epochs))
    # Those that are there go on, and are taken again.
    assert alice.renew_lease("pipeline/a0", epochs["a0"], 60_000)
    give_back(alice, "a0", epochs["a0"])
    epochs["a0"] = take(alice, "a0")
    # Who waits for a lease takes none.
    assert not bob.acquire_lease("pipeline/a0", "other", 60_000).acquired
    # What one caller made up refuses no other one, and no admin at all.
    give_back(bob, "b0", take(bob, "b0"))
    for number in range(5):
        give_back(root, f"r{number}", take(root, f"r{number}"))
    # A name that another caller made counts for the one that takes it, so two do not make more than theirs in turn.
    with pytest.raises(ResourceExhausted):
        take(alice, "b0")
    give_back(alice, "a0", epochs["a0"])
    take(bob, "a0")
    take(alice, "a4")
    with pytest.raises(ResourceExhausted):
        take(alice, "a5")


def test_control_without_a_limit(parties: Parties) -> None:
    """The same names without end: nothing else refuses them."""
    for number in range(5):
        take_and_report(parties.alice, f"a{number}")
    assert len(parties.bob.list_pipelines()) == 5


def test_a_refused_lease_is_still_free(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 1)
    take_lease(parties.alice, "a0")
    with pytest.raises(ResourceExhausted):
        take_lease(parties.alice, "new")
    give_back(parties.bob, "new", take_lease(parties.bob, "new"))
    with pytest.raises(ResourceExhausted):
        take_lease(parties.alice, "new")
    take_lease(parties.bob, "new")
    with pytest.raises(PermissionDenied, match="'bob'"):
        parties.alice.renew_lease("pipeline/new", parties.bob.acquire_lease("pipeline/new", "x", 1000).epoch, 1000)


def test_an_admin_makes_room_in_the_list(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "MAX_PIPELINES", 1)
    give_back(parties.alice, "old", take_and_report(parties.alice, "old"))
    with pytest.raises(ResourceExhausted, match="lakelog pipelines forget"):
        take_and_report(parties.alice, "new")
    parties.root.forget_pipeline("old")
    take_and_report(parties.alice, "newer")


def test_without_callers_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 1)
    monkeypatch.setattr(pipelines, "MAX_PIPELINES", 1)
    with open_parties(None, identified=False) as opened:
        for number in range(3):
            take_and_report(opened.alice, f"a{number}")


@pytest.fixture
def metastore(migrated_url: str) -> Iterator[InProcessMetastore]:
    opened = open_in_process(migrated_url)
    yield opened
    opened.close()


async def count_at_once(metastore: InProcessMetastore, *, waits: bool) -> tuple[int, int]:
    """What two transactions of one caller count, of which each has taken a lease before the other one ends.

    Args:
        metastore: Over Postgres.
        waits: Whether the second one should wait for the end of the first.
    """

    async def take(transaction: Transaction, name: str) -> int:
        await transaction.acquire_lease(name, "host", 60_000, "ann")
        return await transaction.count_leases("ann", 10)

    async def take_second() -> int:
        async with metastore.store.transaction() as transaction:
            return await take(transaction, "second")

    async with metastore.store.transaction() as transaction:
        first = await take(transaction, "first")
        second = asyncio.create_task(take_second())
        if waits:
            await asyncio.wait([second], timeout=0.3)
            assert not second.done()
        else:
            await second
    return first, await second


def test_two_leases_at_once_count_for_each_other(metastore: InProcessMetastore) -> None:
    assert metastore.run(count_at_once(metastore, waits=True)) == (1, 2)


def test_control_two_leases_at_once_without_the_lock(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_LOCK_OWNER", "SELECT %s::text")
    assert metastore.run(count_at_once(metastore, waits=False)) == (1, 1)


def test_pipelines_that_were_there_before_have_the_owners_of_their_leases(postgres_url: str) -> None:
    """So that they go on reporting, however many a caller has."""
    url = postgres_url.replace("+psycopg", "")
    with migration._connect(url) as connection:
        upgrade(connection, metadata, migration.VERSION_TABLE, to="0005")
        connection.exec_driver_sql(
            "INSERT INTO lease (name, epoch, holder, owner, deadline) VALUES ('pipeline/a', 1, 'h', 'alice', now())"
        )
        connection.exec_driver_sql(
            "INSERT INTO pipeline (name, table_name, source, state, position, total_rows, dead_letter_rows, last_error,"
            " reported_at_ms) SELECT n, 't', '', 'stopped', '', 0, 0, '', 0 FROM unnest(ARRAY['a', 'b']) n"
        )
        connection.commit()
    migration.migrate(url)
    with migration._connect(url) as connection:
        rows = connection.exec_driver_sql("SELECT name, owner FROM pipeline ORDER BY name").fetchall()
    assert [tuple(row) for row in rows] == [("a", "alice"), ("b", None)]
