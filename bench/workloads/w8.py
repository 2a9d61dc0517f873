"""W8: how fresh a subscriber is: from the beginning of a write to the arrival of its rows, ten writes a second.

Postgres, the metastore, the writer and the subscriber are processes and threads of this machine; the writer and the
subscriber have a connection each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.shapes import q1, q1_schema
from bench.spark import streams
from lakelog.testing import embedded_stack

TITLE = "freshness of a stream: 10 commits/s of 100 rows, written -> received, in file mode"
_SECONDS = 60
_EVERY_S = 0.1
_ROWS = 100
_WARM_UPS = 20


def measure_sdk(bench: Bench) -> Iterator[Figure]:
    """Latencies of an append table, and of a keyed one whose changes come with their old rows."""
    with embedded_stack(bench.folder / "stack") as stack:
        lakelog.connect(stack.target).create_database("b")
        count = bench.scaled(int(_SECONDS / _EVERY_S)) + _WARM_UPS
        for name, key in (("append table", []), ("changes of a keyed table", ["id"])):
            latencies_ms = _measure(stack.target, f"b.t{len(key)}", key, count)[_WARM_UPS:]
            p50, p95, p99 = np.percentile(latencies_ms, [50, 95, 99])
            yield absolute(f"{name}, p50", "ms", [float(p50)], target=20)
            yield absolute(f"{name}, p95", "ms", [float(p95)])
            yield absolute(f"{name}, p99", "ms", [float(p99)])


def _measure(target: str, name: str, key: list[str], count: int) -> list[float]:
    reader, writer = lakelog.connect(target), lakelog.connect(target)
    table = writer.create_table(name, q1_schema(), primary_key=key)
    begun_s: list[float] = []

    def write() -> None:
        next_s = time.perf_counter()
        for number in range(count):
            # The same keys come again after ten writes, so that most rows have old ones.
            rows = q1(np.arange(_ROWS) + _ROWS * (number % 10), number)
            time.sleep(max(0.0, next_s - time.perf_counter()))
            next_s += _EVERY_S
            begun_s.append(time.perf_counter())
            table.append(rows)

    received_s: list[float] = []
    rows_received = 0
    with reader.table(name).subscribe("latest") as stream:
        thread = threading.Thread(target=write)
        thread.start()
        for batch in stream:
            rows_received += batch.data.num_rows
            if stream.is_whole:
                received_s.append(time.perf_counter())
            if len(received_s) == count:
                break
        thread.join()
    updates = max(0, count - 10) if key else 0
    if rows_received != _ROWS * (count + updates):
        raise WrongAnswerError(f"{name}: {rows_received} rows were received of {count} writes")
    reader.close()
    writer.close()
    return [1000 * (received - begun) for received, begun in zip(received_s, begun_s, strict=True)]


PARTS = {"sdk": measure_sdk, "spark": streams.measure_freshness}
