"""Whoever follows a random table, stopping and coming back as it pleases, ends with the rows that the table has.

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from tests.support.random_tables.history import History, sorted_rows

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "12"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))
WAIT_S = 20.0


class Reader:
    """Keeps the table's rows from its changes alone: what is done for good, and what a stopped reader would lose."""

    def __init__(self, history: History, name: str, mode: str) -> None:
        self._history = history
        self._name = name
        self._mode = mode
        self._done: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._stream = self._open()

    def _open(self) -> Subscription:
        self._rows = Counter(self._done)
        return self._history.table.subscribe(self._mode, self._name, options={"streaming-read-overwrite": "true"})

    def read(self, timeout_s: float) -> bool:
        """Takes a batch; False when none came."""
        before = self._stream.position
        rows_before = Counter(self._rows)
        batch = self._stream.read(timeout_s)
        if self._stream.position != before:
            # All that had come before this batch is done.
            self._done = rows_before
        if batch is None:
            return False
        self._apply(batch.data)
        return True

    def _apply(self, data: pa.RecordBatch) -> None:
        for row in data.to_pylist():
            kind = row.pop("_row_kind", "+I")
            text = repr(sorted(row.items()))
            if kind.startswith("+"):
                self._rows[text] += 1
            else:
                assert self._rows[text] > 0, f"{kind} of a row that was not there: {text}"
                self._rows[text] -= 1

    def stop_and_come_back(self) -> None:
        """What was not done is forgotten, as by a program that dies."""
        self._stream.close()
        self._stream = self._open()

    def catch_up(self, latest: int) -> list[str]:
        """Reads all there is; the rows it ends with."""
        end_s = time.monotonic() + WAIT_S
        while self._stream.position != latest:
            # The last snapshots may show nothing, so that only the position moves.
            self.read(0.05)
            assert time.monotonic() < end_s, f"{self._stream!r} of {latest}"
        self._stream.close()
        return sorted(self._rows.elements())


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_reader_ends_with_the_rows_of_the_table(memory_catalog: Catalog, seed: int) -> None:
    _run(memory_catalog, seed, f"random.s{seed}")


@pytest.mark.parametrize("seed", range(-FIRST_SEED - TABLES // 4, -FIRST_SEED))
def test_so_does_a_reader_of_a_served_metastore(served_catalog: Catalog, seed: int) -> None:
    _run(served_catalog, seed, f"random.s{abs(seed)}")


def _run(catalog: Catalog, seed: int, name: str) -> None:
    history = History(catalog, name, seed)
    random = Random(seed)
    if history.options.get("changelog-producer") == "input":
        # What was written needs not fit together; nothing checks or completes it (semantics 3.4).
        return
    if "changelog-producer.row-deduplicate-ignore-fields" in history.options:
        # A row that differs in nothing else is stored and not told (semantics 3.2).
        return
    readers: list[Reader] = []
    for number in range(random.randrange(3, 9)):
        if random.random() < 0.4:
            readers.append(Reader(history, f"r{number}", "latest-full"))
        history.step()
        for reader in readers:
            for _ in range(random.randrange(3)):
                reader.read(0.05)
            if random.random() < 0.3:
                reader.stop_and_come_back()
    readers.append(Reader(history, "late", "latest-full"))
    latest = len(history.model.snapshots)
    if not history.key and any(each.kind == "OVERWRITE" for each in history.model.snapshots):
        # An append table tells what an overwrite brought, not what it took (semantics 5.2).
        return
    expected = sorted_rows(history.model.rows())
    for reader in readers:
        assert reader.catch_up(latest) == expected, f"{history!r}"
