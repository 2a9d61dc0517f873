"""Heavy work runs beside the event loop, bounded, and without pauses of the collector of garbage."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from lakelog.errors import ResourceExhausted
from metastore import background
from metastore.heavy_work import LIGHT, Collector, HeavyWork, WorkThreads, slices


def test_little_work_is_done_at_once_and_much_in_a_thread() -> None:
    async def run() -> tuple[str, str]:
        threads = WorkThreads("plans", threads=1)
        here = await threads.run(LIGHT, lambda: threading.current_thread().name)
        beside = await threads.run(LIGHT + 1, lambda: threading.current_thread().name)
        return here, beside

    here, beside = asyncio.run(run())
    assert here == threading.current_thread().name
    assert beside.startswith("lakelog-plans")


def test_the_loop_goes_on_meanwhile() -> None:
    async def run() -> int:
        threads, ended, ticks = WorkThreads("plans", threads=1), threading.Event(), 0
        work = asyncio.ensure_future(threads.run(LIGHT + 1, ended.wait, 10))
        for _ in range(20):
            await asyncio.sleep(0)
            ticks += not work.done()
        ended.set()
        assert await work
        return ticks

    assert asyncio.run(run()) == 20


def test_errors_arrive_as_they_are() -> None:
    def fail() -> None:
        raise KeyError("x")

    for size in (1, LIGHT + 1):
        with pytest.raises(KeyError, match="x"):
            asyncio.run(WorkThreads("plans", threads=1).run(size, fail))


def test_what_waits_is_bounded_and_others_get_in_afterwards() -> None:
    async def run() -> None:
        threads, ended = WorkThreads("plans", threads=1, max_waiting=2), threading.Event()
        works = [asyncio.ensure_future(threads.run(LIGHT + 1, ended.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhausted, match="2 large plans wait") as refused:
            await threads.run(LIGHT + 1, ended.wait, 10)
        assert refused.value.reason == "TOO_MANY_PLANS"
        # One that waits is given up: its place is free.
        works.pop().cancel()
        await asyncio.sleep(0)
        last = asyncio.ensure_future(threads.run(LIGHT + 1, ended.wait, 10))
        await asyncio.sleep(0)
        ended.set()
        assert await asyncio.gather(*works, last) == [True, True, True]
        assert await threads.run(LIGHT + 1, ended.is_set)

    asyncio.run(run())


def test_slices_cover_everything_once() -> None:
    for count in (0, 1, 999, 1000, 1001, 2500):
        covered = [number for start, stop in slices(count) for number in range(start, stop)]
        assert covered == list(range(count))


class Node:
    """Something that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: Node | None = None


async def settle_background(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs the step of the background with short pauses; how many it made."""
    pauses, thread, sleep = 0, threading.current_thread(), asyncio.sleep

    async def count(seconds: float) -> None:
        nonlocal pauses
        if threading.current_thread() is not thread:
            # The loop of another test's metastore, which lives as long as its module.
            await sleep(seconds)
            return
        pauses += 1

    monkeypatch.setattr(background, "COLLECTOR", collector)
    monkeypatch.setattr(asyncio, "sleep", count)
    await background._reclaim()
    return pauses


def test_the_background_waits_for_heavy_work_to_end_but_not_for_ever(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.settle(10_000)
    assert asyncio.run(settle_background(collector, monkeypatch)) == 0
    collector.begin()
    collector.end()
    assert asyncio.run(settle_background(collector, monkeypatch)) == 0
    assert not collector.has_put_aside
    collector.begin()
    collector.end()
    collector.begin()
    assert asyncio.run(settle_background(collector, monkeypatch)) == background.RECLAIM_TRIES
    assert not collector.has_put_aside
    collector.end()


@pytest.fixture
def collector() -> Iterator[Collector]:
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield Collector()
    gc.enable()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)
    gc.unfreeze()


def test_nothing_is_collected_while_heavy_work_runs(collector: Collector) -> None:
    collector.begin()
    assert gc.isenabled(), "the process has not settled"
    collector.end()
    collector.settle(10_000)
    collector.begin()
    collector.begin()
    collector.end()
    assert not gc.isenabled()
    collector.end()
    assert gc.isenabled()


def test_what_heavy_work_has_made_is_not_scanned_and_its_cycles_are_found_later(collector: Collector) -> None:
    collector.settle(10_000)
    collector.begin()
    first, second = Node(), Node()
    first.other, second.other = second, first
    alive = [Node() for _ in range(1000)]
    collector.end()
    assert not any(each is alive[0] for each in gc.get_objects())
    del first, second
    assert gc.collect() == 0
    collector.begin()
    assert not collector.reclaim(), "heavy work runs"
    collector.end()
    before = sum(isinstance(each, Node) for each in gc.get_objects())
    assert collector.has_put_aside
    assert collector.reclaim()
    assert not collector.has_put_aside
    gc.unfreeze()
    assert sum(isinstance(each, Node) for each in gc.get_objects()) == before + len(alive)


def test_many_objects_are_freed_beside_the_loop_once_others_have_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.heavy_work._LET_GO_S", 0.0)

    async def run() -> tuple[list[Node], list[Node]]:
        work = HeavyWork()
        few, many = [Node() for _ in range(LIGHT)], [Node() for _ in range(LIGHT + 1)]
        work.free_later(few)
        work.free_later(many)
        assert len(many) == LIGHT + 1, "not yet: others may still refer to them"
        for _ in range(1000):
            await asyncio.sleep(0.001)
            if not many:
                break
        return few, many

    few, many = asyncio.run(run())
    assert len(few) == LIGHT, "these go by themselves"
    assert not many
