"""Which tables a publisher takes, and which it gives back, as others come and go."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lakelog.clock import SystemClock
from lakelog.errors import LakelogError, PermissionDenied, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableName
from lakelog.serving.lease import LEASE_HELD
from metastore.testing import InProcessMetastore
from writer.publishing.metrics import PublisherMetrics
from writer.publishing.service import IDLE_POLL_EVERY_S, POLL_EVERY_S, PublisherService
from writer.publishing.topics.membership import PublisherMembership


def make_info(number: int, **options: str) -> LogInfo:
    name = TableName("shop", f"t{number}")
    return LogInfo(f"{number:032x}", name, name.name, "id", 1, 0, is_named=False, options=options, problem="")


@dataclass
class _World:
    """A metastore, the seats of all publishers, and what became of tables."""

    logs: list[LogInfo]
    replicas: int = 1
    held_by_others: set[str] = field(default_factory=set)
    running: dict[str, _Runner] = field(default_factory=dict)
    failure: LakelogError | None = None

    def list_logs(self) -> list[LogInfo]:
        if self.failure is not None:
            raise self.failure
        return self.logs

    def count(self) -> int:
        return self.replicas

    def leave(self) -> None:
        """Gives the seat back."""

    def make_lease(self, info: LogInfo, _on_lost: Any) -> Any:
        return _Lease(self, str(info.name))

    def make_runner(self, info: LogInfo, _lease: Any) -> Any:
        return _Runner(self, str(info.name))


@dataclass
class _Lease:
    world: _World
    name: str
    epoch: int = 0

    def acquire(self, *, wait: bool, stopping: threading.Event) -> bool:
        assert not wait
        assert not stopping.is_set()
        if self.name in self.world.held_by_others:
            raise Unavailable("held", reason=LEASE_HELD)
        self.epoch = 1
        return True


@dataclass
class _Runner:
    world: _World
    name: str
    is_running: bool = True
    seen: list[LogInfo] = field(default_factory=list)

    def start(self) -> None:
        self.world.running[self.name] = self

    def see(self, info: LogInfo) -> None:
        self.seen.append(info)

    def stop(self) -> None:
        self.is_running = False
        self.world.running.pop(self.name, None)

    def join(self, timeout_s: float) -> None:
        """It ends at once."""


def make_service(world: Any, *tables: str, membership: Any = None) -> PublisherService:
    return PublisherService(
        world,
        make_lease=world.make_lease,
        make_runner=world.make_runner,
        membership=membership or world,
        tables=frozenset(TableName("shop", each) for each in tables),
        max_unavailable_s=0.0,
        clock=SystemClock(),
        metrics=PublisherMetrics(),
        log=structlog.get_logger(),
    )


def test_replicas_share_the_tables() -> None:
    world = _World([make_info(number) for number in range(1, 6)])
    service = make_service(world)
    service.step()
    assert len(world.running) == 5
    world.replicas = 2
    for _ in range(3):
        # What is given back is not taken again.
        service.step()
        assert len(world.running) == 3
    world.replicas = 1
    service.step()
    assert len(world.running) == 5


def test_without_logs_no_lease_is_asked_for(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    world = _World([make_info(1)])
    service = make_service(world, membership=PublisherMembership(metastore, "p", 30_000))
    service.step()
    world.logs = []
    service.step()
    for call in ("acquire_lease", "renew_lease", "release_lease"):
        monkeypatch.setattr(metastore, call, lambda *_: pytest.fail("a lease was asked for"))
    service.step()


def test_without_logs_it_looks_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    world = _World([])
    service = make_service(world)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        world.logs = [make_info(1)]
        if len(pauses) == 2:
            service.stop()

    monkeypatch.setattr(service._stop, "wait", pause)
    service.run()
    assert pauses == [IDLE_POLL_EVERY_S, POLL_EVERY_S]


def test_what_others_hold_or_was_not_asked_for_is_left_alone() -> None:
    world = _World([make_info(number) for number in range(1, 5)], held_by_others={"shop.t2"})
    service = make_service(world, "t1", "t2", "t3")
    service.step()
    assert set(world.running) == {"shop.t1", "shop.t3"}
    world.held_by_others.clear()
    service.step()
    assert set(world.running) == {"shop.t1", "shop.t2", "shop.t3"}


def test_a_name_without_a_log_is_reported_once() -> None:
    world = _World([make_info(1)])
    service = make_service(world, "t1", "t2")
    with capture_logs() as lines:
        for _ in range(2):
            service.step()
        world.logs = [*world.logs, make_info(2)]
        service.step()
    assert [line["tables"] for line in lines if "--tables" in line["event"]] == [["shop.t2"]]
    assert set(world.running) == {"shop.t1", "shop.t2"}


def test_who_publishes_other_tables_takes_no_share(metastore: InProcessMetastore) -> None:
    world = _World([make_info(number) for number in range(1, 5)])
    services = []
    for tables in (("t1", "t2"), ("t3", "t4")):
        names = [TableName("shop", each) for each in tables]
        services.append(
            make_service(world, *tables, membership=PublisherMembership(metastore, tables[0], 30_000, names))
        )
    for _ in range(2):
        for service in services:
            service.step()
    assert set(world.running) == {"shop.t1", "shop.t2", "shop.t3", "shop.t4"}


def test_tables_without_a_log_any_more_are_left_and_altered_ones_reported() -> None:
    world = _World([make_info(1), make_info(2)])
    service = make_service(world)
    service.step()
    reported = world.running["shop.t2"]
    world.logs = [make_info(2, **{"log.system.partitions": "3"})]
    service.step()
    assert set(world.running) == {"shop.t2"}
    assert reported.seen == world.logs


def test_a_dropped_table_that_does_not_end_yet_keeps_no_other_waiting() -> None:
    world = _World([make_info(1)])
    service = make_service(world)
    service.step()
    dropped = world.running["shop.t1"]
    asked: list[str] = []
    # Its last step waits for brokers that are away.
    dropped.stop = lambda: asked.append("stop")  # type: ignore[method-assign]
    world.logs = [make_info(2)]
    service.step()
    assert asked
    assert dropped.is_running
    assert set(world.running) == {"shop.t1", "shop.t2"}


def test_a_runner_that_has_ended_is_restarted() -> None:
    world = _World([make_info(1)])
    service = make_service(world)
    service.step()
    first = world.running["shop.t1"]
    first.stop()
    service.step()
    assert world.running["shop.t1"] is not first


@pytest.mark.parametrize("failure", [PermissionDenied("no"), Unavailable("away for too long")])
def test_a_metastore_that_refuses_or_stays_away_ends_it_and_all_tables(failure: LakelogError) -> None:
    world = _World([make_info(1)])
    service = make_service(world)
    service.step()
    world.failure = failure
    with pytest.raises(type(failure)):
        service.run()
    assert not world.running


def test_it_is_ready_once_the_metastore_has_answered_and_until_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("writer.publishing.service.POLL_EVERY_S", 0.01)
    world = _World([make_info(1)])
    service = make_service(world)
    service._max_unavailable_s = 60.0
    ready: list[bool] = [service.is_ready]

    def list_logs() -> list[LogInfo]:
        ready.append(service.is_ready)
        if len(ready) == 2:
            raise Unavailable("away")
        if len(ready) == 4:
            service.stop()
        return world.logs

    world.list_logs = list_logs  # type: ignore[method-assign]
    service.run()
    # At its start, at the first poll, after it failed, after one that was answered; and at the end.
    assert [*ready, service.is_ready] == [False, False, False, True, False]
