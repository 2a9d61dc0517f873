"""Cancelled calls: a write has no effect, or goes on to its end, and its error says which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog.aio
from lakelog.aio import Effects, workers
from lakelog.aio.workers import open_workers
from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.unit.aio.gates import WAIT_S, Gate, WatchedMetastore, unprotected, watched

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])
ROW: list[dict[str, object]] = [{"k": 1}]


@asynccontextmanager
async def opened(metastore: InProcessMetastore) -> AsyncIterator[tuple[lakelog.aio.Table, WatchedMetastore]]:
    held, gates = watched(metastore)
    async with lakelog.aio.Catalog(Catalog(held, LocationStores()), open_workers(4)) as catalog:
        yield await catalog.create_table("shop.t", SCHEMA), gates


async def cancel(task: asyncio.Task[Any]) -> asyncio.CancelledError:
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        async with asyncio.timeout(WAIT_S):
            await task
    return cancelled.value


def find_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.parquet"))


def held_rows(gate: Gate) -> Iterator[dict[str, object]]:
    gate.hold()
    yield from ROW


def test_a_write_that_waits_for_a_thread_never_begins(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        held, gates = watched(metastore)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores()), open_workers(1)) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            gate = Gate()
            running = asyncio.create_task(table.append(held_rows(gate)))
            await gate.arrival()
            waiting = asyncio.create_task(table.append(ROW))
            await asyncio.sleep(0)
            outcome = lakelog.aio.find_outcome(await cancel(waiting))
            assert outcome is not None
            assert outcome.effects is Effects.NOTHING
            gate.open()
            await running
            assert await table.count() == 1
            assert gates.calls.count("commit") == 1

    asyncio.run(run())


async def cancel_while_writing(metastore: InProcessMetastore) -> tuple[Effects, int]:
    async with opened(metastore) as (table, _):
        gate = Gate()
        writing = asyncio.create_task(table.append(held_rows(gate)))
        await gate.arrival()
        # It is cancelled before the rows come.
        asyncio.get_running_loop().call_later(0.05, gate.open)
        outcome = lakelog.aio.find_outcome(await cancel(writing))
        assert outcome is not None
        return outcome.effects, await table.count()


def test_a_write_that_is_cancelled_before_its_commit_leaves_nothing(
    metastore: InProcessMetastore, tmp_path: Path
) -> None:
    assert asyncio.run(cancel_while_writing(metastore)) == (Effects.NOTHING, 0)
    assert not find_files(tmp_path)


def test_without_the_protection_the_cancelled_write_is_committed(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before."""
    with unprotected(monkeypatch):
        assert asyncio.run(cancel_while_writing(metastore)) == (Effects.DONE, 1)


