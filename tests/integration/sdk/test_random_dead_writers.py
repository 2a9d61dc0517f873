"""Random histories with dead writers, their retries and rivals, on `eventual` tables of every shape.

Calm: after each step the reader shows exactly what the model says. Racy: the log loses and doubles records, the reader
begins again at any moment, dead writers are noticed by their silence; at rest what it shows is the table.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.merge import uncommitted_overlay
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.memory.producing import MemoryUncommittedSender
from lakelog.log.records import EncodedRecords
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.logs import publishing
from tests.integration.sdk.uncommitted_histories import SHAPES, Shape, Writers
from tests.support.log.logging_tables import HandPublisher, open_metastore

pytestmark = pytest.mark.usefixtures("polls_often")
STEPS = 40
SOON_S = 20.0
NEVER_MS = 10**9


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def catalog(warehouse: Path, cluster: MemoryCluster) -> Iterator[Catalog]:
    metastore = open_metastore(warehouse, cluster)
    catalog = Catalog(metastore, LocationStores(), open_log=lambda options: MemoryLog(cluster))
    catalog.create_database("shop")
    yield catalog
    metastore.close()


def read_rows(table: Table, snapshot_id: int | None = None) -> dict[int, tuple[Any, ...]]:
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {row["k"]: tuple(row.values()) for row in rows}


def newest(table: Table) -> int:
    return max(table.snapshots().column("id").to_pylist(), default=0)


class Reader:
    """Applies what it is shown; by key, or counting."""

    def __init__(self, table: Table, shape: Shape) -> None:
        self._shape = shape
        options = {"streaming-read-overwrite": "true"} if shape.keyed else {}
        self.stream: Subscription = table.subscribe(consumer_id="c", options=options)
        self.rows = read_rows(table, self.stream.position) if shape.keyed and self.stream.position else {}
        self.counts: Counter[int] = Counter()

    def read(self, timeout_s: float) -> None:
        batch = self.stream.read(timeout_s)
        if batch is None:
            return
        for row in batch.data.to_pylist():
            if not self._shape.keyed:
                self.counts[row["v"]] += 1
                continue
            kind = row.pop("_row_kind")
            if kind in ("-U", "-D"):
                gone = self.rows.pop(row["k"], None)
                assert gone is not None or not self._shape.is_early, "something was shown before"
            else:
                self.rows[row["k"]] = tuple(row.values())

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def read_until(self, position: int, rows: dict[int, tuple[Any, ...]], done: object) -> None:
        end_s = time.monotonic() + SOON_S
        while (self.stream.position or 0) < position or self.rows != rows:
            assert time.monotonic() < end_s, f"shown {self.rows}, expected {rows}, after {done}"
            self.read(0.02)


def run_calmly(catalog: Catalog, shape: Shape, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead are not noticed, but by commits and epochs, until the end."""
    monkeypatch.setattr(publishing, "SILENT_MS", NEVER_MS)
    table = shape.make(catalog)
    writers = Writers(catalog, table, shape, Random(seed))
    with Reader(table, shape) as reader, writers:
        reader.read(0.2)
        for _ in range(STEPS):
            writers.step()
            reader.read_until(newest(table), writers.expected.rows(), writers.done)
        writers.end()
        monkeypatch.setattr(publishing, "SILENT_MS", -1)
        reader.read_until(newest(table), read_rows(table), writers.done)


EARLY = [name for name, shape in SHAPES.items() if shape.keyed and shape.is_early]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", EARLY)
def test_each_step_shows_what_is_committed_and_what_is_sent_after_it(
    catalog: Catalog, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_calmly(catalog, SHAPES[shape], seed, monkeypatch)


def _leave_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted_overlay, "_find_newer", lambda records, opened_ms: pa.array([], pa.binary()))


def _leave_aborting(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = publishing._judge
    monkeypatch.setattr("metastore.commits.group._abort_rivals", lambda request, state: None)
    monkeypatch.setattr(publishing, "_judge", lambda seen: judge(replace(seen, is_over=False)))


def _leave_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = publishing._judge
    monkeypatch.setattr(publishing, "_judge", lambda seen: replace(judge(seen), is_silent=False))


@pytest.mark.parametrize("leave", [_leave_order, _leave_aborting, _leave_silence])
def test_without_one_of_the_protections_it_does_not(
    catalog: Catalog, leave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: each of the three is needed."""
    monkeypatch.setattr("tests.integration.sdk.test_random_dead_writers.SOON_S", 2.0)
    leave(monkeypatch)

    def run_some() -> None:
        for seed in range(5):
            run_calmly(catalog, SHAPES["keyed"], seed, monkeypatch)
            catalog.drop_table("shop.orders")

    with pytest.raises(AssertionError, match="expected"):
        run_some()


def send_badly(monkeypatch: pytest.MonkeyPatch, draw: Random) -> None:
    """Some records are sent twice, and some are lost, without that their writer learns of it."""
    send = MemoryUncommittedSender.send

    def send_at_times(sender: MemoryUncommittedSender, records: EncodedRecords, attempt_id: str) -> None:
        luck = draw.random()
        for _ in range(0 if luck < 0.1 else 2 if luck > 0.8 else 1):
            send(sender, records, attempt_id)

    monkeypatch.setattr(MemoryUncommittedSender, "send", send_at_times)


@pytest.mark.parametrize("shape", SHAPES)
def test_at_rest_the_table_is_shown_whatever_was_lost(
    catalog: Catalog, cluster: MemoryCluster, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "SILENT_MS", 300)
    own, draw = SHAPES[shape], Random(shape)
    send_badly(monkeypatch, Random(shape))
    table = own.make(catalog)
    catalog._writes.uncommitted_senders._heartbeats._pause_s = 0.05
    publisher = HandPublisher(catalog.metastore, cluster, table)
    writers = Writers(catalog, table, own, draw)
    counts: Counter[int] = Counter()
    steps = STEPS
    while steps:
        # A reader that begins again at the position of the one before.
        with Reader(table, own) as reader:
            while steps:
                steps -= 1
                writers.step()
                for _ in range(draw.randrange(4)):
                    reader.read(0.03 * draw.random())
                if draw.random() < 0.1:
                    publisher.publish()
                if draw.random() < 0.08:
                    break
            if not steps:
                writers.end()
                reader.read_until(newest(table), read_rows(table) if own.keyed else {}, writers.done)
            counts += reader.counts
    if not own.keyed:
        committed = set(table.scan().to_arrow().column("v").to_pylist())
        assert committed <= set(counts) <= set(writers.written)
    publisher.close()
