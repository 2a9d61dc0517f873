"""Calls in threads: how many at once, with what they bring along, and without the event loop's thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakelog
import lakelog.aio
from lakelog.aio.workers import open_workers
from lakelog.client.connection.retry import CLOSED
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.unit.aio import typed_program
from tests.unit.aio.gates import WAIT_S, Gate, check_no_loop, watched

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def list_threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("lakelog-aio"))


def test_a_typed_program_runs_without_the_event_loops_thread(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded, seen = watched(metastore)
    stores = LocationStores()
    open_store = stores.open

    def open_checked(location: str) -> Any:
        check_no_loop("stores.open")
        return open_store(location)

    monkeypatch.setattr(stores, "open", open_checked)
    assert asyncio.run(typed_program.run(lakelog.aio.Catalog(Catalog(guarded, stores)))) == 7
    assert {"commit", "plan", "watch", "list_snapshots", "stage_attempt", "create_tag", "alter_table"} <= {*seen.calls}


def test_what_calls_in_the_event_loops_thread_is_found(metastore: InProcessMetastore) -> None:
    """The control of the test before."""

    async def run() -> None:
        guarded, _ = watched(metastore)
        with pytest.raises(AssertionError, match="event loop's thread"):
            Catalog(guarded, LocationStores()).databases()

    asyncio.run(run())


def test_two_hundred_appends_at_once_are_two_hundred_commits(blocking: Catalog) -> None:
    async def run() -> None:
        async with lakelog.aio.Catalog(blocking) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            results = await asyncio.gather(*(table.append([{"k": n, "v": "a"}]) for n in range(200)))
            assert {each.snapshot_id for each in results} == set(range(1, 201))
            rows = await table.scan(["k"]).to_arrow()
            assert sorted(rows.column("k").to_pylist()) == list(range(200))

    asyncio.run(run())


def test_as_many_calls_run_as_there_are_threads_and_others_wait(blocking: Catalog) -> None:
    running: list[int] = []
    most: list[int] = []
    gate = Gate()

    def rows(number: int) -> Iterator[dict[str, object]]:
        running.append(number)
        most.append(len(running))
        gate.hold()
        yield {"k": number, "v": "a"}
        running.remove(number)

    async def run() -> None:
        async with lakelog.aio.Catalog(blocking, open_workers(3)) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            writes = [asyncio.create_task(table.append(rows(number))) for number in range(12)]
            for _ in range(3):
                await gate.arrival()
            await asyncio.sleep(0.05)
            assert len(running) == 3
            gate.open()
            await asyncio.gather(*writes)
            assert max(most) <= 3
            assert await table.count() == 12

    asyncio.run(run())


def test_context_variables_pass_into_the_thread(blocking: Catalog) -> None:
    request = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    def rows() -> Iterator[dict[str, object]]:
        seen.append(request.get())
        yield {"k": 1, "v": "a"}

    async def write(table: lakelog.aio.Table, name: str) -> None:
        request.set(name)
        await table.append(rows())

    async def run() -> None:
        async with lakelog.aio.Catalog(blocking) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            await asyncio.gather(write(table, "a"), write(table, "b"))

    asyncio.run(run())
    assert sorted(seen) == ["a", "b"]


def test_errors_are_those_of_the_blocking_sdk(blocking: Catalog) -> None:
    async def run() -> None:
        async with lakelog.aio.Catalog(blocking) as catalog:
            with pytest.raises(NotFound) as missing:
                await catalog.table("shop.nothing")
            assert missing.value.reason == "TABLE_NOT_FOUND"
            table = await catalog.create_table("shop.t", SCHEMA)
            with pytest.raises(AlreadyExists):
                await catalog.create_table("shop.t", SCHEMA)
            with pytest.raises(InvalidArgument, match="nothing"):
                await table.scan(["nothing"])
            with pytest.raises(InvalidArgument, match="not planned yet"):
                _ = table.scan().schema
            with pytest.raises(lakelog.errors.InvalidArgument, match="threads"):
                open_workers(0)

    asyncio.run(run())


def test_the_end_of_the_block_ends_all_threads(blocking: Catalog) -> None:
    async def run() -> None:
        async with lakelog.aio.Catalog(blocking) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            stream = await table.subscribe("latest")
            assert await stream.read(0.05) is None
            assert list_threads()
        assert not list_threads()
        assert "lakelog-watch" not in [each.name for each in threading.enumerate()]
        with pytest.raises(InvalidArgument) as closed:
            await table.count()
        assert closed.value.reason == CLOSED
        await catalog.close()

    asyncio.run(run())


def test_the_end_of_asyncio_run_ends_all_threads(blocking: Catalog) -> None:
    async def run() -> None:
        catalog = lakelog.aio.Catalog(blocking)
        await catalog.live()
        await catalog.databases()
        assert list_threads()

    asyncio.run(run())
    assert not list_threads()


def test_calls_that_wait_for_a_thread_never_begin_once_the_catalog_is_closed(metastore: InProcessMetastore) -> None:
    gate = Gate()
    kept_open, _ = watched(metastore)

    def rows() -> Iterator[dict[str, object]]:
        gate.hold()
        yield {"k": 1, "v": "a"}

    async def run() -> None:
        catalog = lakelog.aio.Catalog(Catalog(kept_open, LocationStores()), open_workers(1))
        table = await catalog.create_table("shop.t", SCHEMA)
        running = asyncio.create_task(table.append(rows()))
        await gate.arrival()
        waiting = asyncio.create_task(table.append([{"k": 2, "v": "b"}]))
        await asyncio.sleep(0)
        closing = asyncio.create_task(catalog.close())
        with pytest.raises(InvalidArgument, match="closed"):
            async with asyncio.timeout(WAIT_S):
                await waiting
        gate.open()
        await closing
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_a_scan_is_planned_once_and_read_in_steps(blocking: Catalog) -> None:
    async def run() -> None:
        async with lakelog.aio.Catalog(blocking, open_workers(2)) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            for number in range(3):
                await table.append([{"k": number, "v": "a"}])
            scan = await table.scan()
            await table.append([{"k": 9, "v": "a"}])
            assert (scan.snapshot_id, scan.table_name, await scan.count()) == (3, "shop.t", 3)
            read = [batch async for batch in scan.to_batches()]
            assert sum(batch.num_rows for batch in read) == 3
            # More readers than threads: none is held between two batches.
            readers = [table.scan().to_batches() for _ in range(5)]
            for reader in readers:
                assert (await anext(reader)).num_rows
            for reader in readers:
                await reader.aclose()

    asyncio.run(run())
