from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from compactor.compactions.compactions import CompactionJobExecutor
from compactor.executor import Control
from compactor.metrics import Metrics
from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[InProcessMetastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    service.stop_background()
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    """A catalog over a metastore in this process, with the database `shop`."""
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def compact(metastore: InProcessMetastore) -> Callable[[], None]:
    """Does all compactions that are due, and those that they make due."""
    executor = CompactionJobExecutor(
        metastore, LocationStores(), SystemClock(), Metrics(), structlog.wrap_logger(structlog.ReturnLogger())
    )
    control = Control(threading.Event())

    def work() -> None:
        metastore.run(metastore.use_cases.due_work.step())
        while (job := metastore.lease_job([COMPACT], [], "test", duration_ms=60_000)) is not None:
            metastore.finish_job(job.job_id, job.epoch, executor.do(job, control))

    return work
