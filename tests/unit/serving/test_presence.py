"""Reporting that a service is there: when, what, and what happens where the metastore is away."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

import lakelog
from lakelog.clock import RandomIds, SystemClock
from lakelog.errors import LakelogError, OutcomeUnknown, PermissionDenied, Unavailable
from lakelog.format.jobs.presence import Liveness, Service, ServiceReport, ServiceState
from lakelog.serving.presence import (
    INTERVAL_S,
    REFUSED_INTERVAL_S,
    TTL_S,
    Activity,
    Presence,
    shorten_work,
    to_metrics_address,
)


class SetClock(SystemClock):
    """Shows the time that a test says."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


class World:
    """A presence whose service, clock and metastore a test sets."""

    def __init__(self) -> None:
        self.activity = Activity(ServiceState.STARTING)
        self.defect: Exception | None = None
        self.failure: LakelogError | None = None
        self.reports: list[ServiceReport] = []
        self.tries = 0
        self.clock = SetClock()
        self.lines = LogCapture()
        self.presence = Presence(
            "compactor",
            self.send,
            self.observe,
            metrics="host:9464",
            ids=RandomIds(),
            clock=self.clock,
            log=structlog.wrap_logger(None, processors=[self.lines]),
        )

    def observe(self) -> Activity:
        if self.defect is not None:
            raise self.defect
        return self.activity

    def send(self, report: ServiceReport) -> None:
        self.tries += 1
        if self.failure is not None:
            raise self.failure
        self.reports.append(report)

    def step_after(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.presence.step()

    @property
    def states(self) -> list[str]:
        return [report.state.value for report in self.reports]

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line["log_level"], line["event"].partition(":")[0]) for line in self.lines.entries]


@pytest.fixture
def world() -> World:
    return World()


def test_it_reports_at_once_and_every_few_seconds(world: World) -> None:
    world.step_after(0)
    for _ in range(10):
        world.step_after(INTERVAL_S / 10)
    assert [report.uptime_ms for report in world.reports] == [0, 15_000]
    (first, second) = world.reports
    assert (first.kind, first.metrics, first.version, first.ttl_ms) == (
        "compactor",
        "host:9464",
        lakelog.__version__,
        60_000,
    )
    assert first.pid > 0
    assert first.host
    assert len(first.instance_id) == 32
    assert replace(second, uptime_ms=0) == first
    assert world.said == []


def test_another_state_is_reported_at_once_and_other_work_with_the_next_report(world: World) -> None:
    world.step_after(0)
    world.activity = Activity(ServiceState.RUNNING, ["compact shop.orders"])
    world.step_after(0.5)
    world.activity = Activity(ServiceState.RUNNING, ["expire shop.orders"])
    world.step_after(0.5)
    assert [report.work for report in world.reports] == [(), ("compact shop.orders",)]
    world.step_after(INTERVAL_S)
    assert world.reports[-1].work == ("expire shop.orders",)
    world.activity = Activity(ServiceState.DRAINING)
    world.step_after(0.5)
    world.presence.leave()
    assert world.states == ["starting", "running", "running", "draining", "stopped"]


def test_two_instances_have_names_of_their_own() -> None:
    worlds = World(), World()
    for each in worlds:
        each.step_after(0)
    assert worlds[0].reports[0].instance_id != worlds[1].reports[0].instance_id


@pytest.mark.parametrize("failure", [Unavailable("away"), OutcomeUnknown("lost")])
def test_an_outage_is_logged_once_at_its_beginning_and_once_at_its_end(world: World, failure: LakelogError) -> None:
    world.step_after(0)
    world.failure = failure
    for _ in range(4):
        # Another state does not lead to more tries: nothing would hear of it.
        world.activity = Activity(ServiceState.RUNNING)
        world.step_after(INTERVAL_S)
        world.step_after(0.5)
    assert world.tries == 5
    assert world.said == [("warning", "presence is not reported")]
    world.failure = None
    world.step_after(INTERVAL_S)
    world.step_after(INTERVAL_S)
    assert world.states == ["starting", "running", "running"]
    assert world.said == [("warning", "presence is not reported"), ("info", "presence is reported again")]
    world.failure = failure
    world.step_after(INTERVAL_S)
    assert len(world.said) == 3


