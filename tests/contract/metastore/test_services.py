"""Presence of services: what is listed, how long, and within which bounds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.format.jobs.presence import GONE_RETAINED_MS, Liveness, Service, ServiceReport, ServiceState
from metastore.jobs.services import Services
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.postgres.connection.connections import libpq_url
from metastore.store.limits import Limits
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.reports import COMPACTOR


def other(number: int, **changes: Any) -> ServiceReport:
    return replace(COMPACTOR, instance_id=f"{number:032x}", **changes)


def test_a_service_is_listed_as_it_reported(metastore: Metastore) -> None:
    assert metastore.list_services() == []
    before_ms = time.time_ns() // 1_000_000
    metastore.report_presence(COMPACTOR)
    (found,) = metastore.list_services()
    assert before_ms - 2_500 < found.started_at_ms < before_ms + 10_000
    assert 0 <= found.silent_ms < 10_000
    assert found == Service(
        kind="compactor",
        instance_id="a" * 32,
        host="host-1",
        pid=17,
        version="0.1.0",
        state=ServiceState.STARTING,
        work=(),
        metrics="host-1:9464",
        started_at_ms=found.started_at_ms,
        silent_ms=found.silent_ms,
        ttl_ms=60_000,
    )
    assert found.liveness is Liveness.PRESENT


def test_a_further_report_replaces_what_was_reported_but_for_the_start(metastore: Metastore) -> None:
    metastore.report_presence(COMPACTOR)
    (first,) = metastore.list_services()
    work = ("compact shop.orders", 'żółć "\\ {x}, NULL', "NULL")
    metastore.report_presence(
        replace(COMPACTOR, state=ServiceState.DRAINING, work=work, metrics="", uptime_ms=900_000, ttl_ms=30_000)
    )
    (found,) = metastore.list_services()
    assert (found.state, found.work, found.metrics, found.ttl_ms) == (ServiceState.DRAINING, work, "", 30_000)
    assert found.started_at_ms == first.started_at_ms


def test_services_are_listed_by_kind_host_and_start(metastore: Metastore) -> None:
    metastore.report_presence(other(1, kind="writer", host="b"))
    metastore.report_presence(other(2, kind="writer", host="a", uptime_ms=0))
    metastore.report_presence(other(3, kind="writer", host="a", uptime_ms=50_000))
    metastore.report_presence(other(4, kind="compactor", host="z"))
    assert [int(service.instance_id, 16) for service in metastore.list_services()] == [4, 3, 2, 1]


def test_a_clean_end_takes_the_service_out(metastore: Metastore) -> None:
    metastore.report_presence(COMPACTOR)
    metastore.report_presence(other(1))
    for _ in range(2):
        metastore.report_presence(replace(COMPACTOR, state=ServiceState.STOPPED))
        assert [service.instance_id for service in metastore.list_services()] == [f"{1:032x}"]


def test_a_service_that_is_killed_is_silent_and_then_gone(metastore: Metastore) -> None:
    metastore.report_presence(replace(COMPACTOR, ttl_ms=1_000))
    # The control: one that reports alike and goes on.
    metastore.report_presence(other(1, ttl_ms=1_000))
    time.sleep(0.6)
    metastore.report_presence(other(1, ttl_ms=1_000))
    killed, present = sorted(metastore.list_services(), key=lambda service: -service.silent_ms)
    assert (killed.instance_id, killed.liveness) == ("a" * 32, Liveness.SILENT)
    assert present.liveness is Liveness.PRESENT
    time.sleep(0.45)
    metastore.report_presence(other(1, ttl_ms=1_000))
    killed, present = sorted(metastore.list_services(), key=lambda service: -service.silent_ms)
    assert (killed.instance_id, killed.liveness) == ("a" * 32, Liveness.GONE)
    assert present.liveness is Liveness.PRESENT
    # It was only paused.
    metastore.report_presence(replace(COMPACTOR, ttl_ms=1_000))
    assert {service.liveness for service in metastore.list_services()} == {Liveness.PRESENT}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": ""}, r"service\.kind is ''"),
        ({"kind": "Compactor"}, r"service\.kind is 'Compactor'"),
        ({"kind": "c" * 33}, r"service\.kind"),
        ({"instance_id": "a"}, r"service\.instance_id is 'a'"),
        ({"host": ""}, r"service\.host"),
        ({"host": "h" * 257}, r"service\.host"),
        ({"pid": -1}, r"service\.pid is -1"),
        ({"version": "v" * 257}, r"service\.version"),
        ({"metrics": "m" * 257}, r"service\.metrics"),
        ({"metrics": "a\0b"}, r"service\.metrics"),
        ({"work": ("w",) * 17}, r"service\.work is '17 entries'"),
        ({"work": ("w" * 201,)}, r"service\.work"),
        ({"work": ("",)}, r"service\.work"),
        ({"uptime_ms": -1}, "uptime_ms is -1"),
        ({"ttl_ms": 999}, r"service\.ttl_ms is 999"),
        ({"ttl_ms": 600_001}, r"service\.ttl_ms is 600001"),
    ],
)
def test_what_a_report_may_not_say(metastore: Metastore, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        metastore.report_presence(replace(COMPACTOR, **changes))
    assert metastore.list_services() == []


class SetClock(SystemClock):
    """Shows the time that a test says."""

    now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now


class World:
    """The use cases over a store whose clock a test sets."""

    def __init__(self, run: Callable[[Awaitable[Any]], Any], store: Store, elapse: Callable[[int], None]) -> None:
        self.run = run
        self.services = Services(store, Limits(max_services=3))
        self.elapse = elapse

    def report(self, report: ServiceReport) -> None:
        self.run(self.services.report_presence(report))

    def list(self) -> list[Service]:
        found: list[Service] = self.run(self.services.list_services())
        return found

    def numbers(self) -> set[int]:
        return {int(service.instance_id, 16) for service in self.list()}


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        clock = SetClock()

        def elapse(ms: int) -> None:
            clock.now += ms

        with asyncio.Runner() as runner:
            yield World(lambda work: runner.run(_as_coroutine(work)), MemoryStore(clock), elapse)
        return
    url = request.getfixturevalue("migrated_url")
    opened: InProcessMetastore = open_in_process(url)
    try:
        assert isinstance(opened.store, PostgresStore)

        def elapse_in_postgres(ms: int) -> None:
            # Its clock cannot be set; what was reported is made older instead.
            with psycopg.connect(libpq_url(url)) as connection:
                connection.execute(
                    "UPDATE service SET reported_at_ms = reported_at_ms - %s, started_at_ms = started_at_ms - %s",
                    (ms, ms),
                )

        yield World(lambda work: opened.run(_as_coroutine(work)), opened.store, elapse_in_postgres)
    finally:
        opened.close()


async def _as_coroutine(work: Awaitable[Any]) -> Any:
    return await work


def test_what_is_gone_is_listed_for_ten_minutes_and_then_removed(world: World) -> None:
    world.report(COMPACTOR)
    world.elapse(COMPACTOR.ttl_ms + GONE_RETAINED_MS - 30_000)
    (found,) = world.list()
    assert found.liveness is Liveness.GONE
    assert found.silent_ms >= COMPACTOR.ttl_ms + GONE_RETAINED_MS - 30_000
    world.elapse(30_000)
    assert world.list() == []
    # Nor does it take a place any more, once another one reports.
    world.report(other(1))
    world.report(other(2))
    world.report(other(3))
    assert world.numbers() == {1, 2, 3}
    # One that was away for so long begins anew.
    world.report(replace(other(1), state=ServiceState.STOPPED))
    world.report(replace(COMPACTOR, uptime_ms=5_000_000))
    assert {service.liveness for service in world.list()} == {Liveness.PRESENT}


def test_the_list_is_bounded_and_what_is_gone_makes_room(world: World) -> None:
    for number in (1, 2, 3):
        world.report(other(number))
    with pytest.raises(ResourceExhausted, match="3 services are listed"):
        world.report(other(4))
    # Those that are listed go on, and the control: one that ends makes room.
    world.report(other(3, state=ServiceState.RUNNING))
    world.report(other(2, state=ServiceState.STOPPED))
    world.report(other(4))
    assert world.numbers() == {1, 3, 4}
    world.elapse(40_000)
    world.report(other(3))
    world.report(other(4))
    with pytest.raises(ResourceExhausted):
        world.report(other(5))
    world.elapse(20_000)
    world.report(other(5))
    assert world.numbers() == {3, 4, 5}


def test_many_that_begin_at_once_stay_within_the_bound(world: World) -> None:
    async def begin(number: int) -> bool:
        try:
            await world.services.report_presence(other(number))
        except ResourceExhausted:
            return False
        return True

    async def begin_all() -> list[bool]:
        return await asyncio.gather(*(begin(number) for number in range(1, 13)))

    entered: list[bool] = world.run(begin_all())
    assert sum(entered) == 3
    assert len(world.list()) == 3
