"""Dedicated compactions: they are due for a table also while it is write-only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lakelog.format.jobs.queue import PlannedTable

from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_number, check_uuid
from ..tables.lookup import find_head, find_table
from .due_compactions import is_supplied, plan_dedicated
from .due_full import plan_counted
from .due_work import DueWork, TableWork
from .requests import make_due

_TRIES: Final = 20
_PAUSE_S: Final = 0.1
"""Two seconds in all; a caller that gets no answer asks again."""


class DedicatedPlanning:
    """Plans a table for a compactor that was started for it.

    Args:
        store: Where everything is stored.
        due_work: Brings the counts of the table's small files up to date.
        jobs_due: Called when jobs were made due.
    """

    def __init__(self, store: Store, due_work: DueWork, jobs_due: Callable[[], None]) -> None:
        self._store = store
        self._due_work = due_work
        self._jobs_due = jobs_due

    async def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        check_uuid("table_uuid", table_uuid)
        check_number("after", after, 0)
        for _ in range(_TRIES):
            # The counts of its small files are up to date then.
            await self._due_work.plan_now(table_uuid)
            planned = await run_transaction(self._store, lambda tx: _plan(tx, table_uuid, after))
            if planned is not None:
                if planned.job_count:
                    self._jobs_due()
                return planned
            # Another step plans it, here or in another metastore; that takes some milliseconds, unless very much is
            # due.
            await asyncio.sleep(_PAUSE_S)
        return PlannedTable(after, 0)


async def _plan(tx: Transaction, table_uuid: str, after: int) -> PlannedTable | None:
    table = await find_table(tx, table_uuid)
    head = await find_head(tx, table_uuid)
    cursor = await tx.lock_work_cursor(head.table_id)
    if cursor is None:
        return None
    until = cursor.planned_until
    # After the newest one: the caller knows another history, and all buckets are checked.
    work = TableWork(table, head, after if after <= until else 0, until)
    if await is_supplied(tx, work):
        return PlannedTable(after, 0)
    due = await plan_dedicated(tx, work)
    jobs = [*due.jobs, *await plan_counted(tx, work)]
    await make_due(tx, table_uuid, jobs)
    return PlannedTable(after if due.has_more else until, len(jobs))
