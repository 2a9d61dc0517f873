"""When the metastore looks at its database, and what it reports of that."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from prometheus_client import CollectorRegistry

from lakelog.errors import Unavailable
from metastore.server.health import HealthMonitor
from metastore.server.rpc_metrics import RpcMetrics


class _OverError(BaseException):
    """All answers were given."""


class _Probe:
    """Answers in turn what a test says, and remembers how long it was to pause after each check."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)
        self.pauses: list[float] = []

    async def ping(self) -> None:
        if not self._answers.pop(0):
            raise Unavailable("away")

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self._answers:
            raise _OverError


class _Servicer:
    def __init__(self) -> None:
        self.reported: list[str] = []

    async def set(self, service: str, _state: Any) -> None:
        self.reported.append(service)


def _run(*answers: bool) -> tuple[list[float], list[str]]:
    probe, servicer = _Probe(*answers), _Servicer()
    servicer_as_any: Any = servicer
    monitor = HealthMonitor(servicer_as_any, ["s"], probe, RpcMetrics(CollectorRegistry()), interval_s=1.0, idle_s=10.0)

    with contextlib.suppress(_OverError):
        asyncio.run(monitor.run())
    return probe.pauses, servicer.reported


def test_a_database_that_answers_is_looked_at_rarely_and_one_that_does_not_often() -> None:
    pauses, _ = _run(True, False, False, True)
    assert pauses == [10.0, 1.0, 1.0, 10.0]


def test_only_changes_are_reported() -> None:
    _, reported = _run(True, True, True)
    assert reported == ["", "s"]
    _, reported = _run(False, True, True, False)
    assert reported == ["", "s"] * 3
