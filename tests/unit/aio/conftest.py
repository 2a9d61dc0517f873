from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[InProcessMetastore]:
    """A metastore in this process, with the database `shop`."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    service.create_database("shop", if_not_exists=False, comment="")
    yield service
    service.close()


@pytest.fixture
def blocking(metastore: InProcessMetastore) -> Catalog:
    """A catalog of the blocking SDK, which a test makes one for asyncio from."""
    return Catalog(metastore, LocationStores())
