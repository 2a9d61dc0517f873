"""The implementations over which the contract runs: one factory each.

A further one is added to `FACTORIES`; a factory is a context manager that is given the request of the fixture and
yields an open metastore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from lakelog.client.metastore import Metastore
from lakelog.clock import SystemClock
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore, migrate
from metastore.service import MetastoreService
from metastore.store import Store

WAREHOUSE = "file:///warehouse"


def make_service(store: Store) -> MetastoreService:
    return MetastoreService(store, WAREHOUSE)


@contextmanager
def open_memory(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = InProcessMetastore(open_store, make_service)
    try:
        yield metastore
    finally:
        metastore.close()


@contextmanager
def open_postgres(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    url = request.getfixturevalue("postgres_url")
    migrate(url)

    async def open_store() -> Store:
        store = PostgresStore(url)
        await store.check()
        return store

    metastore = InProcessMetastore(open_store, make_service)
    try:
        yield metastore
    finally:
        metastore.close()


FACTORIES: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Metastore]]] = {
    "memory": open_memory,
    "postgres": open_postgres,
}


@pytest.fixture(params=list(FACTORIES))
def metastore(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    with FACTORIES[request.param](request) as opened:
        yield opened
