"""The gate over a store in memory whose failures are made to order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict, InternalError, LakelogError, OutcomeUnknown, ResourceExhausted, Unavailable
from lakelog.format.commit.request import Change, CommitRequest, CommitResult, RemoveEverything
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE
from metastore.store.limits import Limits
from metastore.store.records import GroupRecords
from metastore.store.transaction import Transaction, TransactionAborted
from metastore.use_cases import UseCases


class FailingStore(MemoryStore):
    """Counts transactions, holds them back, and fails those that a test wants to fail."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.groups: list[int] = []
        self.held = asyncio.Event()
        self.held.set()
        self.fail: Callable[[GroupRecords], None] = lambda records: None
        self.after_commit: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        recorded = False
        async with super().transaction() as transaction:
            record = transaction.record_group

            async def watched(records: GroupRecords) -> None:
                nonlocal recorded
                await self.held.wait()
                self.groups.append(len(records.results))
                self.fail(records)
                await record(records)
                recorded = True

            transaction.record_group = watched  # type: ignore[method-assign]
            yield transaction
        if recorded:
            self.after_commit()


def run(test: Callable[[FailingStore, UseCases, TableInfo], Coroutine[Any, Any, None]], **limits: int) -> None:
    async def main() -> None:
        store = FailingStore()
        use_cases = UseCases(store, "file:///w", limits=Limits(**limits))
        await use_cases.catalog.create_database("d")
        table, _ = await use_cases.catalog.create_table(
            TableName("d", "t"), pa.schema([("id", pa.int64())]), by=EVERYONE
        )
        await test(store, use_cases, table)
        await use_cases.close()

    asyncio.run(main())


def request(table: TableInfo, writer: str, identifier: int = 1, **change: Any) -> CommitRequest:
    made = Change(table.table_uuid, SnapshotKind.APPEND, 0, -1, allow_empty=True)
    return CommitRequest(writer, identifier, (replace(made, **change),))


async def settle(*tasks: asyncio.Task[CommitResult]) -> list[CommitResult | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_those_that_wait_share_a_transaction() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        tasks = [asyncio.create_task(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE)) for n in range(20)]
        await asyncio.sleep(0.01)
        store.held.set()
        results = await asyncio.gather(*tasks)
        assert [result.results[0].snapshot_id for result in results] == list(range(1, 21))
        assert store.groups == [1, 19]

    run(test)


