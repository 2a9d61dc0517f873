"""Lets the time be over for which dropped tables are kept."""

from __future__ import annotations

from lakelog.format.jobs.job import PURGE, Job
from metastore.store.transaction import Transaction, run_transaction
from metastore.testing import InProcessMetastore


def end_keeping(metastore: InProcessMetastore, table_uuid: str) -> Job:
    """Makes the purge of a dropped table due, as if it had been kept for long enough; returns the job."""

    async def end(tx: Transaction) -> None:
        dropped = await tx.lock_dropped(table_uuid)
        assert dropped is not None, "it must have been dropped"
        # As if it were dropped now, to be kept for a millisecond.
        await tx.drop_table(dropped.table_id, 1)

    metastore.run(run_transaction(metastore.store, end))
    while True:
        (job,) = metastore.list_jobs([table_uuid])
        assert job.kind == PURGE
        if job.remaining_ms == 0:
            return job
