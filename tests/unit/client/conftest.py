from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog over a metastore in this process, with the database `shop`."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    catalog = Catalog(service, LocationStores())
    catalog.create_database("shop")
    yield catalog
    service.close()
