"""The SDK for asyncio with a metastore that is a process, and dies."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

import lakelog.aio
from lakelog.aio import Effects, workers
from tests.support.forked_stack import ForkedStack

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])
WAIT_S = 60.0


async def take(stream: lakelog.aio.Subscription, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            batch = await stream.read(WAIT_S)
            assert batch is not None
            found += batch.data.column("k").to_pylist()
    return sorted(found)


def test_writes_and_subscriptions_outlast_a_metastore_that_is_killed(running: ForkedStack) -> None:
    async def run() -> None:
        async with lakelog.aio.connect(running.target) as catalog:
            table = await catalog.create_table("shop.killed", SCHEMA)
            streams = [await table.subscribe("latest", consumer_id=f"c{n}") for n in range(5)]
            reads = [asyncio.create_task(take(each, 200)) for each in streams]
            writes = [asyncio.create_task(table.append([{"k": n}], writer=f"w{n}", identifier=1)) for n in range(200)]
            await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
            running.kill("metastore")
            await asyncio.to_thread(running.restart, "metastore")
            async with asyncio.timeout(WAIT_S):
                results = await asyncio.gather(*writes)
            assert len({each.snapshot_id for each in results}) == 200
            assert await asyncio.gather(*reads) == [list(range(200))] * 5
            for each in streams:
                await each.close()

    asyncio.run(run())


def test_the_outcome_of_a_write_without_an_answer_is_found_by_its_identifier(
    running: ForkedStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over while the metastore hangs: nothing is certain until it answers again."""
    monkeypatch.setattr(workers, "_SETTLE_S", 0.2)

    async def run() -> None:
        async with lakelog.aio.connect(running.target, threads=4) as catalog:
            table = await catalog.create_table("shop.hangs", SCHEMA)
            await table.append([{"k": 0}])
            running.pause("metastore")
            try:
                with pytest.raises(TimeoutError) as late:
                    async with asyncio.timeout(0.2):
                        await table.append([{"k": 1}], writer="w", identifier=1)
            finally:
                running.resume("metastore")
            outcome = lakelog.aio.find_outcome(late.value)
            assert outcome is not None
            assert outcome.effects in (Effects.UNKNOWN, Effects.NOTHING)
            again = await table.append([{"k": 1}], writer="w", identifier=1)
            assert again.snapshot_id == 2
            assert await table.count() == 2

    asyncio.run(run())


def test_a_reader_service_reads_for_a_subscription(running: ForkedStack) -> None:
    async def run() -> None:
        async with lakelog.aio.connect(running.target, reader=running.reader_target) as catalog:
            table = await catalog.create_table("shop.remote", SCHEMA)
            async with table.subscribe("latest", consumer_id="c") as stream:
                assert await stream.read(0.1) is None
                reading = asyncio.create_task(take(stream, 3))
                for number in range(3):
                    await table.append([{"k": number}])
                assert await reading == [0, 1, 2]

    asyncio.run(run())


def test_errors_and_certificates_are_those_of_the_blocking_sdk(running: ForkedStack) -> None:
    async def run() -> None:
        with pytest.raises(lakelog.errors.InvalidArgument):
            await lakelog.aio.connect("no target at all")
        catalog = await lakelog.aio.connect(running.target)
        with pytest.raises(lakelog.errors.NotFound):
            await catalog.table("shop.nothing")

    asyncio.run(run())
