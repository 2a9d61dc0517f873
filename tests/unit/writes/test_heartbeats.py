"""Renewals of attempts: one call for all that are in use, and none for those that are not."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Unavailable
from lakelog.writes.heartbeats import Heartbeat, Heartbeats

SOON_S = 10.0


class _Metastore:
    """Remembers each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.over: set[str] = set()
        self.fails: Exception | None = None

    def renew_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        self.calls.append(sorted(attempt_ids))
        if self.fails is not None:
            raise self.fails
        return [each for each in attempt_ids if each not in self.over]


@pytest.fixture
def metastore() -> _Metastore:
    return _Metastore()


@pytest.fixture
def heartbeats(metastore: _Metastore) -> Iterator[Heartbeats]:
    made = Heartbeats(cast("Metastore", metastore), pause_s=0.02)
    yield made
    for each in list(made._in_use):
        each.end()
    until(lambda: not is_running(made))


def is_running(heartbeats: Heartbeats) -> bool:
    return heartbeats._thread is not None


def until(is_done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + SOON_S
    while not is_done():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_all_that_are_in_use_are_renewed_by_one_call(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    kept = [heartbeats.begin(name) for name in ("a", "b", "c")]
    until(lambda: metastore.calls.count(["a", "b", "c"]) > 2)
    kept[1].end()
    until(lambda: metastore.calls[-1] == ["a", "c"])


def test_once_closed_none_is_renewed(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    kept = heartbeats.begin("a")
    until(lambda: ["a"] in metastore.calls)
    heartbeats.close()
    until(lambda: not is_running(heartbeats))
    assert kept.is_over


def test_a_forked_child_closes_though_its_parent_held_the_lock(
    heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = heartbeats.begin("a")
    lock, pid, in_use = heartbeats._lock, heartbeats._pid, heartbeats._in_use
    thread = heartbeats._thread
    with lock:
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        closing = threading.Thread(target=heartbeats.close, daemon=True)
        closing.start()
        closing.join(SOON_S / 5)
        assert not closing.is_alive()
    monkeypatch.undo()
    assert not kept.is_over, "it is its parent's"
    heartbeats._lock, heartbeats._pid, heartbeats._in_use, heartbeats._thread = lock, pid, in_use, thread


def test_what_no_one_holds_is_not_renewed(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    kept, forgotten = heartbeats.begin("kept"), heartbeats.begin("forgotten")
    until(lambda: ["forgotten", "kept"] in metastore.calls)
    del forgotten
    gc.collect()
    until(lambda: metastore.calls[-1] == ["kept"])
    assert not kept.is_over


def test_the_thread_ends_with_the_last_one_and_begins_again(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    with heartbeats.begin("a"):
        until(lambda: ["a"] in metastore.calls)
    until(lambda: not is_running(heartbeats))
    count = len(metastore.calls)
    with heartbeats.begin("b"):
        until(lambda: len(metastore.calls) > count)
        assert metastore.calls[count:] == [["b"]] * (len(metastore.calls) - count)


def test_what_is_not_open_any_more_is_not_renewed_again(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    metastore.over = {"over"}
    over, kept = heartbeats.begin("over"), heartbeats.begin("kept")
    until(lambda: metastore.calls.count(["kept"]) > 1)
    assert (over.is_over, kept.is_over) == (True, False)


@pytest.mark.parametrize("error", [Unavailable("Away."), RuntimeError("a bug")])
def test_a_renewal_that_fails_is_followed_by_the_next(
    heartbeats: Heartbeats, metastore: _Metastore, error: Exception
) -> None:
    metastore.fails = error
    kept = heartbeats.begin("a")
    until(lambda: len(metastore.calls) > 2)
    metastore.fails = None
    count = len(metastore.calls)
    until(lambda: len(metastore.calls) > count + 1)
    assert not kept.is_over


def test_more_than_one_call_can_carry_are_renewed_by_several(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    names = [f"{number:05d}" for number in range(2500)]
    assert heartbeats.renew(names) == names
    assert [len(each) for each in metastore.calls] == [1000, 1000, 500]


def test_a_forked_child_renews_only_its_own(
    heartbeats: Heartbeats, metastore: _Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = heartbeats.begin("parents")
    parents_thread = heartbeats._thread
    monkeypatch.setattr(os, "getpid", lambda: -1)
    own = heartbeats.begin("own")
    until(lambda: ["own"] in metastore.calls)
    parents.end()
    own.end()
    assert parents_thread is not None


def test_many_threads_may_begin_at_once(heartbeats: Heartbeats, metastore: _Metastore) -> None:
    kept: list[Heartbeat] = []
    threads = [threading.Thread(target=lambda n=n: kept.append(heartbeats.begin(str(n)))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: bool(metastore.calls) and len(metastore.calls[-1]) == 20)