def test_a_refusal_is_tried_again_later(world: World) -> None:
    world.failure = PermissionDenied("needs writer")
    world.step_after(0)
    world.step_after(REFUSED_INTERVAL_S - 1)
    assert world.tries == 1
    world.failure = None
    world.step_after(1)
    assert world.states == ["starting"]


def test_a_defect_leaves_the_service_alone_and_is_logged_once(world: World) -> None:
    world.defect = ZeroDivisionError("ours")
    for _ in range(5):
        world.step_after(0.5)
    assert world.said == [("warning", "presence is not reported")]
    assert world.lines.entries[0]["exc_info"] is world.defect
    world.defect = None
    world.step_after(REFUSED_INTERVAL_S)
    assert world.states == ["starting"]


def test_an_end_sends_nothing_where_nothing_was_reported_or_the_metastore_is_away(world: World) -> None:
    world.presence.leave()
    assert world.tries == 0
    world.step_after(0)
    world.failure = Unavailable("away")
    world.step_after(INTERVAL_S)
    world.presence.leave()
    assert world.tries == 2


def test_an_end_that_fails_by_a_defect_is_logged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.step_after(0)

    def fail(report: ServiceReport) -> None:
        raise RuntimeError("the loop is closed")

    monkeypatch.setattr(world.presence, "_send", fail)
    world.presence.leave()
    assert world.said == [("warning", "presence is not reported")]


def wait_for(what: Any) -> None:
    give_up_s = time.monotonic() + 10
    while not what():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def test_its_thread_reports_the_beginning_and_the_end(world: World) -> None:
    with world.presence:
        wait_for(lambda: world.reports)
        world.activity = Activity(ServiceState.RUNNING)
        wait_for(lambda: len(world.reports) == 2)
    world.presence.close()
    assert world.states == ["starting", "running", "stopped"]


def test_a_metastore_that_hangs_delays_an_end_for_some_seconds_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.serving.presence._LAST_REPORT_S", 0.2)
    released = threading.Event()

    def hang(report: ServiceReport) -> None:
        world.tries += 1
        released.wait(10)

    monkeypatch.setattr(world.presence, "_send", hang)
    began_s = time.monotonic()
    with world.presence:
        wait_for(lambda: world.tries)
    assert time.monotonic() - began_s < 5
    released.set()


def test_one_that_was_never_started_closes(world: World) -> None:
    world.presence.close()
    assert world.tries == 0


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        ([], ()),
        (["a", " ", "b\n c\0d"], ("a", "b c d")),
        ([str(number) for number in range(16)], tuple(str(number) for number in range(16))),
        ([str(number) for number in range(20)], (*(str(number) for number in range(15)), "5 more")),
        (["x" * 201], ("x" * 199 + "…",)),
        (["\ud800"], ("\\ud800",)),
    ],
)
def test_work_is_shortened(work: list[str], shown: tuple[str, ...]) -> None:
    assert shorten_work(work) == shown


def test_addresses_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    assert to_metrics_address("127.0.0.1", None) == ""
    assert to_metrics_address("127.0.0.1", 9464) == "127.0.0.1:9464"
    assert to_metrics_address("0.0.0.0", 9464) == "node-7:9464"
    assert to_metrics_address("::1", 9464) == "[::1]:9464"


@pytest.mark.parametrize(
    ("silent_ms", "liveness"),
    [
        (0, Liveness.PRESENT),
        (29_999, Liveness.PRESENT),
        (30_000, Liveness.SILENT),
        (59_999, Liveness.SILENT),
        (60_000, Liveness.GONE),
    ],
)
def test_what_missing_reports_mean(silent_ms: int, liveness: Liveness) -> None:
    service = Service("writer", "a" * 32, "h", 1, "0", ServiceState.RUNNING, (), "", 0, silent_ms, int(TTL_S * 1000))
    assert service.liveness is liveness
