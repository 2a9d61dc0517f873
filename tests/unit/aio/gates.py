"""Holds calls to a metastore, so that a test decides what happens while one is on its way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from lakelog.client.metastore.metastore import Metastore

WAIT_S = 20.0


class Gate:
    """A place where threads wait until the test opens it."""

    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self._open = threading.Event()

    def hold(self) -> None:
        """Waits, in the thread of the call."""
        self._arrived.release()
        assert self._open.wait(WAIT_S), "no one opened the gate"

    def open(self) -> None:
        self._open.set()

    async def arrival(self) -> None:
        """Waits until one more call is at the gate."""
        async with asyncio.timeout(WAIT_S):
            while not self._arrived.acquire(blocking=False):
                await asyncio.sleep(0.002)


class WatchedMetastore:
    """Forwards all calls; holds those of one name, and refuses those in an event loop's thread."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self.gates: dict[str, Gate] = {}
        self.after: dict[str, Gate] = {}
        self.calls: list[str] = []

    def close(self) -> None:
        """The fixture closes it, when no call is on its way any more."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._metastore, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            check_no_loop(f"metastore.{name}")
            self.calls.append(name)
            if name in self.gates:
                self.gates[name].hold()
            answer = method(*args, **kwargs)
            if name in self.after:
                self.after[name].hold()
            return answer

        return call


def watched(metastore: Metastore) -> tuple[Metastore, WatchedMetastore]:
    """A metastore, and what a test knows and decides of it."""
    made = WatchedMetastore(metastore)
    return cast(Metastore, made), made


def check_no_loop(what: str) -> None:
    """Fails in a thread whose event loop runs: that call would hold up all others of the program."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError(f"{what} was called in the event loop's thread")


@contextmanager
def unprotected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls are cancelled only in name: no place of the SDK looks whether they are."""
    with monkeypatch.context() as patched:
        for module in ("lakelog.writes.attempt", "lakelog.sdk.transaction"):
            patched.setattr(f"{module}.check_cancelled", lambda: None)
        yield
