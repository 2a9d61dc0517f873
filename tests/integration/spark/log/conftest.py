"""Tables whose logs are in memory, in a metastore of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.log.memory import MemoryCluster
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.executor import read_log as log_tasks
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, LogUses, open_metastore


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
    service = open_metastore(tmp_path / "warehouse", cluster)
    for module in ("source.data_source", "stream.reader"):
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
