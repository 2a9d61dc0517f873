"""W8: how fresh a subscriber is: from the beginning of a write to the arrival of its rows, ten writes a second.

Postgres, the metastore, the writer and the subscriber are processes and threads of this machine; the writer and the
subscriber have a connection each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import lakelog
from bench import log_freshness
from bench.context import Bench
from bench.freshness import EVERY_S, WARM_UPS, measure_freshness
from bench.measure import Figure, absolute
from bench.spark import streams
from lakelog.testing import embedded_stack

TITLE = "freshness of a stream: 10 commits/s of 100 rows, written -> received, from files and from the log"
_SECONDS = 60


def measure_sdk(bench: Bench) -> Iterator[Figure]:
    """Latencies of an append table, and of a keyed one whose changes come with their old rows."""
    with embedded_stack(bench.folder / "stack") as stack:
        lakelog.connect(stack.target).create_database("b")
        count = bench.scaled(int(_SECONDS / EVERY_S)) + WARM_UPS
        for name, key in (("append table", []), ("changes of a keyed table", ["id"])):
            latencies_ms = measure_freshness(stack.target, f"b.t{len(key)}", key, count)[WARM_UPS:]
            p50, p95, p99 = np.percentile(latencies_ms, [50, 95, 99])
            yield absolute(f"{name}, p50", "ms", [float(p50)], target=20)
            yield absolute(f"{name}, p95", "ms", [float(p95)])
            yield absolute(f"{name}, p99", "ms", [float(p99)])


PARTS = {"sdk": measure_sdk, "log": log_freshness.measure_log, "spark": streams.measure_freshness}
