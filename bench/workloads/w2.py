"""W2 of BENCH."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure
from bench.sdk import measure_upsert

TITLE = "Upserts of 20 k and 200 k Q1 rows onto 4 M"


def run(bench: Bench) -> Iterator[Figure]:
    """Yields the figures."""
    yield from measure_upsert(bench)
