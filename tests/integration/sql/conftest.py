from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.sql import SqlSession
from lakelog.storage.objects.stores import LocationStores
from metastore.memory.store import MemoryStore
from metastore.testing import in_process
from metastore.use_cases import UseCases


async def _open_memory() -> MemoryStore:
    return MemoryStore(SystemClock())


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SqlSession]:
    metastore = in_process(_open_memory, lambda store: UseCases(store, f"file://{tmp_path}/"))
    session = SqlSession(Catalog(metastore, LocationStores()))
    session.execute("CREATE DATABASE shop")
    session.execute("USE shop")
    yield session
    metastore.close()
