"""Compactions of a table to which a compactor was sent: there something is due also where it is write-only."""

from __future__ import annotations

from lakelog.format.commit_rules import table_gone
from lakelog.format.job_queue import PlannedTable

from .due_compactions import plan_attended
from .due_work import DueWork, TableWork
from .job_requests import make_due
from .requests import check_number, check_uuid
from .store import Store, Transaction, run_transaction


async def plan_attended_table(store: Store, due_work: DueWork, table_uuid: str, after: int) -> PlannedTable:
    """Makes the compactions of a table due that snapshots behind `after` have made necessary; idempotent.

    Raises:
        NotFound: There is no such table (any more).
        InvalidArgument: The request is malformed.
    """
    check_uuid("table_uuid", table_uuid)
    check_number("after", after, 0)
    # What is kept of its small files is up to date then.
    await due_work.plan_now(table_uuid)
    return await run_transaction(store, lambda tx: _plan(tx, table_uuid, after))


async def _plan(tx: Transaction, table_uuid: str, after: int) -> PlannedTable:
    table = await tx.find_table_by_uuid(table_uuid)
    head = (await tx.find_heads([table_uuid])).get(table_uuid)
    if table is None or head is None:
        raise table_gone(table_uuid)
    cursor = await tx.lock_work_cursor(head.table_id)
    if cursor is None:
        # Another metastore plans it just now; whoever asks comes again.
        return PlannedTable(after, 0)
    until = cursor.planned_until
    # Behind the newest one: the caller knows another history, and all is looked at.
    work = TableWork(table, head, after if after <= until else 0, until)
    due = await plan_attended(tx, work)
    await make_due(tx, table_uuid, due)
    return PlannedTable(until, len(due))
