"""The SDK over a store in memory and over Postgres: fixtures, to be imported by the conftest of those that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.jobs.due_work import WorkPlanner
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    """None, so that the only jobs are those that a test asks for. A module that wants others has its own fixture."""
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

    service = in_process(open_store, lambda store: UseCases(store, f"file://{warehouse}/", planners=planners))
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog
