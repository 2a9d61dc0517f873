"""STEADY of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure
from bench.steady.machine import measure

TITLE = "an hour of the same work: memory, threads, open files, connections, files, tables and times stay as they are"


def run(bench: Bench) -> Iterator[Figure]:
    """All that was sampled."""
    yield from measure(bench)
