from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.clock import SystemClock
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.service import MetastoreService
from metastore.store.transaction import Store


@pytest.fixture
def metastore() -> Iterator[InProcessMetastore]:
    """An empty one in this process, without brokers."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = InProcessMetastore(open_store, lambda store: MetastoreService(store, "file:///warehouse"))
    yield service
    service.close()
