"""IDLE of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench import idle
from bench.context import Bench
from bench.measure import Figure

TITLE = "CPU of services that have nothing to do"


def run(bench: Bench) -> Iterator[Figure]:
    """All states."""
    yield from idle.measure(bench)
