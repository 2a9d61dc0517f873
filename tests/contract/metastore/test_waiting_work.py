"""What waits, in numbers: they move with the work, one metastore measures for all, and few series come out of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, to_bucket_scope
from lakelog.format.jobs.waiting_work import LogLags, WaitingWork
from lakelog.format.retention.consumer import SERVED_BY, ConsumerPosition
from lakelog.format.tables.table import TableInfo
from metastore.metrics import MAX_SERIES, PrometheusMetrics
from metastore.postgres.connection.connections import libpq_url
from metastore.store.waiting_work import MAX_NAMED, MeasuredWork
from metastore.testing import InProcessMetastore
from metastore.waiting_work import measuring
from metastore.waiting_work.measuring import (
    LONGEST_PAUSE_MS,
    MEASURE_EVERY_MS,
    PAUSES,
    REST_S,
    STALE_S,
    WorkMeasuring,
    is_old,
)
from tests.contract.metastore.planning import quiet
from tests.support.metastore.making import append, make_table, rewrite


@contextmanager
def unmeasured(request: pytest.FixtureRequest, kind: str) -> Iterator[InProcessMetastore]:
    """A metastore without background, whose work was not measured yet."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(measuring, "is_old", lambda _: False)
            metastore = stack.enter_context(quiet(request, kind))
        yield metastore


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with unmeasured(request, request.param) as opened:
        yield opened


def rests(metastore: InProcessMetastore, measuring: WorkMeasuring) -> bool:
    """Whether only time makes it measure again."""

    async def wait() -> None:
        await asyncio.wait_for(measuring.wait(), 0.05)

    try:
        metastore.run(wait())
    except TimeoutError:
        return True
    return False


