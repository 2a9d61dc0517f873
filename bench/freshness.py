"""From the beginning of a write to the arrival of its rows at a subscriber, ten writes of 100 rows a second.

The writer and the subscriber have a thread and a connection each.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import numpy as np

import lakelog
from bench.measure import WrongAnswerError
from bench.shapes import q1, q1_schema

EVERY_S: Final = 0.1
ROWS: Final = 100
WARM_UPS: Final = 20


def measure_freshness(target: str, name: str, key: list[str], count: int) -> list[float]:
    """Latencies in milliseconds of so many writes to a new table; the first `WARM_UPS` are not to be counted.

    Raises:
        WrongAnswerError: Rows are missing, or there twice.
    """
    reader, writer = lakelog.connect(target), lakelog.connect(target)
    table = writer.create_table(name, q1_schema(), primary_key=key)
    begun_s: list[float] = []

    def write() -> None:
        next_s = time.perf_counter()
        for number in range(count):
            # The same keys come again after ten writes, so that most rows have old ones.
            rows = q1(np.arange(ROWS) + ROWS * (number % 10), number)
            time.sleep(max(0.0, next_s - time.perf_counter()))
            next_s += EVERY_S
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
    if rows_received != ROWS * (count + updates):
        raise WrongAnswerError(f"{name}: {rows_received} rows were received of {count} writes")
    reader.close()
    writer.close()
    return [1000 * (received - begun) for received, begun in zip(received_s, begun_s, strict=True)]
