"""What a log costs those who write, and how fast a backlog is published.

Upserts go to two tables of which one has a log, in turn; what is measured is the SDK and the files, as in W2.
Publishing is one table's publisher in this process over a real broker, from files to committed records, against a loop
that sends the same records, encoded before the clock starts, by an idempotent producer without transactions.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Producer

import lakelog
from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.measure import Figure, WrongAnswerError, compare
from bench.sdk import HASHED
from bench.shapes import q1, q1_schema, zipf_ids
from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.clock import SystemClock
from lakelog.format.log.state import LogInfo, to_publisher_lease
from lakelog.log.kafka import open_kafka_log
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.protocol import Log
from lakelog.log.records import EncodedRecords, TopicSpec
from lakelog.log.secrets import Secrets
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing import embedded_stack
from metastore.logs.brokers import Brokers
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from writer.publishing.publisher import PublisherContext, Step, TablePublisher
from writer.publishing.reading.feed import WatchFeed
from writer.publishing.reading.file_logs import FileLogs
from writer.publishing.topics.monitor import TopicMonitor

_BASE_ROWS: Final = 4_000_000
_SERVERS: Final = "bench:9092"
_BACKLOG_ROWS: Final = 1_000_000
_COMMIT_ROWS: Final = 20_000

_Headers = list[tuple[str, str | bytes | None]]


def measure_ingest(bench: Bench) -> Iterator[Figure]:
    """W2 with a log against W2 without one."""
    base = bench.scaled(_BASE_ROWS)
    for keys in ("uniform", "zipf"):
        for rows in (20_000, 200_000):
            with _open_catalog(bench.folder / f"{keys}-{rows}") as catalog:
                yield _compare_ingest(bench, catalog, keys, rows, base)


def _compare_ingest(bench: Bench, catalog: Catalog, keys: str, rows: int, base: int) -> Figure:
    random, model = np.random.default_rng(7), Q1Model(base)
    tables = {}
    for name, options in (("on", {"log.system": "kafka"}), ("off", {})):
        tables[name] = catalog.create_table(
            f"b.{name}", q1_schema(), primary_key=["id"], options={"bucket": "2", **options}
        )
        tables[name].upsert(q1(np.arange(base), 1))
    batches = []
    for seed in range(4):
        ids = zipf_ids(random, rows, base) if keys == "zipf" else random.integers(0, base, rows)
        batches.append(q1(ids, seed))
    per_run = 3 if rows >= 100_000 else 10
    turns = {"on": 0, "off": 0}

    def write(name: str) -> int:
        for _ in range(per_run):
            tables[name].upsert(batches[turns[name] % len(batches)])
            turns[name] += 1
        return per_run

    label = f"upserts of {rows:,} rows, {keys}, log on / off"
    figure = compare(label, lambda: write("on"), lambda: write("off"), pairs=bench.pairs, target=0.8)
    model.apply(q1(np.arange(base), 1))
    for place in range(turns["on"]):
        model.apply(batches[place % len(batches)])
    check_rows(label, tables["on"].scan(HASHED).to_arrow(), model, tuple(HASHED))
    return figure


@contextlib.contextmanager
def _open_catalog(folder: Path) -> Iterator[Catalog]:
    """A catalog with the database `b` over files in a folder, whose tables may have logs that nobody publishes."""

    async def open_memory() -> Store:
        return MemoryStore(SystemClock())

    cluster = MemoryCluster()

    def open_log(_options: Mapping[str, str]) -> Log:
        return MemoryLog(cluster)

    brokers = Brokers([(_SERVERS,)], open_log)
    metastore = in_process(open_memory, lambda store: UseCases(store, f"file://{folder}/", brokers=brokers))
    with Catalog(metastore, LocationStores()) as catalog:
        catalog.create_database("b")
        yield catalog


def measure_publishing(bench: Bench) -> Iterator[Figure]:
    """Records a second of a publisher that catches up, against a plain loop over the same records."""
    rows = bench.scaled(_BACKLOG_ROWS)
    with (
        embedded_stack(bench.folder / "stack", kafka=True) as stack,
        lakelog.connect(stack.target) as catalog,
    ):
        catalog.create_database("b")
        backlogs = [_Backlog(catalog, f"b.t{number}", rows) for number in range(bench.pairs + 1)]
        records = backlogs[0].encode()
        with contextlib.closing(_PlainProducer(stack.kafka, records)) as plain:
            left = list(backlogs)
            yield compare(
                f"{rows:,} records published from files",
                lambda: left.pop().publish(),
                plain.send,
                pairs=bench.pairs,
                target=0.7,
            )
        for backlog in backlogs:
            backlog.check()


class _Backlog:
    """A table with snapshots that nobody has published."""

    def __init__(self, catalog: Catalog, name: str, rows: int) -> None:
        options = {"log.system": "kafka", "bucket": "2"}
        self._table = catalog.create_table(name, q1_schema(), primary_key=["id"], options=options)
        self._metastore = catalog.metastore
        self._rows = rows
        for number, start in enumerate(range(0, rows, _COMMIT_ROWS)):
            ids = np.random.default_rng(number).permutation(rows)[: min(_COMMIT_ROWS, rows - start)]
            self._table.upsert(q1(ids, number))

    def encode(self) -> list[EncodedRecords]:
        """All of its records."""
        info = self._metastore.get_log(self._table.uuid)
        snapshots = self._metastore.list_snapshots(self._table.uuid).snapshots
        logs = FileLogs(self._metastore, LocationStores()).plan(info, snapshots, 2)
        return [chunk.records for log in logs for chunk in log.read(0)]

    def publish(self) -> int:
        """Publishes all of it; how many records that is."""
        lease = self._metastore.acquire_lease(to_publisher_lease(self._table.uuid), "bench", 600_000)
        publisher = TablePublisher(self._table.uuid, lease.epoch, _make_parts(self._metastore))
        try:
            while publisher.published.records < self._rows:
                if publisher.step(1.0) is Step.IDLE:
                    raise WrongAnswerError(f"{publisher.published} of {self._rows} records were published")
        finally:
            publisher.forget()
        return publisher.published.records

    def check(self) -> None:
        """Raises WrongAnswerError where a reader of committed records does not find each key as the table has it."""
        info = self._metastore.get_log(self._table.uuid)
        newest: dict[bytes, bytes] = {}
        count = 0
        with contextlib.closing(_open_log(info).open_reader(info.topic)) as reader:
            reader.assign(dict.fromkeys(range(2), 0))
            while len(found := reader.fetch(50_000, 2.0)):
                count += len(found)
                newest.update(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True))
        rows = self._table.scan().count()
        if (count, len(newest)) != (self._rows, rows):
            raise WrongAnswerError(f"{count} of {self._rows} records, {len(newest)} of {rows} keys are in the log")


def _open_log(info: LogInfo) -> Log:
    return open_kafka_log(info.options, Secrets({}))


def _make_parts(metastore: Metastore) -> PublisherContext:
    def open_feed(position: WatchPosition, _info: LogInfo) -> WatchFeed:
        return WatchFeed(metastore, position, complete=False)

    return PublisherContext(
        metastore=metastore,
        open_log=_open_log,
        check_topic=lambda info, topic: None,
        logs=FileLogs(metastore, LocationStores()),
        open_feed=open_feed,
        monitor=TopicMonitor(_open_log, SystemClock()),
        clock=SystemClock(),
    )


class _PlainProducer:
    """Sends records as whoever knows the client library would."""

    def __init__(self, brokers: str, records: Sequence[EncodedRecords]) -> None:
        self._topic = f"plain-{uuid.uuid4().hex}"
        log = open_kafka_log({"kafka.bootstrap.servers": brokers}, Secrets({}))
        with contextlib.closing(log.open_admin()) as admin:
            admin.create_topic(TopicSpec(self._topic, 2))
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
            }
        )
        self._batches = [(chunk.partition, list(_to_messages(chunk))) for chunk in records]

    def send(self) -> int:
        """Sends all; how many."""
        count = 0
        for partition, batch in self._batches:
            for key, value, headers in batch:
                while True:
                    try:
                        self._producer.produce(self._topic, value, key, partition, headers=headers)
                    except BufferError:
                        self._producer.poll(0.01)
                        continue
                    break
            self._producer.poll(0)
            count += len(batch)
        self._producer.flush()
        return count

    def close(self) -> None:
        """Nothing is left to be sent."""
        self._batches.clear()


def _to_messages(records: EncodedRecords) -> Iterator[tuple[bytes, bytes, _Headers]]:
    assert records.keys is not None, "the table has a primary key"
    columns = (records.keys.to_pylist(), records.values.to_pylist(), records.indexes.tolist())
    for key, value, index in zip(*columns, strict=True):
        yield key, value, [("snapshot", b"17"), ("uuid", b"0" * 32), ("idx", b"%d" % index), ("kind", b"+I")]