class Replica:
    """A metastore of several on one store, as far as this concerns it, and what it shows."""

    def __init__(self, metastore: InProcessMetastore, clock: SystemClock | None = None) -> None:
        self._metastore = metastore
        self._registry = CollectorRegistry()
        self._measuring = WorkMeasuring(metastore.store, clock or SystemClock(), PrometheusMetrics(self._registry))

    def step(self) -> None:
        self._metastore.run(self._measuring.step())

    @property
    def rests(self) -> bool:
        return rests(self._metastore, self._measuring)

    def touch(self) -> None:
        self._measuring.touch()

    def shown(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"lakelog_metastore_{name}", labels)

    def count(self, name: str) -> int:
        return sum(
            len(family.samples) for family in self._registry.collect() if family.name == f"lakelog_metastore_{name}"
        )


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step measures."""
    monkeypatch.setattr(measuring, "MEASURE_EVERY_MS", 0)
    monkeypatch.setattr(measuring, "PAUSES", 0)


def move(metastore: InProcessMetastore, table: TableInfo, consumer_id: str, snapshot_id: int, holder: str) -> None:
    (opened,) = metastore.open_consumer(consumer_id, [table.table_uuid], holder)
    metastore.advance_consumer(consumer_id, [ConsumerPosition(table.table_uuid, opened.epoch, snapshot_id)])


def test_it_rests_while_nothing_waits_until_it_is_notified(metastore: InProcessMetastore) -> None:
    replica, other = Replica(metastore), Replica(metastore)
    assert not replica.rests, "nothing is measured yet"
    replica.step()
    assert replica.rests
    other.touch()
    other.step()
    assert not other.rests, "it was told of something that the measurement of the first may not contain"


@pytest.mark.usefixtures("at_once")
def test_what_can_make_a_lag_without_a_commit_ends_the_rest(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    (other,) = metastore.open_consumer("other", [table.table_uuid], "a reader")
    measuring = metastore.use_cases.work_measuring

    for act in (
        lambda: metastore.open_consumer("c", [table.table_uuid], "a reader"),
        lambda: metastore.advance_consumer("other", [ConsumerPosition(table.table_uuid, other.epoch, 0)]),
        lambda: metastore.reset_consumer(table.table_uuid, "c", 0),
        lambda: metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[]),
    ):
        metastore.run(measuring.step())
        assert rests(metastore, measuring)
        act()
        assert not rests(metastore, measuring)


@pytest.mark.usefixtures("at_once")
def test_control_it_does_not_rest_while_something_waits(metastore: InProcessMetastore) -> None:
    replica, table = Replica(metastore), make_table(metastore)
    metastore.request_jobs(table.table_uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    replica.step()
    assert not replica.rests


@pytest.mark.usefixtures("at_once")
def test_jobs_are_counted_by_kind_and_age(metastore: InProcessMetastore) -> None:
    replica = Replica(metastore)
    replica.step()
    assert replica.shown("jobs", kind="changelog", state="due") == 0, "a scaler needs a 0"
    assert replica.shown("oldest_due_seconds", kind=COMPACT) == 0
    table = make_table(metastore)
    scopes = [to_bucket_scope(b"", number) for number in range(3)]
    metastore.request_jobs(table.table_uuid, COMPACT, scopes, {STRATEGY: FULL})
    assert metastore.lease_job([COMPACT], [], "me", duration_ms=60_000) is not None
    replica.step()
    assert replica.shown("jobs", kind=COMPACT, state="due") == 2
    assert replica.shown("jobs", kind=COMPACT, state="leased") == 1
    waited_s = replica.shown("oldest_due_seconds", kind=COMPACT)
    replica.step()
    assert (replica.shown("oldest_due_seconds", kind=COMPACT) or 0) > (waited_s or 0)


@pytest.mark.usefixtures("at_once")
def test_the_lag_of_consumers_grows_with_commits_and_ends_with_them(metastore: InProcessMetastore) -> None:
    replica, table = Replica(metastore), make_table(metastore)
    for number in range(4):
        append(metastore, table, number)
    move(metastore, table, "read", 3, "a reader")
    move(metastore, table, "left", 1, "")
    move(metastore, table, "served", 2, f"{SERVED_BY}pod-1 7")
    metastore.open_consumer("new", [table.table_uuid], "a reader")
    replica.step()
    assert (replica.shown("consumers", state="read"), replica.shown("consumers", state="silent")) == (1, 1)
    assert replica.shown("consumer_lag_snapshots", state="read") == 1
    assert (replica.shown("consumers", state="served"), replica.shown("consumer_lag_snapshots", state="served")) == (
        1,
        2,
    )
    assert replica.shown("consumer_lag_snapshots", state="silent") == 3
    assert (replica.shown("consumer_lag_seconds", state="silent") or 0) > 0
    named = {"table": str(table.name), "consumer": "left", "state": "silent"}
    assert replica.shown("slow_consumer_snapshots", **named) == 3
    added = sum(each.added_rows for each in metastore.list_snapshots(table.table_uuid).snapshots[1:4])
    assert replica.shown("slow_consumer_rows", **named) == added > 0
    for consumer_id in ("read", "left", "served"):
        move(metastore, table, consumer_id, 4, "a reader")
    replica.step()
    assert (replica.shown("consumers", state="read"), replica.shown("consumers", state="silent")) == (3, 0)
    assert replica.shown("consumer_lag_seconds", state="read") == 0
    assert replica.count("slow_consumer_snapshots") == 0
    metastore.drop_table(table.name)
    replica.step()
    assert replica.shown("consumers", state="read") == 0


@pytest.mark.usefixtures("at_once")
def test_what_only_compacts_makes_no_consumer_late(metastore: InProcessMetastore) -> None:
    replica, table = Replica(metastore), make_table(metastore)
    append(metastore, table, 0)
    rewrite(metastore, table, 0, 1)
    move(metastore, table, "c", 1, "a reader")
    named = {"table": str(table.name), "consumer": "c", "state": "read"}
    time.sleep(0.05)
    replica.step()
    assert replica.shown("slow_consumer_snapshots", **named) == 1
    assert (replica.shown("slow_consumer_seconds", **named), replica.shown("slow_consumer_rows", **named)) == (0, 0)
    append(metastore, table, 1)
    time.sleep(0.05)
    replica.step()
    _, second, third = metastore.list_snapshots(table.table_uuid).snapshots
    between_s = (third.committed_at_ms - second.committed_at_ms) / 1000
    behind_s = replica.shown("slow_consumer_seconds", **named) or 0
    assert behind_s >= 0.05
    assert behind_s + between_s <= (metastore.get_overview().now_ms - second.committed_at_ms) / 1000
    assert replica.shown("slow_consumer_rows", **named) == third.added_rows


@pytest.mark.usefixtures("at_once")
def test_rows_of_a_long_lag_are_not_counted(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    for store in ("memory", "postgres"):
        monkeypatch.setattr(f"metastore.{store}.waiting_work.MAX_COUNTED_SNAPSHOTS", 2)
    replica, table = Replica(metastore), make_table(metastore)
    for number in range(3):
        append(metastore, table, number)
    move(metastore, table, "near", 1, "a reader")
    move(metastore, table, "far", 0, "a reader")
    replica.step()
    assert (replica.count("slow_consumer_snapshots"), replica.count("slow_consumer_rows")) == (2, 1)


@pytest.mark.usefixtures("at_once")
def test_only_those_that_lag_most_are_named(metastore: InProcessMetastore) -> None:
    replica, table = Replica(metastore), make_table(metastore)
    for number in range(2):
        append(metastore, table, number)
    for number in range(MAX_NAMED + 3):
        move(metastore, table, f"c{number}", int(number < 3), "")
    replica.step()
    assert replica.shown("consumers", state="silent") == MAX_NAMED + 3
    assert replica.count("slow_consumer_snapshots") == MAX_NAMED
    named = {"table": str(table.name), "state": "silent"}
    assert [replica.shown("slow_consumer_snapshots", consumer=f"c{number}", **named) for number in (0, 3)] == [None, 2]


def count_measurements(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets an element for each measurement from now on."""
    counted: list[int] = []
    for each in ("memory.waiting_work.MemoryWaitingWork", "postgres.waiting_work.PostgresWaitingWork"):

        async def measure(self: object) -> LogLags:
            counted.append(1)
            return LogLags()

        monkeypatch.setattr(f"metastore.{each}.measure_logs", measure)
    return counted


