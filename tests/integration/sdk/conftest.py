from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.clock import SystemClock
from lakelog.storage.stores import LocationStores
from metastore.inprocess import InProcessMetastore
from metastore.memory.store import MemoryStore
from metastore.service import MetastoreService


async def _open_memory() -> MemoryStore:
    return MemoryStore(SystemClock())


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def metastore(warehouse: Path) -> Iterator[InProcessMetastore]:
    service = InProcessMetastore(_open_memory, lambda store: MetastoreService(store, f"file://{warehouse}/"))
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog


def data_files(warehouse: Path) -> list[str]:
    """Every file below a warehouse, relative to it."""
    return sorted(path.relative_to(warehouse).as_posix() for path in warehouse.rglob("*") if path.is_file())
