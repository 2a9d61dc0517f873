"""C3: an epoch is never given twice, whatever the database is set back to; only the current one has effects."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Fenced, NotFound
from lakelog.format.commit.epochs import EPOCH_STEP, EPOCH_UNKNOWN
from lakelog.format.commit.request import Fence
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY
from lakelog.format.jobs.work import Pipeline
from lakelog.format.log.state import PublishReport, to_publisher_lease
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.tables.table import TableInfo
from metastore.memory import MemoryStore, catalog
from metastore.postgres import consumers as postgres_consumers
from metastore.postgres.catalog import _NOW_US, epoch_after
from metastore.postgres.commits import writers as postgres_writers
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.jobs import work as postgres_work
from metastore.postgres.jobs.jobs import PostgresJobs
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from tests.contract.metastore.log_tables import make_log_table
from tests.support.error_metadata import metadata_of
from tests.support.metastore.making import empty, make_table
from tests.support.metastore.opening import make_use_cases, open_in_process

REPORT = Pipeline("flights", "shop.flights", "/in", "running", 7, "120 of 365 files", 245, 1000, 3, "")


class HeldClock(SystemClock):
    """A clock that stands still once a test says so."""

    held_ms: int | None = None

    def now_ms(self) -> int:
        return super().now_ms() if self.held_ms is None else self.held_ms


@dataclass
class World:
    """A metastore whose database is set back, and whose clock is.

    Args:
        metastore: The metastore.
        save: Takes a backup of the database.
        set_back: Puts the backup in the place of the database.
        hold_clock: From now on the clock of the store stands still, long before all epochs that were given.
    """

    metastore: InProcessMetastore
    save: Callable[[], None]
    set_back: Callable[[], None]
    hold_clock: Callable[[pytest.MonkeyPatch], None]
    given: list[int] = field(default_factory=list)

    def give(self, kind: str, table: TableInfo) -> int:
        """Gives an epoch of some kind to a new instance."""
        epoch = GIVERS[kind](self.metastore, table)
        self.given.append(epoch)
        return epoch


def give_writer(metastore: InProcessMetastore, table: TableInfo) -> int:
    return metastore.register_writer("w")


def give_lease(metastore: InProcessMetastore, table: TableInfo, name: str = "work") -> int:
    known = metastore.acquire_lease(name, "probe", 60_000)
    metastore.release_lease(name, known.epoch)
    return metastore.acquire_lease(name, "holder", 60_000).epoch


def give_shard(metastore: InProcessMetastore, table: TableInfo) -> int:
    return give_lease(metastore, table, to_publisher_lease(table.table_uuid))


def give_pipeline(metastore: InProcessMetastore, table: TableInfo) -> int:
    return give_lease(metastore, table, "pipeline/flights")


def give_job(metastore: InProcessMetastore, table: TableInfo) -> int:
    for found in metastore.list_jobs([table.table_uuid]):
        if found.holder:
            metastore.finish_job(found.job_id, found.epoch)
    metastore.request_jobs(table.table_uuid, COMPACT, ["/0"], {STRATEGY: FULL}, priority=1)
    job = metastore.lease_job([COMPACT], [table.table_uuid], "holder", duration_ms=60_000, wait_ms=1000)
    assert job is not None
    return job.epoch


def give_consumer(metastore: InProcessMetastore, table: TableInfo) -> int:
    return metastore.open_consumer("etl", [table.table_uuid], "reader")[0].epoch


def find_job_id(metastore: InProcessMetastore, table: TableInfo) -> int:
    return max((job.job_id for job in metastore.list_jobs([table.table_uuid]) if job.holder), default=1)


def commit_as_writer(metastore: InProcessMetastore, table: TableInfo, epoch: int) -> None:
    last = metastore.get_writer_progress("w", table.table_uuid).last_identifier or 0
    metastore.commit(empty(table, last + 1, epoch=epoch))


def commit_under_lease(metastore: InProcessMetastore, table: TableInfo, epoch: int) -> None:
    last = metastore.get_writer_progress("x", table.table_uuid).last_identifier or 0
    metastore.commit(empty(table, last + 1, writer="x", fences=(Fence("work", epoch),)))


def commit_for_job(metastore: InProcessMetastore, table: TableInfo, epoch: int) -> None:
    last = metastore.get_writer_progress("j", table.table_uuid).last_identifier or 0
    fence = Fence(f"job/{find_job_id(metastore, table)}", epoch)
    metastore.commit(empty(table, last + 1, writer="j", fences=(fence,)))


def heartbeat(metastore: InProcessMetastore, table: TableInfo, epoch: int) -> None:
    metastore.heartbeat_job(find_job_id(metastore, table), epoch, 60_000)


GIVERS: dict[str, Callable[[InProcessMetastore, TableInfo], int]] = {
    "writer": give_writer,
    "lease": give_lease,
    "shard": give_shard,
    "pipeline": give_pipeline,
    "job": give_job,
    "consumer": give_consumer,
}

EFFECTS: dict[str, list[Callable[[InProcessMetastore, TableInfo, int], Any]]] = {
    "writer": [commit_as_writer],
    "lease": [commit_under_lease, lambda m, t, epoch: m.renew_lease("work", epoch, 60_000)],
    "shard": [lambda m, t, epoch: m.report_published(PublishReport(t.table_uuid, 1, epoch))],
    "pipeline": [lambda m, t, epoch: m.report_pipeline(REPORT, epoch)],
    "job": [commit_for_job, heartbeat],
    "consumer": [
        lambda m, t, epoch: m.advance_consumer("etl", [ConsumerPosition(t.table_uuid, epoch, 0)]),
        lambda m, t, epoch: m.renew_consumer("etl", {t.table_uuid: epoch}, "reader"),
    ],
}


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    opened = open_memory() if request.param == "memory" else open_postgres(request.getfixturevalue("migrated_url"))
    yield opened
    opened.metastore.close()


def open_memory() -> World:
    clock = HeldClock()
    stores: list[MemoryStore] = []
    backups: list[Any] = []

    async def open_store() -> Store:
        stores.append(MemoryStore(clock))
        return stores[0]

    def set_back() -> None:
        stores[0]._state = copy.deepcopy(backups[0])

    def hold_clock(_: pytest.MonkeyPatch) -> None:
        clock.held_ms = 1_000

    metastore = in_process(open_store, make_use_cases)
    metastore.stop_background()
    return World(metastore, lambda: backups.append(copy.deepcopy(stores[0]._state)), set_back, hold_clock)


def open_postgres(url: str) -> World:
    def run(*statements: str) -> None:
        with psycopg.connect(libpq_url(url)) as connection:
            for statement in statements:
                connection.execute(statement)

    def list_tables() -> list[str]:
        with psycopg.connect(libpq_url(url)) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return [row[0] for row in rows]

    sequences: dict[str, int | None] = {}

    def save() -> None:
        run("CREATE SCHEMA backup", *(f"CREATE TABLE backup.{each} AS TABLE public.{each}" for each in list_tables()))
        with psycopg.connect(libpq_url(url)) as connection:
            found = connection.execute("SELECT sequencename, last_value FROM pg_sequences").fetchall()
        sequences.update(found)

    def set_back() -> None:
        # As a restore does: without triggers and keys, all at once.
        run(
            "SET session_replication_role = replica",
            *(f"DELETE FROM public.{each}" for each in list_tables()),
            *(
                f"INSERT INTO public.{each} OVERRIDING SYSTEM VALUE SELECT * FROM backup.{each}"
                for each in list_tables()
            ),
            # So numbers of jobs are given twice too.
            *(f"SELECT setval('{name}', {last or 1}, {last is not None})" for name, last in sequences.items()),
        )

    def hold_clock(monkeypatch: pytest.MonkeyPatch) -> None:
        replace_epochs(monkeypatch, lambda last: epoch_after(last).replace(_NOW_US, "1000000"))

    metastore = open_in_process(url)
    metastore.stop_background()
    return World(metastore, save, set_back, hold_clock)


def replace_epochs(monkeypatch: pytest.MonkeyPatch, after: Callable[[str], str]) -> None:
    """Has Postgres give other epochs."""
    for owner, name, lasts in (
        (postgres_writers, "_RAISE_EPOCH", ("0", "writer.epoch")),
        (postgres_work, "_ACQUIRE", ("0", "lease.epoch")),
        (PostgresJobs, "lease_sql", ("epoch",)),
    ):
        statement = getattr(owner, name)
        for last in lasts:
            assert epoch_after(last) in statement
            statement = statement.replace(epoch_after(last), after(last))
        monkeypatch.setattr(owner, name, statement)
    monkeypatch.setattr(postgres_consumers, "epoch_after", after)


def make_tables(world: World) -> TableInfo:
    """A table with a log; another one, so that its number is not that of everything else."""
    world.metastore.create_database("other")
    make_table(world.metastore)
    return make_log_table(world.metastore)


@pytest.mark.parametrize("clock", ["goes on", "is set back"])
@pytest.mark.parametrize("known", ["none", "one"])
@pytest.mark.parametrize("kind", list(GIVERS))
def test_no_epoch_is_given_twice_and_only_the_newest_counts(
    world: World, kind: str, known: str, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_tables(world)
    if known == "one":
        world.give(kind, table)
    if clock == "is set back":
        world.hold_clock(monkeypatch)
    world.save()
    lost = [world.give(kind, table) for _ in range(3)]
    assert lost == sorted(set(lost))
    for _ in range(2):
        world.set_back()
        for effect in EFFECTS[kind]:
            for epoch in lost:
                # No one has come by yet: the metastore knows of none of them.
                with pytest.raises((Fenced, NotFound), match=r"set back|was deleted|There is no job"):
                    effect(world.metastore, table, epoch)
        current = world.give(kind, table)
        for effect in EFFECTS[kind]:
            effect(world.metastore, table, current)
            for epoch in set(world.given) - {current}:
                with pytest.raises(Fenced):
                    effect(world.metastore, table, epoch)
            effect(world.metastore, table, current)
        lost = [current]
    assert len(set(world.given)) == len(world.given)


@pytest.mark.parametrize("kind", list(GIVERS))
def test_control_epochs_that_count_are_given_twice(world: World, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "make_epoch", lambda last, time_us, draw: last + 1)
    replace_epochs(monkeypatch, lambda last: f"({last} + 1)")
    table = make_tables(world)
    world.give(kind, table)
    world.save()
    zombie = world.give(kind, table)
    world.set_back()
    successor = world.give(kind, table)
    assert zombie == successor
    for effect in EFFECTS[kind]:
        # Both have their effects.
        effect(world.metastore, table, zombie)
        effect(world.metastore, table, successor)


@pytest.mark.parametrize("kind", ["writer", "lease"])
def test_control_without_random_bits_a_clock_that_stands_still_gives_them_twice(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "make_epoch", lambda last, time_us, draw: max(last + EPOCH_STEP, 1_000_000))
    replace_epochs(monkeypatch, lambda last: f"greatest({last} + {EPOCH_STEP}, 1000000)")
    table = make_tables(world)
    world.save()
    zombie = world.give(kind, table)
    world.set_back()
    assert world.give(kind, table) == zombie


def test_a_consumer_that_is_made_again_has_another_epoch(world: World) -> None:
    """Its record is deleted, so that no last epoch is known."""
    table = make_tables(world)
    zombie = world.give("consumer", table)
    world.metastore.delete_consumer(table.table_uuid, "etl")
    assert world.give("consumer", table) != zombie
    for effect in EFFECTS["consumer"]:
        with pytest.raises(Fenced):
            effect(world.metastore, table, zombie)


def test_commits_of_jobs_are_numbered_from_their_epochs_on(world: World) -> None:
    """Epochs of a job are so far apart that each of its holders has numbers of its own."""
    table = make_tables(world)
    epochs = [world.give("job", table) for _ in range(20)]
    assert all(later - earlier >= EPOCH_STEP for earlier, later in itertools.pairwise(epochs))
    assert max(epochs) + EPOCH_STEP < 1 << 53, "also whole numbers in JavaScript"


def test_the_error_about_an_unknown_epoch_names_the_remedy(world: World) -> None:
    table = make_tables(world)
    world.save()
    epoch = world.give("writer", table)
    world.set_back()
    with pytest.raises(Fenced, match="take its name again with register_writer") as error:
        commit_as_writer(world.metastore, table, epoch)
    assert error.value.reason == EPOCH_UNKNOWN
    assert metadata_of(error.value) == {"writer": "w", "epoch": str(epoch), "current_epoch": "0"}