def test_one_metastore_measures_for_all(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count_measurements(metastore, monkeypatch)
    table = make_table(metastore)
    metastore.request_jobs(table.table_uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    replicas = [Replica(metastore) for _ in range(3)]
    for _ in range(3):
        for replica in replicas:
            replica.step()
    assert len(counted) == 1
    assert [replica.shown("jobs", kind=COMPACT, state="due") for replica in replicas] == [1, 1, 1]
    assert all((replica.shown("waiting_work_age_seconds") or 0) < 10 for replica in replicas)


def test_control_each_metastore_measures_for_itself(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "is_old", lambda _: True)
    counted = count_measurements(metastore, monkeypatch)
    for replica in [Replica(metastore) for _ in range(3)]:
        replica.step()
    assert len(counted) == 3


def test_while_another_metastore_measures_the_last_figures_are_shown(
    migrated_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unmeasured(request, "postgres") as metastore, psycopg.connect(libpq_url(migrated_url)) as other:
        replica = Replica(metastore)
        replica.step()
        monkeypatch.setattr(measuring, "MEASURE_EVERY_MS", 0)
        counted = count_measurements(metastore, monkeypatch)
        other.execute("SELECT FROM waiting_work FOR UPDATE")
        replica.step()
        assert counted == []
        assert replica.shown("jobs", kind=COMPACT, state="due") == 0
        other.rollback()
        monkeypatch.setattr(measuring, "PAUSES", 0)
        replica.step()
        assert counted == [1]


def test_a_measurement_of_another_version_is_made_again(
    migrated_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        unmeasured(request, "postgres") as metastore,
        psycopg.connect(libpq_url(migrated_url), autocommit=True) as other,
    ):
        counted = count_measurements(metastore, monkeypatch)
        replica = Replica(metastore)
        replica.step()
        other.execute("""UPDATE waiting_work SET form = 99, content = '{"unknown": 1}'""")
        replica.step()
        assert len(counted) == 2


@pytest.mark.parametrize(
    ("age_ms", "took_ms", "old"),
    [
        (MEASURE_EVERY_MS - 1, 1, False),
        (MEASURE_EVERY_MS, 1, True),
        # What takes long is measured less often, so that it costs half a percent of a core at most.
        (PAUSES * 100 - 1, 100, False),
        (PAUSES * 100, 100, True),
        (LONGEST_PAUSE_MS, 60_000, True),
        # The database's clock was set back.
        (-1, 1, True),
    ],
)
def test_when_a_measurement_is_old(age_ms: int, took_ms: int, old: bool) -> None:
    assert is_old(MeasuredWork(age_ms, took_ms, WaitingWork())) is old
    assert is_old(MeasuredWork(age_ms, took_ms, None))


class _SteppedClock(SystemClock):
    passed_s = 0.0

    def monotonic_s(self) -> float:
        return self.passed_s


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("a bug")], ids=["lost", "bug"])
@pytest.mark.parametrize("part", ["WorkMeasuring._measure", "WorkLevels.show"])
def test_after_a_step_that_fails_it_does_not_rest(metastore: InProcessMetastore, part: str, error: Exception) -> None:
    replica = Replica(metastore)
    replica.step()
    assert replica.rests

    def fail(*_: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"metastore.waiting_work.measuring.{part}", fail)
        with pytest.raises(type(error)):
            replica.step()
    assert not replica.rests


def test_figures_that_cannot_be_read_again_are_shown_no_more(metastore: InProcessMetastore) -> None:
    clock = _SteppedClock()
    replica = Replica(metastore, clock)
    replica.step()

    def lose(*_: object) -> None:
        raise Unavailable("The database is away.")

    def fail_at(passed_s: float, shown: int | None) -> None:
        clock.passed_s = passed_s
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(metastore.store, "transaction", lose)
            with pytest.raises(Unavailable):
                replica.step()
        assert replica.shown("publish_lag_seconds") == shown
        assert replica.shown("jobs", kind=COMPACT, state="due") == shown

    # A rest is no failure, however long it was.
    fail_at(REST_S, 0)
    fail_at(REST_S + STALE_S - 1, 0)
    replica.step()
    fail_at(REST_S + STALE_S, 0)
    fail_at(REST_S + 2 * STALE_S, None)


def test_a_level_has_a_bounded_number_of_series() -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    for number in range(MAX_SERIES + 10):
        metrics.set_level("live_files", number, f"b.t{number}")
        metrics.set_level("live_files", 1, "b.t0")

    def find(table: str) -> float | None:
        return registry.get_sample_value("lakelog_metastore_live_files", {"table": table})

    assert (find("b.t0"), find("b.t1"), find("b.t10"), find("b.t11")) == (1, None, None, 11)
    (family,) = [each for each in registry.collect() if each.name == "lakelog_metastore_live_files"]
    assert len(family.samples) == MAX_SERIES
