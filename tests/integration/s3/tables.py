"""Catalogs with a metastore in memory, and tables on S3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import LocationStores
from metastore.jobs.due_work import WorkPlanner
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases


@contextmanager
def open_catalog(settings: S3Settings, warehouse: str, planners: Sequence[WorkPlanner] = ()) -> Iterator[Catalog]:
    """A new catalog with the database `shop`; its tables are in the warehouse, and the planners make jobs."""

    async def open_memory() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_memory, lambda store: UseCases(store, warehouse, planners=planners))
    with Catalog(metastore, LocationStores(settings)) as catalog:
        catalog.create_database("shop")
        yield catalog
