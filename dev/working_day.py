"""A working day of a table, in this process: for pictures and screenshots of the documentation.

The metastore runs over its store in memory with a clock that steps, so that times are those of a day; files,
compactions and positions are real.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from compactor.compactions.compactions import CompactionJobExecutor
from compactor.executor import Control
from compactor.metrics import Metrics
from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.serving.logging_setup import set_up_logging
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases

_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string()), ("price", pa.float64())])
_BEGIN_MS: Final = 1_788_249_600_000
_COMMITS: Final = 60
_KEYS: Final = 40_000


class SteppingClock(SystemClock):
    """Stands still until it is stepped."""

    def __init__(self) -> None:
        self.time_ms = _BEGIN_MS

    def now_ms(self) -> int:
        """The time that it was set to."""
        return self.time_ms


@dataclass(frozen=True)
class WorkingDay:
    """What a day is played with.

    Args:
        catalog: Without identified callers.
        service: The metastore.
        clock: Its clock.
        compact: Does the compactions that are due.
    """

    catalog: Catalog
    service: InProcessMetastore
    clock: SteppingClock
    compact: Callable[[], None]


@contextmanager
def working_day() -> Iterator[WorkingDay]:
    """An empty metastore with the database `shop`, at the beginning of the day."""
    clock = SteppingClock()
    with tempfile.TemporaryDirectory() as folder:

        async def open_store() -> Store:
            return MemoryStore(clock)

        service = in_process(open_store, lambda store: UseCases(store, f"file://{folder}/"))
        service.stop_background()
        executor = CompactionJobExecutor(service, LocationStores(), clock, Metrics(), set_up_logging("warning"))
        control = Control(threading.Event())

        def compact() -> None:
            service.run(service.use_cases.due_work.step())
            while (job := service.lease_job([COMPACT], [], "recording", duration_ms=60_000)) is not None:
                service.finish_job(job.job_id, job.epoch, executor.do(job, control))

        with Catalog(service, LocationStores(), clock=clock) as catalog:
            catalog.create_database("shop")
            yield WorkingDay(catalog, service, clock, compact)


def play_orders(day: WorkingDay) -> Table:
    """Makes `shop.orders`: sixty commits of two writers, a tag, a rollback, compactions, and three consumers."""
    table = day.catalog.create_table(
        "shop.orders", _SCHEMA, primary_key=["id"], options={"bucket": "1", "target-file-size": "128 kb"}
    )
    random = np.random.default_rng(20)
    for number in range(_COMMITS):
        day.clock.time_ms += int(random.integers(120_000, 900_000))
        nightly = number % 12 == 5
        count = int(random.integers(8_000, 12_000) if nightly else random.integers(200, 2_500))
        first = int(random.integers(0, _KEYS - count))
        ids = np.arange(first, first + count) if nightly else np.unique(random.integers(0, _KEYS, count))
        rows = {"id": ids, "item": [f"item {each % 997}" for each in ids], "price": random.random(len(ids)) * 100}
        table.upsert(pa.table(rows, schema=_SCHEMA), writer="import" if nightly else "checkout", identifier=number)
        if number == 20:
            table.tags.create("release-7")
        if number == 26:
            table.rollback_to("release-7")
        if number < _COMMITS - 4:
            day.clock.time_ms += 20_000
            day.compact()
    for consumer, behind in (("dashboards", 0), ("fraud-model", 3), ("weekly-report", 41)):
        table.context.metastore.open_consumer(consumer, [table.uuid], "reader")
        table.consumers.reset(consumer, table.snapshots(limit=1)["id"][0].as_py() - behind)
    day.clock.time_ms += 42_000
    return table
