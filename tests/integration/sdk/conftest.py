from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakelog.clock import SystemClock
from lakelog.reads.streams.log import tail as log_tail
from lakelog.reads.streams.uncommitted import follow as uncommitted_follow
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.jobs.due_work import WorkPlanner
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.log_world import World


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

    service = in_process(open_store, lambda store: UseCases(store, f"file://{warehouse}/", planners=planners))
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are told before their commit nothing is waited for as long as with brokers far away."""
    monkeypatch.setattr(uncommitted_follow, "_POLL_S", 0.05)
    monkeypatch.setattr(log_tail, "_FETCH_S", 0.02)
    monkeypatch.setattr(log_tail, "_REST_S", 0.1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


def data_files(warehouse: Path) -> list[str]:
    """Every file below a warehouse, relative to it."""
    return sorted(path.relative_to(warehouse).as_posix() for path in warehouse.rglob("*") if path.is_file())
