"""AIO: what an event loop pays for the SDK: a call in a thread, commits at once and the lag they cause, subscriptions.

A metastore over Postgres runs as a process; the program under measurement is this one. Lag is by how much a task that
wants to run every 5 ms comes too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import numpy as np
import psutil
import pyarrow as pa

import lakelog.aio
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.testing import embedded_stack

_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False)])
_THREADS: Final = (8, 16, 32, 64)
_COMMITS: Final = 1000
_STREAMS: Final = 200
_TICK_S: Final = 0.005
_REST_S: Final = 10.0
_SETTLED_S: Final = 2.0


def measure(bench: Bench) -> Iterator[Figure]:
    """All figures, one after the other over one metastore."""
    with embedded_stack(bench.folder / "stack") as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("b")
            catalog.create_table("b.t", _SCHEMA)
            yield from _measure_blocking_streams(bench, catalog.table("b.t"))
        yield from asyncio.run(_measure_calls(bench, stack.target))
        for threads in _THREADS:
            yield from asyncio.run(_measure_commits(bench, stack.target, threads))
        yield from asyncio.run(_measure_streams(bench, stack.target))


async def _measure_calls(bench: Bench, target: str) -> list[Figure]:
    async with lakelog.aio.connect(target) as catalog:
        table = await catalog.table("b.t")
        nothing_us = [1000 * await _time(lambda: catalog._workers.read(int)) for _ in range(bench.scaled(5000))]
        figures = [absolute("a call that does nothing, awaited", "us", _thirds(nothing_us))]
        for name, awaited, blocking in (
            ("append of a row", lambda: table.append([{"k": 1}]), lambda: table.blocking.append([{"k": 1}])),
            ("count", table.count, table.blocking.count),
        ):
            awaited_ms, blocking_ms = [], []
            for _ in range(bench.scaled(500)):
                awaited_ms.append(await _time(awaited))
                began_s = time.perf_counter()
                blocking()
                blocking_ms.append(1000 * (time.perf_counter() - began_s))
            figures.append(absolute(f"{name}, blocking", "ms", _thirds(blocking_ms)))
            figures.append(absolute(f"{name}, awaited", "ms", _thirds(awaited_ms)))
        return figures


async def _time(call: Callable[[], Awaitable[object]]) -> float:
    began_s = time.perf_counter()
    await call()
    return 1000 * (time.perf_counter() - began_s)


def _thirds(took_ms: list[float]) -> list[float]:
    """Medians of three parts, so that a figure has a spread."""
    return [statistics.median(part) for part in np.array_split(took_ms, 3)]


async def _measure_commits(bench: Bench, target: str, threads: int) -> list[Figure]:
    async with lakelog.aio.connect(target, threads=threads) as catalog:
        table = await catalog.create_table(f"b.c{threads}", _SCHEMA)
        rates, lags_ms, worst_ms = [], [], []
        count = bench.scaled(_COMMITS)
        for run in range(1 if bench.quick else 3):
            async with _watching_lag() as lags:
                began_s = time.perf_counter()
                await asyncio.gather(*(table.append([{"k": number}]) for number in range(count)))
                rates.append(count / (time.perf_counter() - began_s))
            lags_ms.append(float(np.percentile(lags, 99)))
            worst_ms.append(max(lags))
            if await table.count() != (run + 1) * count:
                raise WrongAnswerError("rows are missing")
        return [
            absolute(f"{count:,} appends at once, {threads} threads", "commits/s", rates, at_most=False),
            absolute(f"lag of the event loop meanwhile, {threads} threads, p99", "ms", lags_ms),
            absolute(f"lag of the event loop meanwhile, {threads} threads, worst", "ms", worst_ms),
        ]


@asynccontextmanager
async def _watching_lag() -> AsyncIterator[list[float]]:
    lags_ms: list[float] = []

    async def tick() -> None:
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            lags_ms.append(1000 * (time.perf_counter() - began_s - _TICK_S))

    ticking = asyncio.create_task(tick())
    try:
        yield lags_ms
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking


class _Cost:
    """What subscriptions cost this process that wait: threads, memory, and CPU."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.threads = threading.active_count()
        self.resident = self._process.memory_info().rss

    def cpu_s(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def to_figures(self, kind: str, rested_cpu_s: float, woken_s: float) -> list[Figure]:
        grown_mb = (self._process.memory_info().rss - self.resident) / 1e6
        return [
            absolute(f"{_STREAMS} subscriptions, {kind}: threads", "", [threading.active_count() - self.threads]),
            absolute(f"{_STREAMS} subscriptions, {kind}: memory", "MB", [grown_mb]),
            absolute(f"{_STREAMS} subscriptions, {kind}: CPU at rest", "% of a core", [100 * rested_cpu_s / _REST_S]),
            absolute(f"{_STREAMS} subscriptions, {kind}: a commit until all have its row", "s", [woken_s]),
        ]


def _measure_blocking_streams(bench: Bench, table: lakelog.Table) -> Iterator[Figure]:
    with table.subscribe() as first:
        # What the first reader of a process needs is not counted.
        first.read(60)
    cost = _Cost()
    streams = [table.subscribe("latest") for _ in range(_STREAMS)]
    for stream in streams:
        stream.read(0)
    time.sleep(_SETTLED_S)
    before_s = cost.cpu_s()
    time.sleep(_REST_S)
    rested_s = cost.cpu_s() - before_s
    began_s = time.perf_counter()
    table.append([{"k": 1}])
    if not all(stream.read(60) for stream in streams):
        raise WrongAnswerError("a subscription got no row")
    yield from cost.to_figures("blocking", rested_s, time.perf_counter() - began_s)
    for stream in streams:
        stream.close()


async def _measure_streams(bench: Bench, target: str) -> list[Figure]:
    async with lakelog.aio.connect(target) as catalog:
        table = await catalog.table("b.t")
        async with table.subscribe() as first:
            await first.read(60)
        cost = _Cost()
        streams = await asyncio.gather(*(_open(table) for _ in range(_STREAMS)))
        reads = [asyncio.create_task(stream.read()) for stream in streams]
        await asyncio.sleep(_SETTLED_S)
        before_s = cost.cpu_s()
        await asyncio.sleep(_REST_S)
        rested_s = cost.cpu_s() - before_s
        began_s = time.perf_counter()
        await table.append([{"k": 1}])
        if not all(await asyncio.gather(*reads)):
            raise WrongAnswerError("a subscription got no row")
        figures = cost.to_figures("awaited", rested_s, time.perf_counter() - began_s)
        for stream in streams:
            await stream.close()
        return figures


async def _open(table: lakelog.aio.Table) -> lakelog.aio.Subscription:
    return await table.subscribe("latest")
