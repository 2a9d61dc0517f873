"""Streams of one process ask for their leases one after the other."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from lakelog.format.jobs.work import LeaseGrant
from reader.streams.runner import Shared

LOG = structlog.get_logger()


def test_a_stop_while_waiting_for_its_turn_requests_nothing() -> None:
    shared = Shared(lambda: pytest.fail("Spark is not needed"), lambda _: None)
    taken = LeaseGrant(True, 1, "me", 1000)
    assert shared.request_in_turn(lambda: taken) is taken
    threading.Timer(0.05, shared.stopping.set).start()
    assert shared.request_in_turn(lambda: pytest.fail("it was asked")) is None


def test_any_process_that_has_given_its_lease_back_need_not_let_others_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared(lambda: pytest.fail("Spark is not needed"), lambda _: None)
    pauses: list[float | None] = []
    monkeypatch.setattr(shared.stopping, "wait", pauses.append)
    for _ in range(2):
        shared.request_in_turn(lambda: LeaseGrant(True, 1, "me", 1000))
    shared.release()
    shared.request_in_turn(lambda: LeaseGrant(False, 1, "other", 1000))
    assert pauses == [0.0, 0.5, 0.5]


def test_spark_starts_before_any_lease_and_is_warmed_once_for_all_streams_that_wait() -> None:
    steps: list[str] = []
    session: Any = SimpleNamespace()

    def start() -> Any:
        steps.append("start")
        return session

    shared = Shared(start, lambda found: steps.append("warm" if found is session else "other"))
    shared.prepare(LOG)
    assert steps == [], "a stream that does not fit needs none"
    for _ in range(2):
        shared.start_first()
        shared.prepare(LOG)
    assert steps == ["start", "warm"]


def test_one_that_runs_streams_is_warm_and_holds_up_no_start() -> None:
    session: Any = SimpleNamespace()
    warmed: list[Any] = []
    shared = Shared(lambda: session, warmed.append)
    shared.start_first()
    shared.request_in_turn(lambda: LeaseGrant(True, 1, "me", 1000))
    shared.prepare(LOG)
    assert warmed == []
    shared.release()
    shared.prepare(LOG)
    assert warmed == [session]


def test_a_warm_up_that_fails_ends_no_stream_that_waits() -> None:
    session: Any = SimpleNamespace()

    def warm_up(_: Any) -> None:
        raise RuntimeError("Python worker failed to connect back")

    shared = Shared(lambda: session, warm_up)
    shared.start_first()
    with structlog.testing.capture_logs() as logged:
        shared.prepare(structlog.get_logger())
    assert [(line["event"], line["error"]) for line in logged] == [
        ("not warmed up, the first batch will be slow", "Python worker failed to connect back")
    ]


def test_on_a_cluster_spark_starts_under_a_lease() -> None:
    shared = Shared(lambda: pytest.fail("its executors would take room from others"), None)
    shared.start_first()
    shared.prepare(LOG)
