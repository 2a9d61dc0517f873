"""The wait for the database at the start: says why it waits, once a reason, and gives up in time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from metastore.server import startup
from metastore.server.startup import StartupFailure, wait_for_database

URL = "postgresql://lakelog@postgres:5432/lakelog"


class Database:
    """Fails with each of some reasons, then answers."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)

    async def ping(self) -> None:
        if self._reasons:
            raise Unavailable(self._reasons.pop(0))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_WAIT_PAUSE_S", 0.001)


def wait(database: Database, wait_s: float) -> None:
    asyncio.run(wait_for_database(database.ping, URL, wait_s, SystemClock()))


def test_each_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    reasons = ["connection refused", "connection refused", "password authentication failed\nfor user lakelog"]
    with caplog.at_level(logging.WARNING):
        wait(Database(*reasons), 60)
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for the database {URL}: connection refused",
        f"waiting for the database {URL}: password authentication failed; for user lakelog",
    ]


def test_the_end_of_the_wait_names_the_last_reason() -> None:
    with pytest.raises(StartupFailure, match=r"does not answer within .* s: down") as raised:
        wait(Database(*["down"] * 10_000), 0.02)
    assert "\n" not in str(raised.value)


def test_without_a_wait_it_fails_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(StartupFailure, match="does not answer: down"):
        wait(Database("down"), 0)
    assert not caplog.records
