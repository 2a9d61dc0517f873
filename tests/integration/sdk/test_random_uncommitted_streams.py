"""Random writers of few keys, lossy senders, and a reader who is told of rows before their commit and begins anew."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.memory.producing import MemoryUncommittedSender
from lakelog.log.records import EncodedRecords
from lakelog.reads.streams.subscription import Subscription
from lakelog.reads.streams.uncommitted import follow as uncommitted_follow
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from lakelog.storage.objects.stores import LocationStores
from tests.integration.sdk.uncommitted_streams import SCHEMA, Folder, make, read_rows
from tests.support.log.logging_tables import HandPublisher, open_metastore

pytestmark = pytest.mark.usefixtures("polls_often")
STEPS = 40
TABLES: dict[str, dict[str, str]] = {
    "keyed": {},
    "sequence": {"sequence.field": "v", "log.format": "json"},
    "lookup": {"changelog-producer": "lookup", "bucket": "1", "log.changelog-mode": "all"},
}


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


def send_badly(monkeypatch: pytest.MonkeyPatch, draw: Random, *, loses: bool) -> None:
    """Some records are sent twice, and some are lost, without that their writer learns of it."""
    send = MemoryUncommittedSender.send

    def send_at_times(sender: MemoryUncommittedSender, records: EncodedRecords, attempt_id: str) -> None:
        luck = draw.random()
        for _ in range(0 if luck < 0.15 and loses else 2 if luck > 0.7 else 1):
            send(sender, records, attempt_id)

    monkeypatch.setattr(MemoryUncommittedSender, "send", send_at_times)


class Writers:
    """Writes to one table: some at once, some in transactions that stay open for a while."""

    def __init__(self, catalog: Catalog, table: Table, draw: Random) -> None:
        self._catalog = catalog
        self._table = table
        self._rng = draw
        self.open: list[Transaction] = []
        self.count = 0
        """Of rows; each has a number of its own."""

    def step(self) -> None:
        draw = self._rng
        what = draw.choice(["open", "open", "write", "more", "commit", "commit", "abandon", "overwrite"])
        if what == "open" and len(self.open) < 4:
            self.open.append(self._catalog.transaction())
            self._write(self.open[-1])
        elif what == "more" and self.open:
            self._write(draw.choice(self.open))
        elif what in ("commit", "abandon") and self.open:
            tx = self.open.pop(draw.randrange(len(self.open)))
            if what == "commit":
                tx.commit()
            else:
                tx.abandon()
        elif what == "overwrite" and self._table.info.schema.primary_key and draw.random() < 0.3:
            self._table.overwrite(self._rows())
        elif what == "write":
            with self._catalog.transaction() as tx:
                self._write(tx)

    def end(self) -> None:
        for tx in self.open:
            if self._rng.random() < 0.5:
                tx.commit()
            else:
                tx.abandon()
        self.open = []

    def _write(self, tx: Transaction) -> None:
        rows = self._rows()
        if self._table.info.schema.primary_key:
            kinds = [self._rng.choice(["+I", "+I", "+U", "-D"]) for _ in range(rows.num_rows)]
            tx.table("shop.orders").write(rows.append_column("_row_kind", pa.array(kinds)))
        else:
            tx.table("shop.orders").append(rows)
        uncommitted = tx._table_writes[self._table.uuid].uncommitted
        if uncommitted is not None and self._rng.random() < 0.5:
            uncommitted.finish()

    def _rows(self) -> pa.Table:
        count = self._rng.randrange(1, 5)
        self.count += count
        return pa.table(
            {
                "k": [self._rng.randrange(8) for _ in range(count)],
                "v": range(self.count - count, self.count),
                "w": [self._rng.choice([None, "", "é"]) for _ in range(count)],
            },
            schema=SCHEMA,
        )


def subscribe(table: Table) -> Subscription:
    return table.subscribe(consumer_id="c", options={"streaming-read-overwrite": "true"})


def begin(table: Table) -> Folder:
    """A reader at its position: what it was told without a snapshot it has forgotten."""
    emitted = Folder(subscribe(table))
    done = emitted.stream.position
    if done:
        emitted.rows = read_rows(table, done)
    return emitted


def newest(table: Table) -> int:
    return max(table.snapshots().column("id").to_pylist(), default=0)


def is_at_rest(emitted: Folder, table: Table) -> bool:
    return (emitted.stream.position or 0) == newest(table) and emitted.rows == read_rows(table)


def run(catalog: Catalog, cluster: MemoryCluster, options: Mapping[str, str], draw: Random) -> None:
    table = make(catalog, options)
    publisher = HandPublisher(catalog.metastore, cluster, table)
    writers = Writers(catalog, table, draw)
    emitted = begin(table)
    for _ in range(STEPS):
        writers.step()
        for _ in range(draw.randrange(4)):
            emitted.read(0.03 * draw.random())
        if draw.random() < 0.08:
            emitted.stream.close()
            emitted = begin(table)
        if draw.random() < 0.1:
            publisher.publish()
    writers.end()
    end_s = time.monotonic() + 20
    while not is_at_rest(emitted, table):
        assert time.monotonic() < end_s, f"told {emitted.rows}, and the table has {read_rows(table)}"
        emitted.read(0.05)
    emitted.stream.close()
    publisher.close()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_what_is_emitted_leads_to_the_table(
    catalog: Catalog, cluster: MemoryCluster, options: Mapping[str, str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_badly(monkeypatch, Random(seed), loses=True)
    run(catalog, cluster, options, Random(seed))


@pytest.mark.parametrize("loses", [False, True])
def test_an_append_table_is_emitted_at_least_once(
    catalog: Catalog, cluster: MemoryCluster, loses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once where the log has lost nothing, though it has records twice."""
    monkeypatch.setattr(uncommitted_follow, "_WAIT_S", 20.0)
    send_badly(monkeypatch, Random(7), loses=loses)
    table = make(catalog, keyed=False)
    draw = Random(7)
    writers = Writers(catalog, table, draw)
    emitted: Counter[int] = Counter()

    def read(stream: Subscription, timeout_s: float) -> None:
        batch = stream.read(timeout_s)
        if batch is not None:
            emitted.update(batch.data.column("v").to_pylist())

    with table.subscribe() as stream:
        for _ in range(STEPS):
            writers.step()
            read(stream, 0.03 * draw.random())
        writers.end()
        while (stream.position or 0) < newest(table):
            read(stream, 0.1)
    committed = set(table.scan().to_arrow().column("v").to_pylist())
    assert committed <= set(emitted) <= set(range(writers.count))
    assert any(value not in committed for value in emitted), "some were given up"
    assert loses or max(emitted.values()) == 1
