from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.clock import SystemClock
from lakelog.storage.stores import LocationStores
from metastore.due_work import WorkPlanner
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.service import MetastoreService
from metastore.store import Store


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    """Nobody, so that the only jobs are those that a test asks for. A module that wants others has its own fixture."""
    return ()


@pytest.fixture(params=["memory", "postgres"])
def metastore(
    request: pytest.FixtureRequest, warehouse: Path, planners: Sequence[WorkPlanner]
) -> Iterator[InProcessMetastore]:
    url = request.getfixturevalue("migrated_url") if request.param == "postgres" else ""

    async def open_store() -> Store:
        if not url:
            return MemoryStore(SystemClock())
        store = PostgresStore(url)
        await store.check()
        return store

    service = InProcessMetastore(
        open_store, lambda store: MetastoreService(store, f"file://{warehouse}/", planners=planners)
    )
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
