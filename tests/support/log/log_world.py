"""A metastore and brokers in this process, each with a clock that tests set, and tables that are published by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from lakelog.clock import Clock, SystemClock
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.protocol import Log
from lakelog.log.records import FetchedRecords
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from tests.support.log.logging_tables import HandPublisher, make_parts, open_metastore
from writer.publishing.publisher import PublisherContext

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


class SetClock(SystemClock):
    """Shows the time that a test sets, each time somewhat more where it ticks."""

    def __init__(self) -> None:
        self.time_ms = 1_000
        self.tick_ms = 0

    def now_ms(self) -> int:
        self.time_ms += self.tick_ms
        return self.time_ms


class World:
    """A metastore and brokers, each with a clock of its own, and a table that is published by hand."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.commits, self.brokers = SetClock(), SetClock()
        self.cluster = MemoryCluster(clock=clock or self.brokers)
        self.refuses: Exception | None = None
        self.uses = 0

        self.metastore = open_metastore(folder / "warehouse", self.cluster, clock or self.commits)
        self.catalog = self.open_catalog()
        self.catalog.create_database("shop")
        self._publishers: list[HandPublisher] = []

    def _open_log(self, options: Mapping[str, str]) -> Log:
        self.uses += 1
        if self.refuses is not None:
            raise self.refuses
        return MemoryLog(self.cluster)

    def open_catalog(self) -> Catalog:
        """One more writer."""
        return Catalog(self.metastore, LocationStores(), open_log=self._open_log, clock=self.commits)

    def make(self, name: str = "shop.orders", keyed: bool = True, **options: str) -> tuple[Table, HandPublisher]:
        table = self.catalog.create_table(
            name, schema=SCHEMA, primary_key=["k"] if keyed else [], options={"log.system": "kafka", **options}
        )
        return table, self.publish(table)

    def publish(self, table: Table) -> HandPublisher:
        """Whoever publishes a table from now on."""
        self._publishers.append(HandPublisher(self.metastore, self.cluster, table))
        return self._publishers[-1]

    def make_unpublished(self, **options: str) -> Table:
        """An append table that nobody publishes."""
        return self.catalog.create_table("shop.orders", schema=SCHEMA, options={"log.system": "kafka", **options})

    def make_parts(self) -> PublisherContext:
        """What a publisher works with."""
        return make_parts(self.metastore, self.cluster)

    def close(self) -> None:
        for each in self._publishers:
            each.close()
        self.metastore.close()


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=SCHEMA)


def read_log(world: World, table: Table) -> FetchedRecords:
    reader = MemoryLog(world.cluster).open_reader(world.metastore.get_log(table.uuid).topic)
    reader.assign(dict.fromkeys(range(len(reader.list_offsets())), 0))
    return reader.fetch(10_000, 0)
