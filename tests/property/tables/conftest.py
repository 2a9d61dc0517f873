"""Catalogs in which random tables are made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from lakelog.clock import SystemClock
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases


@pytest.fixture(scope="module")
def memory_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    warehouse: Path = tmp_path_factory.mktemp("warehouse")

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    with Catalog(
        in_process(open_store, lambda store: UseCases(store, warehouse.as_uri())), LocationStores()
    ) as catalog:
        catalog.create_database("random")
        yield catalog


@pytest.fixture(scope="module")
def served_catalog(stack: EmbeddedStack) -> Iterator[Catalog]:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("random", if_not_exists=True)
        yield catalog
