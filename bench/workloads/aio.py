"""AIO of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench import asyncio_sdk
from bench.context import Bench
from bench.measure import Figure

TITLE = "the SDK for asyncio: calls in threads, 1,000 commits and 200 subscriptions at once, lag of the event loop"


def run(bench: Bench) -> Iterator[Figure]:
    """Calls, commits, subscriptions."""
    yield from asyncio_sdk.measure(bench)
