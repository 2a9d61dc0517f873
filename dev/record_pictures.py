"""Records what the pictures of the documentation show: `dev/pictures/*.json`, from a real table in this process.

Usage: `python -m dev.record_pictures`, then `python -m dev.pictures_page`. The metastore runs over its store in memory
with a clock that steps, so that the times are those of a working day; files, compactions and positions are real.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import threading
from typing import Any, Final

import numpy as np
import pyarrow as pa

from compactor.compactions.compactions import CompactionJobExecutor
from compactor.executor import Control
from compactor.metrics import Metrics
from dev.pictures_page import DATA
from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT
from lakelog.pictures.amplification import load_amplification
from lakelog.pictures.levels import load_levels
from lakelog.pictures.path import load_path
from lakelog.pictures.timeline import load_timeline
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.serving.logging_setup import set_up_logging
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases

_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string()), ("price", pa.float64())])
_BEGIN_MS: Final = 1_788_249_600_000
_COMMITS: Final = 60
_KEYS: Final = 40_000


class _WorkingDay(SystemClock):
    """Stands still until it is stepped."""

    def __init__(self) -> None:
        self.time_ms = _BEGIN_MS

    def now_ms(self) -> int:
        return self.time_ms


def main() -> int:
    """Makes the table, and writes what four pictures show of it."""
    clock = _WorkingDay()
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
            table = catalog.create_table(
                "shop.orders", _SCHEMA, primary_key=["id"], options={"bucket": "1", "target-file-size": "128 kb"}
            )
            _write(table, clock, compact)
            DATA.mkdir(exist_ok=True)
            for load in (load_amplification, load_levels, load_path, load_timeline):
                _record(load.__name__.removeprefix("load_"), load(table))
    return 0


def _write(table: Table, clock: _WorkingDay, compact: Any) -> None:
    random = np.random.default_rng(20)
    for number in range(_COMMITS):
        clock.time_ms += int(random.integers(120_000, 900_000))
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
            clock.time_ms += 20_000
            compact()
    for consumer, behind in (("dashboards", 0), ("fraud-model", 3), ("weekly-report", 41)):
        table.context.metastore.open_consumer(consumer, [table.uuid], "reader")
        table.consumers.reset(consumer, table.snapshots(limit=1)["id"][0].as_py() - behind)
    clock.time_ms += 42_000


def _record(name: str, data: Any) -> None:
    text = json.dumps(dataclasses.asdict(data), indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
