"""When a job looks for expired partitions; see `metastore.jobs.due_work`."""

from __future__ import annotations

from lakelog.format.jobs.job import EXPIRE_PARTITIONS, DueJob
from lakelog.options.declared.partitions import PARTITION_EXPIRATION_CHECK_INTERVAL, PARTITION_EXPIRATION_TIME
from lakelog.options.declared.tables import WRITE_ONLY
from lakelog.options.values import TableOptions

from ..store.transaction import Transaction
from .due_work import TableWork


async def plan_partition_expiry(tx: Transaction, work: TableWork) -> list[DueJob]:
    """The recurring job that looks for them: due one interval after it was done last, or first planned."""
    options = TableOptions(work.table.info.options)
    if options.get(PARTITION_EXPIRATION_TIME) is None or options.get(WRITE_ONLY) or not work.head.latest_snapshot_id:
        return []
    delay_ms = options.get(PARTITION_EXPIRATION_CHECK_INTERVAL)
    return [DueJob(work.head.table_id, EXPIRE_PARTITIONS, delay_ms=delay_ms)]
