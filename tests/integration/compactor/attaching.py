"""The compactor in this process, over any metastore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from compactor.attendance import Attendance
from compactor.changelogs import ChangelogDuty
from compactor.cleaning import CleaningDuty
from compactor.compactions import CompactionDuty
from compactor.expiry import ExpiryDuty
from compactor.marks import MarkDuty
from compactor.metrics import Metrics
from compactor.partition_expiry import PartitionExpiryDuty
from compactor.purges import PurgeDuty
from compactor.queue_watch import QueueWatch
from compactor.service import Service
from lakelog.clock import SystemClock
from lakelog.format.job import CHANGELOG, CLEAN, COMPACT, EXPIRE, EXPIRE_PARTITIONS, MARK, PURGE
from lakelog.storage.caches import Caches
from lakelog.storage.stores import LocationStores, Stores


def make_service(
    metastore: Any,
    *,
    holder: str = "compactor here",
    once: bool = True,
    stores: Stores | None = None,
    lease_s: float = 30.0,
    find_tables: Callable[[], Sequence[str] | None] = tuple,
) -> Service:
    log: Any = structlog.get_logger()
    stores = stores or LocationStores()
    metrics, clock = Metrics(), SystemClock()
    return Service(
        metastore,
        waiting=metastore,
        find_tables=find_tables,
        duties={
            CHANGELOG: ChangelogDuty(metastore, stores, Caches(), clock, metrics, log),
            COMPACT: CompactionDuty(metastore, stores, clock, metrics, log),
            MARK: MarkDuty(metastore, stores, metrics, log),
            CLEAN: CleaningDuty(metastore, stores, metrics, log),
            EXPIRE_PARTITIONS: PartitionExpiryDuty(metastore, metrics, log),
            PURGE: PurgeDuty(metastore, stores, metrics, log),
            EXPIRE: ExpiryDuty(metastore, stores, metrics, log),
        },
        stores=stores,
        holder=holder,
        lease_s=lease_s,
        patience_s=5.0,
        once=once,
        clock=clock,
        metrics=metrics,
        log=log,
        attendance=Attendance(metastore, log),
        queue=QueueWatch(metastore, clock, metrics, log),
    )


def attach_all(metastore: Any, **more: Any) -> None:
    """Does all that is due."""
    assert make_service(metastore, **more).run() == 0
