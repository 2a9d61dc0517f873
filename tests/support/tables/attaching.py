"""The compactor in this process, over any metastore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from compactor.compactions.changelogs import ChangelogJobExecutor
from compactor.compactions.compactions import CompactionJobExecutor
from compactor.compactions.dedicated import DedicatedCompaction
from compactor.compactions.deletion_vectors import DeletionVectorJobExecutor
from compactor.metrics import Metrics
from compactor.queue_watch import QueueWatch
from compactor.retention.cleaning import CleaningJobExecutor
from compactor.retention.expiry import ExpiryJobExecutor
from compactor.retention.partition_expiry import PartitionExpiryJobExecutor
from compactor.retention.purges import PurgeJobExecutor
from compactor.service import Service
from lakelog.clock import SystemClock
from lakelog.format.jobs.job import CHANGELOG, CLEAN, COMPACT, DELETION_VECTORS, EXPIRE, EXPIRE_PARTITIONS, PURGE
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.stores import LocationStores, Stores


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
        executors={
            CHANGELOG: ChangelogJobExecutor(metastore, stores, Caches(), clock, metrics, log),
            COMPACT: CompactionJobExecutor(metastore, stores, clock, metrics, log),
            DELETION_VECTORS: DeletionVectorJobExecutor(metastore, stores, metrics, log),
            CLEAN: CleaningJobExecutor(metastore, stores, metrics, log),
            EXPIRE_PARTITIONS: PartitionExpiryJobExecutor(metastore, metrics, log),
            PURGE: PurgeJobExecutor(metastore, stores, metrics, log),
            EXPIRE: ExpiryJobExecutor(metastore, stores, metrics, log),
        },
        stores=stores,
        holder=holder,
        lease_s=lease_s,
        max_unavailable_s=5.0,
        once=once,
        clock=clock,
        metrics=metrics,
        log=log,
        dedicated_compaction=DedicatedCompaction(metastore, log),
        queue=QueueWatch(metastore, clock, metrics, log),
    )


def attach_all(metastore: Any, **more: Any) -> None:
    """Does all that is due."""
    assert make_service(metastore, **more).run() == 0
