"""Planning of what is due, while tables change between its statements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from lakelog.clock import SystemClock
from lakelog.format.jobs.job import EXPIRE, DueJob
from metastore.jobs.due_work import DueWork, TableWork
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.retention.expiry import plan_expiry_work
from metastore.store.records import WorkCursor
from metastore.store.transaction import Transaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.expiring import expire
from tests.contract.metastore.planning import quiet
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import open_in_process


@pytest.fixture(params=["memory", "postgres"])
def opened(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as found:
        yield found


def test_what_expires_while_expiry_is_planned_is_looked_for_again(opened: InProcessMetastore) -> None:
    table = make_table(opened, options={"bucket": "4", "snapshot.num-retained.min": "1"})
    for number in range(1, 6):
        append(opened, table, number)

    async def load() -> TableWork:
        async with opened.store.transaction() as tx:
            record = await tx.find_table_by_uuid(table.table_uuid)
            head = (await tx.find_heads([table.table_uuid]))[table.table_uuid]
            assert record is not None
            return TableWork(record, head, 0, head.latest_snapshot_id)

    work = opened.run(load())
    expire(opened, table, retain_last=2)

    async def plan() -> Sequence[DueJob]:
        async with opened.store.transaction() as tx:
            return await plan_expiry_work(tx, work)

    (job,) = opened.run(plan())
    assert job.kind == EXPIRE
    assert 0 < job.delay_ms <= 60_000


class Interrupted(PostgresTransaction):
    """Lets others work before it has the cursor, once."""

    meanwhile: ClassVar[list[Callable[[], Any]]] = []

    async def lock_work_cursor(self, table_id: int) -> WorkCursor | None:
        if self.meanwhile:
            await asyncio.to_thread(self.meanwhile.pop())
        return await super().lock_work_cursor(table_id)


class InterruptedStore(PostgresStore):
    transaction_type = Interrupted


def test_an_option_that_changes_while_a_table_is_planned_is_planned_with(migrated_url: str) -> None:
    """Also if whoever changed it dies before it has planned: what is heard of the change has seen it."""
    one, other = open_in_process(migrated_url, store_type=InterruptedStore), open_in_process(migrated_url)
    try:
        for each in (one, other):
            each.stop_background()
        table = make_table(one)
        append(one, table, 1)
        seen: list[str | None] = []

        async def planner(tx: Transaction, work: TableWork) -> Sequence[DueJob]:
            seen.append(work.table.info.options.get("write-only"))
            return ()

        def step() -> int:
            due_work = DueWork(one.store, SystemClock(), [planner], lambda: None)

            async def run() -> int:
                return await due_work.step()

            return one.run(run())

        Interrupted.meanwhile.append(
            lambda: other.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[])
        )
        assert step() == 1
        step()
        assert seen[-1] == "true"
    finally:
        Interrupted.meanwhile.clear()
        one.close()
        other.close()
