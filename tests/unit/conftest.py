from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.clock import SystemClock
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases


@pytest.fixture
def metastore() -> Iterator[InProcessMetastore]:
    """An empty one in this process, without brokers."""

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, "file:///warehouse"))
    yield service
    service.close()
