"""W3 of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure
from bench.sdk import measure_scan

TITLE = "Merge on read: 4 M Q1 rows + k x 400 k"


def run(bench: Bench) -> Iterator[Figure]:
    """Yields the figures."""
    yield from measure_scan(bench)
