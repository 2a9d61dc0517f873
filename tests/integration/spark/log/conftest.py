"""Tables whose logs are in memory, in a metastore of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.catalog import Catalog
from lakelog.clock import SystemClock
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.spark.stream import log_tasks
from lakelog.storage.stores import LocationStores
from lakelog.table import Table
from metastore.brokers import Brokers
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.service import MetastoreService
from metastore.store import Store
from tests.integration.sdk.logging_tables import HandPublisher
from tests.integration.spark.log.driven_log import LogUses


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def uses(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> LogUses:
    uses = LogUses(cluster)
    monkeypatch.setattr(log_tasks, "open_table_log", uses)
    monkeypatch.setattr(log_tasks, "_resting", {})
    return uses


@pytest.fixture
def metastore(
    cluster: MemoryCluster, uses: LogUses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcessMetastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    brokers = Brokers([("kafka:9092",)], lambda options: MemoryLog(cluster))
    service = InProcessMetastore(
        open_store, lambda store: MetastoreService(store, f"file://{tmp_path}/warehouse/", brokers=brokers)
    )
    for module in ("data_source", "stream.reader"):
        monkeypatch.setattr(f"lakelog.spark.{module}.open_metastore", lambda connection: service)
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def publisher(metastore: InProcessMetastore, cluster: MemoryCluster) -> Iterator[Any]:
    made: list[HandPublisher] = []

    def make(table: Table) -> HandPublisher:
        made.append(HandPublisher(metastore, cluster, table))
        return made[-1]

    yield make
    for each in made:
        each.close()
