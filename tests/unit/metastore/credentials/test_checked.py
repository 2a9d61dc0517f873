"""The start of a metastore that vends keys, while the store or its token service is away."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest

from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from metastore.credentials import checked
from metastore.credentials.checked import CheckedVending
from metastore.credentials.opening import NOT_ENFORCED
from metastore.credentials.signing import SigningKeys
from metastore.credentials.token_service import SessionKeys
from metastore.credentials.vending import VendSettings


class Source:
    def request_keys(self, session: str, policy: str) -> SessionKeys:
        return SessionKeys(SigningKeys(session, "secret"), 0)


class Check:
    """Raises an error until a test heals it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.runs = 0
        self.go = threading.Event()
        self.go.set()

    def __call__(self) -> None:
        self.runs += 1
        self.go.wait(10)
        if self.error is not None:
            raise self.error


def run(check: Check, work: Callable[[CheckedVending], Awaitable[None]]) -> None:
    async def start() -> None:
        vending = CheckedVending(VendSettings(Source(), "aws", 900, "s3://lake/w"), check)
        await vending.start()
        try:
            await work(vending)
        finally:
            await vending.close()
            check.go.set()

    asyncio.run(start())


async def wait_for_keys(vending: CheckedVending) -> None:
    while True:
        try:
            assert vending.settings.source.request_keys("ann", "{}").keys.access_key_id == "ann"
        except Unavailable:
            await asyncio.sleep(0.01)
        else:
            return


def test_a_store_that_does_not_enforce_policies_ends_the_start() -> None:
    with pytest.raises(InvalidArgument, match="does not hold"):
        run(Check(InvalidArgument("It does not hold keys.", reason=NOT_ENFORCED)), wait_for_keys)


@pytest.mark.parametrize("error", [Unavailable("It is away."), PermissionDenied("It refuses."), None])
def test_without_an_answer_the_metastore_starts_and_vends_later(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checked, "_AGAIN_S", 0.02)
    check = Check(error)

    async def work(vending: CheckedVending) -> None:
        if error is not None:
            while check.runs < 3:
                with pytest.raises(Unavailable, match="vends no keys yet"):
                    vending.settings.source.request_keys("ann", "{}")
                await asyncio.sleep(0.005)
            check.error = None
        await wait_for_keys(vending)
        # It is checked once more, and not again after that.
        runs = check.runs
        await asyncio.sleep(0.1)
        assert check.runs == runs

    with caplog.at_level(logging.WARNING):
        run(check, work)
    # The control: a check that succeeds at once has no line.
    assert ("no keys are vended; the store is checked again" in caplog.text) == (error is not None)


def test_a_store_that_is_silent_does_not_hold_up_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checked, "_START_S", 0.05)
    check = Check()
    check.go.clear()

    async def work(vending: CheckedVending) -> None:
        with pytest.raises(Unavailable, match="vends no keys yet"):
            vending.settings.source.request_keys("ann", "{}")
        # No second check runs beside one that has no answer.
        assert check.runs == 1
        check.go.set()
        await wait_for_keys(vending)

    run(check, work)
    assert "has not passed its check within 0.05 s" in caplog.text
