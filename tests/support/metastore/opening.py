"""Metastores in the process of a test, over memory and over a database that is migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers

WAREHOUSE = "file:///warehouse"


def make_use_cases(store: Store) -> UseCases:
    return UseCases(store, WAREHOUSE, brokers=FakeBrokers().make())


def make_brief_use_cases(store: Store) -> UseCases:
    """Dropped tables are kept for a millisecond, so that they can be restored and purged."""
    return UseCases(store, WAREHOUSE, brokers=FakeBrokers().make(), dropped_retention_ms=1)


def open_in_process(
    url: str,
    *,
    store_type: type[PostgresStore] = PostgresStore,
    pool_size: int = 16,
    make_use_cases: Callable[[Store], UseCases] = make_use_cases,
) -> InProcessMetastore:
    """A metastore in this process over a database that is migrated."""

    async def open_store() -> Store:
        store = store_type(url, pool_size=pool_size)
        await store.check()
        return store

    return in_process(open_store, make_use_cases)


@contextmanager
def open_memory(
    request: pytest.FixtureRequest, make_use_cases: Callable[[Store], UseCases] = make_use_cases
) -> Iterator[Metastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, make_use_cases)
    try:
        yield metastore
    finally:
        metastore.close()
