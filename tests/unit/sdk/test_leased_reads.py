"""Reads that end where nobody expects it: in a forked child, and while the garbage collector is at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakelog.client import leased_reads
from lakelog.client.leased_reads import LeasedReads
from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.table import TableInfo

TABLE = cast(TableInfo, SimpleNamespace(table_uuid="t", name="shop.t"))


class Calls:
    """A metastore that remembers what was asked."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.released = 0

    def lease_snapshot(self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int) -> int:
        self.held.append(snapshot_id)
        return 0

    def release_snapshot(self, table_uuid: str, holder: str) -> None:
        self.released += 1


def make(**more: Any) -> tuple[LeasedReads, Calls]:
    calls = Calls()
    return LeasedReads(cast(Metastore, calls), **more), calls


def ends(do: Callable[[], None]) -> bool:
    """Whether it comes to an end, in a thread of its own."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


def test_a_forked_child_waits_for_no_thread_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, _ = make()
    parents = reads.reading(TABLE, 1)
    parents.__enter__()
    # Another thread of the parent held it at the moment of the fork, and does not exist in the child.
    assert ends(reads._lock.acquire)  # type: ignore[arg-type]
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)

    def read() -> None:
        with reads.reading(TABLE, 2):
            pass

    assert ends(read)


def test_a_read_may_end_wherever_the_collector_runs() -> None:
    reads, _ = make()

    def collect() -> None:
        left, other = reads.reading(TABLE, 1), reads.reading(TABLE, 2)
        left.__enter__()
        other.__enter__()
        # An iterator that was left in a cycle is closed by whatever thread allocates, also inside of these locks.
        with reads._lock:
            left.__exit__(None, None, None)
        with leased_reads._POLLER._lock:
            other.__exit__(None, None, None)

    assert ends(collect)


def test_a_read_is_looked_at_however_many_others_end() -> None:
    reads, calls = make(long_s=0.05)
    for _ in range(20):
        with reads.reading(TABLE, 1):
            pass
    with reads.reading(TABLE, 2):
        give_up = threading.Event()
        for _ in range(500):
            if calls.held:
                break
            give_up.wait(0.01)
        assert calls.held[0] == 2
    assert calls.released == 1


def test_the_thread_that_looks_ends_when_nothing_is_read() -> None:
    reads, _ = make(long_s=0.05)
    with reads.reading(TABLE, 1):
        thread = leased_reads._POLLER._thread
        assert thread is not None
    thread.join(5)
    # Reads of other tests may keep it for somewhat longer.
    assert not thread.is_alive() or reads not in leased_reads._POLLER._active
