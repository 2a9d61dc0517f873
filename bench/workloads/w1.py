"""W1 of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure
from bench.sdk import measure_append

TITLE = "Bulk append: 4 M Q1 rows, one commit"


def run(bench: Bench) -> Iterator[Figure]:
    """Yields the figures."""
    yield from measure_append(bench)
