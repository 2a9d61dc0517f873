"""W15: a writer, the compactor and a reader at once, against the writer and the reader alone.

All are processes of one machine: Postgres, the metastore, the compactor, and one that upserts as fast as it can; the
reader, and who writes what it receives, are threads of this one, as in W8.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from multiprocessing.queues import Queue
from typing import Final

import numpy as np

import lakelog
from bench.context import Bench
from bench.expected import check_equal
from bench.freshness import WARM_UPS, measure_freshness
from bench.measure import Figure, absolute
from bench.shapes import q1, q1_schema
from lakelog.testing import EmbeddedStack, embedded_stack

SECONDS: Final = 120
ALONE_SECONDS: Final = 30
BASE_ROWS: Final = 400_000
BATCH_ROWS: Final = 20_000


def measure_together(bench: Bench) -> Iterator[Figure]:
    """How much slower upserts are, and how much later rows arrive, than each alone."""
    together_s, alone_s = bench.scaled(SECONDS), max(3, bench.scaled(ALONE_SECONDS))
    with embedded_stack(bench.folder / "stack", services=["metastore", "compactor"]) as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("b")
            for name, write_only in (("alone", "true"), ("together", "false")):
                options = {"bucket": "2", "write-only": write_only}
                table = catalog.create_table(f"b.{name}", q1_schema(), primary_key=["id"], options=options)
                table.upsert(q1(np.arange(bench.scaled(BASE_ROWS)), 1))
        alone_rates: list[float] = []
        alone_ms: list[float] = []
        for _ in range(2):
            # Before and behind, so that a machine that gets slower meets both.
            with _Ingest(stack, bench, "alone", alone_s) as ingest:
                alone_rates.append(ingest.rate())
            alone_ms.append(_p99(measure_freshness(stack.target, f"b.f{len(alone_ms)}", [], 10 * alone_s + WARM_UPS)))
            if len(alone_ms) == 1:
                with _Ingest(stack, bench, "together", together_s) as ingest:
                    count = int(10 * together_s * 0.9)
                    own_ms = _p99(measure_freshness(stack.target, "b.fresh", [], count + WARM_UPS))
                    own_rate = ingest.rate()
        with lakelog.connect(stack.target) as catalog:
            files = catalog.table("b.together").files().num_rows
            others = catalog.table("b.alone").files().num_rows
        rate, latency_ms = statistics.mean(alone_rates), statistics.mean(alone_ms)
    yield Figure(
        "upserts with compactor and reader",
        "rows/s",
        own_rate,
        rate,
        own_rate / rate,
        own_rate / max(alone_rates),
        own_rate / min(alone_rates),
        1,
        0.6,
        own_rate / rate >= 0.6,
        aim=">= 0.6 x",
    )
    ratios = [each / own_ms for each in alone_ms]
    yield Figure(
        "freshness with writer and compactor, p99",
        "ms",
        own_ms,
        latency_ms,
        latency_ms / own_ms,
        min(ratios),
        max(ratios),
        1,
        round(1 / 3, 3),
        own_ms <= 3 * latency_ms,
        aim="<= 3 x its time",
    )
    yield absolute("files behind it, compacted", "", [float(files)])
    yield absolute("files behind it, written alone and not compacted", "", [float(others)])


class _Ingest:
    """A process that upserts for some seconds; its rows are checked when it has ended."""

    def __init__(self, stack: EmbeddedStack, bench: Bench, name: str, seconds: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._answers: Queue[float] = spawn.Queue()
        self._target, self._name, self._keys = stack.target, name, bench.scaled(BASE_ROWS)
        self._process = spawn.Process(target=upsert_for, args=(stack.target, name, self._keys, seconds, self._answers))

    def __enter__(self) -> _Ingest:
        self._process.start()
        # Told when the first commit is there.
        self._answers.get(timeout=60)
        return self

    def rate(self) -> float:
        """Rows a second, when it has ended."""
        return self._answers.get(timeout=SECONDS + 120)

    def __exit__(self, *_: object) -> None:
        self._process.join(60)
        if self._process.is_alive():
            self._process.kill()
        with lakelog.connect(self._target) as catalog:
            check_equal(f"rows of b.{self._name}", catalog.table(f"b.{self._name}").scan().count(), self._keys)


def upsert_for(target: str, name: str, keys: int, seconds: int, answers: Queue[float]) -> None:
    random = np.random.default_rng(7)
    batches = [q1(random.integers(0, keys, BATCH_ROWS), seed) for seed in range(4)]
    with lakelog.connect(target) as catalog:
        table = catalog.table(f"b.{name}")
        table.upsert(batches[0])
        answers.put(0.0)
        begun_s, rows = time.perf_counter(), 0
        while time.perf_counter() - begun_s < seconds:
            table.upsert(batches[rows // BATCH_ROWS % len(batches)])
            rows += BATCH_ROWS
        answers.put(rows / (time.perf_counter() - begun_s))


def _p99(latencies_ms: list[float]) -> float:
    return float(np.percentile(latencies_ms[WARM_UPS:], 99))
