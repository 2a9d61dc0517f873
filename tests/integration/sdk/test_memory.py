from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.sdk.catalog import Catalog

KEYED = pa.schema([("id", pa.int64()), ("v", pa.string())])


def test_writing_and_reading_need_memory_that_does_not_follow_the_data(catalog: Catalog) -> None:
    options = {"write-buffer-size": "8 mb"}
    keyed = catalog.create_table("shop.keyed", KEYED, primary_key=["id"], options=options | {"bucket": "2"})
    plain = catalog.create_table("shop.plain", KEYED, options=options)
    batches, length = 120, 10_000

    def source() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(0)
        for number in range(batches):
            ids = random.permutation(length) + number * length
            yield pa.record_batch({"id": ids, "v": pa.array([f"some text of row {n}, to be stored" for n in ids])})

    total = 48 * batches * length
    for write in (keyed.upsert, plain.append):
        peak = _peak_during(lambda write=write: write(source()))  # type: ignore[misc]
        assert peak < total, f"{peak} bytes for {total}"
    for table in (keyed, plain):
        before = pa.total_allocated_bytes()
        seen, peak = 0, 0
        for batch in table.scan().to_batches():
            seen += batch.num_rows
            peak = max(peak, pa.total_allocated_bytes() - before)
        assert seen == batches * length
        assert peak < total, f"{peak} bytes for {total}"


def _peak_during(work: Callable[[], Any]) -> int:
    """The most Arrow memory that was held at once while `work` ran, sampled every millisecond."""
    before = pa.total_allocated_bytes()
    done = threading.Event()
    peak = [0]

    def watch() -> None:
        while not done.wait(0.001):
            peak[0] = max(peak[0], pa.total_allocated_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak[0]