def test_a_write_that_is_cancelled_just_before_its_commit_is_sent_leaves_nothing(
    metastore: InProcessMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are in files: only the last look is left."""
    gate = Gate()
    finish = lakelog.sdk.transaction.TableWrite.finish

    def held(self: Any, *arguments: Any) -> None:
        finish(self, *arguments)
        gate.hold()

    monkeypatch.setattr("lakelog.sdk.transaction.TableWrite.finish", held)

    async def run() -> None:
        async with opened(metastore) as (table, gates):
            writing = asyncio.create_task(table.append(ROW))
            await gate.arrival()
            assert find_files(tmp_path)
            asyncio.get_running_loop().call_later(0.05, gate.open)
            outcome = lakelog.aio.find_outcome(await cancel(writing))
            assert outcome is not None
            assert outcome.effects is Effects.NOTHING
            assert "commit" not in gates.calls

    asyncio.run(run())
    assert not find_files(tmp_path)


def test_a_write_whose_commit_was_sent_goes_on_and_its_result_is_known(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (table, gates):
            gate = gates.gates["commit"] = Gate()
            writing = asyncio.create_task(table.append(ROW))
            await gate.arrival()
            asyncio.get_running_loop().call_later(0.05, gate.open)
            cancelled = await cancel(writing)
            outcome = lakelog.aio.find_outcome(cancelled)
            assert outcome is not None
            assert (outcome.effects, outcome.result) == (Effects.DONE, WriteResult(1, False))
            assert "done" in cancelled.__notes__[0]
            assert await table.count() == 1

    asyncio.run(run())


def test_a_time_out_says_what_became_of_the_write(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (table, gates):
            gate = gates.gates["commit"] = Gate()
            asyncio.get_running_loop().call_later(0.3, gate.open)
            with pytest.raises(TimeoutError) as late:
                async with asyncio.timeout(0.1):
                    await table.append(ROW)
            outcome = lakelog.aio.find_outcome(late.value)
            assert outcome is not None
            assert outcome.effects is Effects.DONE
            gates.gates.clear()
            rows = Gate()
            asyncio.get_running_loop().call_later(0.3, rows.open)
            with pytest.raises(TimeoutError) as late:
                await asyncio.wait_for(table.append(held_rows(rows)), 0.1)
            outcome = lakelog.aio.find_outcome(late.value)
            assert outcome is not None
            assert outcome.effects is Effects.NOTHING
            assert await table.count() == 1

    asyncio.run(run())


def test_without_an_answer_the_outcome_is_found_by_writer_and_identifier(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_SETTLE_S", 0.1)

    async def run() -> None:
        held, gates = watched(metastore)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores())) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            gate = gates.after["commit"] = Gate()
            writing = asyncio.create_task(table.append(ROW, writer="w", identifier=7))
            await gate.arrival()
            outcome = lakelog.aio.find_outcome(await cancel(writing))
            assert outcome is not None
            assert outcome.effects is Effects.UNKNOWN
            assert await catalog.last_identifier("w", "shop.t") == 7
            gate.open()
            del gates.after["commit"]
            again = await table.append(ROW, writer="w", identifier=7)
            assert again == WriteResult(1, True)
            assert await table.count() == 1

    asyncio.run(run())


def test_a_second_cancellation_ends_the_wait(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (table, gates):
            gate = gates.gates["commit"] = Gate()
            writing = asyncio.create_task(table.append(ROW))
            await gate.arrival()
            writing.cancel()
            await asyncio.sleep(0.05)
            assert not writing.done()
            outcome = lakelog.aio.find_outcome(await cancel(writing))
            assert outcome is not None
            assert outcome.effects is Effects.UNKNOWN
            gate.open()

    asyncio.run(run())


def test_a_cancelled_read_ends_at_once(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (table, gates):
            await table.append(ROW)
            gate = gates.gates["plan"] = Gate()
            reading = asyncio.create_task(table.scan().to_arrow())
            await gate.arrival()
            assert lakelog.aio.find_outcome(await cancel(reading)) is None
            gate.open()

    asyncio.run(run())


def test_a_transaction_with_a_cancelled_write_is_aborted(metastore: InProcessMetastore, tmp_path: Path) -> None:
    async def run() -> None:
        held, gates = watched(metastore)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores())) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            gate = Gate()

            async def write() -> None:
                async with catalog.transaction() as tx:
                    inside = await tx.table("shop.t")
                    await inside.append(ROW)
                    await inside.append(held_rows(gate))

            writing = asyncio.create_task(write())
            await gate.arrival()
            asyncio.get_running_loop().call_later(0.05, gate.open)
            await cancel(writing)
            assert await table.count() == 0
            assert "commit" not in gates.calls

    asyncio.run(run())
    assert not find_files(tmp_path)


def test_a_transaction_that_catches_the_time_out_of_a_write_cannot_be_committed(
    metastore: InProcessMetastore,
) -> None:
    async def run() -> None:
        held, _ = watched(metastore)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores())) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            gate = Gate()
            asyncio.get_running_loop().call_later(0.2, gate.open)

            async def write() -> None:
                async with catalog.transaction() as tx:
                    inside = await tx.table("shop.t")
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(inside.append(held_rows(gate)), 0.1)

            with pytest.raises(lakelog.errors.InvalidArgument, match="cannot be committed"):
                await write()
            assert await table.count() == 0

    asyncio.run(run())