def test_one_that_removes_goes_alone_and_in_its_turn() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        removal = request(table, "o", kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
        requests = [request(table, "a"), request(table, "b"), removal, request(table, "c"), request(table, "d")]
        tasks = [asyncio.create_task(use_cases.gate.commit(r, by=EVERYONE)) for r in requests]
        await asyncio.sleep(0.01)
        store.held.set()
        results = await asyncio.gather(*tasks)
        assert [result.results[0].snapshot_id for result in results] == [1, 2, 3, 4, 5]
        assert store.groups == [1, 1, 1, 2]

    run(test)


def test_each_sees_what_those_before_it_in_the_group_did() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        first = asyncio.create_task(use_cases.gate.commit(request(table, "x"), by=EVERYONE))
        await asyncio.sleep(0.01)
        chain = [replace(request(table, "w", n), previous_identifier=n - 1) for n in (0, 1, 1, 3, 2)]
        tasks = [asyncio.create_task(use_cases.gate.commit(r, by=EVERYONE)) for r in chain]
        await asyncio.sleep(0.01)
        store.held.set()
        await first
        zero, one, again, gap, two = await settle(*tasks)
        assert isinstance(zero, CommitResult)
        assert one == again
        assert isinstance(gap, CommitConflict)
        assert isinstance(two, CommitResult)
        assert two.results[0].snapshot_id == 4
        assert store.groups == [1, 3]

    run(test)


def test_one_that_the_store_refuses_does_not_fail_its_neighbours() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        def poison(records: GroupRecords) -> None:
            if any(result.writer == "poison" for result in records.results):
                raise ValueError("a statement that Postgres refuses")

        store.fail = poison
        store.held.clear()
        tasks = [
            asyncio.create_task(use_cases.gate.commit(request(table, name), by=EVERYONE))
            for name in ("x", "a", "poison", "b", "c")
        ]
        await asyncio.sleep(0.01)
        store.held.set()
        results = await settle(*tasks)
        (failed,) = [result for result in results if isinstance(result, BaseException)]
        assert isinstance(failed, InternalError)
        assert results.index(failed) == 2
        page = await use_cases.listing.list_snapshots(table.table_uuid)
        assert [snapshot.writer for snapshot in page.snapshots] == ["x", "a", "b", "c"]

    run(test)


@pytest.mark.parametrize(
    ("error", "certain"), [(Unavailable("away; nothing happened"), True), (OutcomeUnknown("lost"), False)]
)
def test_a_lost_store_fails_each_of_the_group_with_its_own_error(error: LakelogError, certain: bool) -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        def lose() -> None:
            raise error

        if certain:
            store.fail = lambda records: lose()
        else:
            store.after_commit = lose
        store.held.clear()
        tasks = [asyncio.create_task(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE)) for n in range(3)]
        await asyncio.sleep(0.01)
        store.held.set()
        results = await settle(*tasks)
        assert [type(result) for result in results] == [type(error)] * 3
        assert len({id(result) for result in results}) == 3
        store.fail, store.after_commit = (lambda records: None), (lambda: None)
        again = await asyncio.gather(*(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE) for n in range(3)))
        assert [result.results[0].snapshot_id for result in again] == [1, 2, 3]

    run(test)


def test_an_aborted_transaction_is_tried_again() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        def abort_twice(records: GroupRecords) -> None:
            if len(store.groups) < 3:
                raise TransactionAborted("deadlock")

        store.fail = abort_twice
        assert (await use_cases.gate.commit(request(table, "w"), by=EVERYONE)).results[0].snapshot_id == 1
        assert store.groups == [1, 1, 1]

    run(test)


def test_a_caller_that_goes_away_does_not_hurt_the_group() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        tasks = [asyncio.create_task(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE)) for n in range(4)]
        await asyncio.sleep(0.01)
        # The first is on its way already, the third still waits.
        tasks[0].cancel()
        tasks[2].cancel()
        store.held.set()
        results = await settle(*tasks)
        assert [type(result) for result in results] == [
            asyncio.CancelledError,
            CommitResult,
            asyncio.CancelledError,
            CommitResult,
        ]
        page = await use_cases.listing.list_snapshots(table.table_uuid)
        assert [snapshot.writer for snapshot in page.snapshots] == ["w0", "w1", "w3"]

    run(test)


def test_the_queue_is_bounded() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        tasks = [asyncio.create_task(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE)) for n in range(8)]
        await asyncio.sleep(0.01)
        refused = [task for task in tasks if task.done()]
        assert len(refused) == 3
        with pytest.raises(ResourceExhausted, match="4 commits wait at the gate, which is the limit"):
            refused[0].result()
        store.held.set()
        results = await settle(*tasks)
        assert [isinstance(result, CommitResult) for result in results] == [True] * 5 + [False] * 3

    run(test, max_waiting_commits=4)


def test_closing_finishes_what_runs_and_refuses_what_waits() -> None:
    async def test(store: FailingStore, use_cases: UseCases, table: TableInfo) -> None:
        store.held.clear()
        tasks = [asyncio.create_task(use_cases.gate.commit(request(table, f"w{n}"), by=EVERYONE)) for n in range(2)]
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(use_cases.close())
        await asyncio.sleep(0.01)
        store.held.set()
        await closing
        first, second = await settle(*tasks)
        assert isinstance(first, CommitResult)
        assert isinstance(second, Unavailable)
        with pytest.raises(Unavailable, match="shutting down"):
            await use_cases.gate.commit(request(table, "late"), by=EVERYONE)

    run(test)
