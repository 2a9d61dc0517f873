"""A metastore whose background does nothing: what commits make due is planned when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT, Job
from lakelog.format.tables.table import TableInfo
from metastore.jobs.due_compactions import plan_compactions
from metastore.jobs.due_work import DueWork
from metastore.memory import MemoryStore
from metastore.memory.state import StoredJob
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from tests.support.metastore.opening import make_use_cases


def step(metastore: InProcessMetastore) -> int:
    """Plans all that was touched; how many tables."""
    return metastore.run(metastore.use_cases.due_work.step())


def step_of_another(metastore: InProcessMetastore) -> int:
    """The same by a metastore that was started just now, over the same store."""
    other = DueWork(metastore.store, SystemClock(), [plan_compactions], lambda: None)
    return metastore.run(other.step())


def let_jobs_age(metastore: InProcessMetastore, passed_ms: int) -> None:
    """Puts all that is known of the times of jobs so far back, as if as much time had passed since."""
    store = metastore.store

    async def age() -> None:
        if isinstance(store, MemoryStore):
            for job_id, stored in store._state.jobs.items():
                job = replace(stored.job, updated_at_ms=stored.job.updated_at_ms - passed_ms)
                store._state.jobs[job_id] = StoredJob(job, stored.table_id, stored.due_at_ms - passed_ms)
            return
        async with store.transaction() as transaction:
            assert isinstance(transaction, PostgresTransaction)
            ago = "interval '1 millisecond' * %s::bigint"
            sql = f"UPDATE job SET due_at = due_at - {ago}, updated_at_ms = updated_at_ms - %s::bigint"
            await transaction._session.write(sql, (str(passed_ms), str(passed_ms)))

    metastore.run(age())


def compactions(metastore: InProcessMetastore, table: TableInfo) -> dict[str, Job]:
    """The table's jobs of compaction by scope."""
    return {job.scope: job for job in metastore.list_jobs([table.table_uuid]) if job.kind == COMPACT}


@contextmanager
def quiet(request: pytest.FixtureRequest, kind: str) -> Iterator[InProcessMetastore]:
    """Over a store of this kind: `memory` or `postgres`."""

    async def open_store() -> Store:
        if kind == "memory":
            return MemoryStore(SystemClock())
        store = PostgresStore(request.getfixturevalue("migrated_url"), pool_size=4)
        await store.check()
        return store

    if kind == "postgres":
        # In this thread, not on the event loop.
        request.getfixturevalue("migrated_url")
    metastore = in_process(open_store, make_use_cases)
    metastore.stop_background()
    try:
        yield metastore
    finally:
        metastore.close()
