"""Tables with a log in memory, and a publisher of ours that is stepped when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock, SystemClock
from lakelog.format.log.state import LogInfo, to_publisher_lease
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.protocol import Log
from lakelog.log.records import TopicState
from lakelog.reads.streams.batch import StreamBatch
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from writer.publishing.publisher import PublisherContext, Step, TablePublisher
from writer.publishing.reading.feed import WatchFeed
from writer.publishing.reading.file_logs import FileLogs
from writer.publishing.topics.monitor import TopicMonitor
from writer.publishing.transactions import TransactionLimits

Row = tuple[object, ...]


LogOpener = Callable[[LogInfo], Log]


def open_metastore(warehouse: Path, brokers: MemoryCluster | Brokers, clock: Clock | None = None) -> InProcessMetastore:
    """Whose store makes no difference: what it says of logs has a contract of its own."""
    if isinstance(brokers, MemoryCluster):
        cluster = brokers
        brokers = Brokers([("kafka:9092",)], lambda options: MemoryLog(cluster))

    async def open_store() -> Store:
        return MemoryStore(clock or SystemClock())

    return in_process(open_store, lambda store: UseCases(store, f"file://{warehouse}/", brokers=brokers))


def make_parts(metastore: Metastore, brokers: MemoryCluster | LogOpener) -> PublisherContext:
    """What publishers over brokers in memory, or over others, work with."""
    open_log: LogOpener = (lambda info: MemoryLog(brokers)) if isinstance(brokers, MemoryCluster) else brokers
    return PublisherContext(
        metastore=metastore,
        open_log=open_log,
        check_topic=lambda info, state: None,
        logs=FileLogs(metastore, LocationStores()),
        open_feed=lambda position, info: WatchFeed(metastore, position, complete=True),
        monitor=TopicMonitor(open_log, SystemClock()),
        clock=SystemClock(),
    )


class LogUses:
    """Opens logs in memory, and counts how often."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.count = 0
        self.refuses: Exception | None = None

    def __call__(self, options: Mapping[str, str]) -> Log:
        self.count += 1
        if self.refuses is not None:
            raise self.refuses
        return MemoryLog(self.cluster)


class HandPublisher:
    """Publishes a table whenever it is told to."""

    def __init__(
        self,
        metastore: Metastore,
        brokers: MemoryCluster | LogOpener,
        table: Table,
        clock: Clock | None = None,
        limits: TransactionLimits | None = None,
    ) -> None:
        self.check: Callable[[LogInfo, TopicState], None] = lambda info, state: None
        context = make_parts(metastore, brokers)
        context = replace(
            context, check_topic=lambda info, state: self.check(info, state), limits=limits or context.limits
        )
        if clock is not None:
            context = replace(context, clock=clock, monitor=TopicMonitor(context.open_log, clock))
        lease = metastore.acquire_lease(to_publisher_lease(table.uuid), "test", 600_000)
        self._metastore, self._table, self.epoch = metastore, table, lease.epoch
        self.publisher = TablePublisher(table.uuid, lease.epoch, context)

    def publish(self, until: int | None = None) -> None:
        """All that is there, or up to a snapshot."""
        last = self._metastore.get_table_by_uuid(self._table.uuid).latest_snapshot_id if until is None else until
        for _ in range(1000):
            if self._metastore.get_publish_state(self._table.uuid).snapshot_id >= last:
                return
            if self.publisher.step(0.05) is Step.IDLE:
                continue
        raise AssertionError("never published")

    def step(self) -> Step:
        """One step, without waiting for anything to do."""
        return self.publisher.step(0.0)

    def release(self) -> None:
        """Nobody publishes any more."""
        self.close()
        self._metastore.release_lease(to_publisher_lease(self._table.uuid), self.epoch)

    def close(self) -> None:
        self.publisher.forget()


def read_all(subscription: Subscription, until: int, timeout_s: float = 20) -> list[StreamBatch]:
    """The batches up to and with a snapshot."""
    found: list[StreamBatch] = []
    while (subscription.position or 0) < until:
        batch = subscription.read(timeout_s)
        if batch is None:
            break
        found.append(batch)
        if batch.snapshot_id >= until and subscription.is_whole:
            break
    return found


def to_rows(batches: Sequence[StreamBatch]) -> list[Row]:
    """Their rows in the order in which they came, each behind its snapshot's id."""
    return [(batch.snapshot_id, *row.values()) for batch in batches for row in batch.data.to_pylist()]


def to_schemas(batches: Sequence[StreamBatch]) -> set[str]:
    return {str(batch.data.schema) for batch in batches}


def make_rows(schema: pa.Schema, rows: Sequence[Row], kinds: Sequence[str] | None = None) -> pa.Table:
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    return table if kinds is None else table.append_column("_row_kind", pa.array(kinds))


Script = Callable[[Table], None]
