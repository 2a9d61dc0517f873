"""Subscriptions in an event loop: one thread waits for all, and none of their batches is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

import lakelog.aio
from lakelog.aio.watches import SharedWatches, _join
from lakelog.aio.workers import open_workers
from lakelog.client.metastore.metastore import WatchEvent
from lakelog.errors import Fenced, InvalidArgument, NotFound, Unavailable
from lakelog.reads.streams.feeds import SteppedFeed
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.unit.aio.gates import WAIT_S, Gate, WatchedMetastore, watched

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])


@asynccontextmanager
async def opened(
    metastore: InProcessMetastore, threads: int = 4
) -> AsyncIterator[tuple[lakelog.aio.Catalog, WatchedMetastore]]:
    held, gates = watched(metastore)
    async with lakelog.aio.Catalog(Catalog(held, LocationStores()), open_workers(threads)) as catalog:
        yield catalog, gates


async def take(stream: lakelog.aio.Subscription, count: int) -> list[int]:
    """Keys of the next rows, at least so many."""
    found: list[int] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            batch = await stream.read(WAIT_S)
            assert batch is not None
            found += batch.data.column("k").to_pylist()
    return found


def count_threads(name: str) -> int:
    return sum(each.name == name for each in threading.enumerate())


def test_many_subscriptions_wait_by_one_thread_and_each_gets_all_rows(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, gates):
            tables = [await catalog.create_table(f"shop.t{number}", SCHEMA) for number in range(5)]
            streams = [await table.subscribe("latest", consumer_id=f"c{n}") for n in range(8) for table in tables]
            assert all(isinstance(each._blocking._feed, SteppedFeed) for each in streams)
            before = threading.active_count()
            reads = [asyncio.create_task(take(each, 3)) for each in streams]
            for number in range(3):
                for table in tables:
                    await table.append([{"k": number}])
            assert await asyncio.gather(*reads) == [[0, 1, 2]] * 40
            assert (count_threads("lakelog-watch"), count_threads("lakelog-subscribe")) == (1, 0)
            assert count_threads("lakelog-keep") == 0
            assert threading.active_count() <= before + 3
            # All tables in a watch or two, and not one for each stream.
            assert gates.calls.count("watch") <= 5
            for each in streams:
                await each.close()

    asyncio.run(run())


def test_the_position_moves_by_acknowledgement(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            table = await catalog.create_table("shop.t", SCHEMA)
            for number in range(3):
                await table.append([{"k": number}])
            options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
            async with table.subscribe(consumer_id="c", auto_commit=False, options=options) as stream:
                assert await take(stream, 2) == [0, 1]
                await stream.commit()
                assert (stream.position, stream.is_whole) == (2, True)
                assert await take(stream, 1) == [2]
            async with table.subscribe(consumer_id="c", options=options) as stream:
                assert await take(stream, 1) == [2]
                assert stream.position == 2
                assert await stream.read(0.1) is None
                assert stream.position == 3

    asyncio.run(run())


def test_a_read_that_is_cancelled_loses_nothing(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, gates):
            table = await catalog.create_table("shop.t", SCHEMA)
            async with table.subscribe("latest") as stream:
                assert await stream.read(0.1) is None
                gate = gates.gates["plan"] = Gate()
                await table.append([{"k": 1}])
                reading = asyncio.create_task(stream.read())
                await gate.arrival()
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                gate.open()
                assert await take(stream, 1) == [1]
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(stream.read(), 0.05)
                await table.append([{"k": 2}])
                await asyncio.sleep(0.2)
                assert await take(stream, 1) == [2]

    asyncio.run(run())


def test_a_read_that_runs_out_of_time_loses_nothing(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, gates):
            table = await catalog.create_table("shop.t", SCHEMA)
            async with table.subscribe("latest") as stream:
                assert await stream.read(0.1) is None
                gate = gates.gates["plan"] = Gate()
                await table.append([{"k": 1}])
                reading = asyncio.create_task(stream.read(0.2))
                await gate.arrival()
                assert await reading is None, "the metastore has not answered"
                gate.open()
                assert await take(stream, 1) == [1]

    asyncio.run(run())


def test_a_slow_reader_stops_only_itself_and_holds_little(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore, threads=2) as (catalog, _):
            table = await catalog.create_table("shop.t", SCHEMA)
            slow, quick = await table.subscribe("latest"), await table.subscribe("latest")
            assert await slow.read(0.1) is None
            reading = asyncio.create_task(take(quick, 60))
            for number in range(60):
                await table.append([{"k": number}])
            assert await reading == list(range(60))
            watch: Any = slow._blocking._follower._watch  # type: ignore[attr-defined]
            assert len(watch._waiting) == 1
            assert await take(slow, 60) == list(range(60))
            await slow.close()
            await quick.close()

    asyncio.run(run())


def test_what_waits_for_a_reader_is_bounded() -> None:
    class Numbered:
        def __init__(self, snapshot_id: int) -> None:
            self.snapshot_id = snapshot_id

    event: Any = WatchEvent("t", tuple(map(Numbered, range(600))))  # type: ignore[arg-type]
    later: Any = WatchEvent("t", tuple(map(Numbered, range(600, 1200))), dropped=True)  # type: ignore[arg-type]
    joined = _join(event, later)
    assert [each.snapshot_id for each in joined.snapshots] == list(range(600, 1200))
    assert joined.dropped
    small = _join(WatchEvent("t", event.snapshots[:2], more=True), WatchEvent("t", event.snapshots[2:3]))
    assert ([each.snapshot_id for each in small.snapshots], small.more) == ([0, 1, 2], True)


def test_the_error_of_one_table_is_not_that_of_others(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            tables = [await catalog.create_table(f"shop.t{number}", SCHEMA) for number in range(3)]
            streams = [await table.subscribe("latest") for table in tables]
            assert [await each.read(0.1) for each in streams] == [None] * 3
            reading = asyncio.create_task(streams[0].read())
            await catalog.drop_table("shop.t0")
            with pytest.raises(NotFound, match=r"shop\.t0"):
                async with asyncio.timeout(WAIT_S):
                    await reading
            for table, stream in list(zip(tables, streams, strict=True))[1:]:
                await table.append([{"k": 5}])
                assert await take(stream, 1) == [5]
            for each in streams:
                await each.close()

    asyncio.run(run())


def test_a_watch_that_fails_begins_again_and_nothing_is_missed(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        held, _ = watched(metastore)
        fails = 3

        def watch(*arguments: Any, **named: Any) -> Any:
            nonlocal fails
            fails -= 1
            if fails == 1:
                raise ZeroDivisionError("a defect")
            if fails >= 0:
                raise Unavailable("gone for a moment")
            return metastore.watch(*arguments, **named)

        monkeypatch.setattr(held, "watch", watch, raising=False)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores())) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            async with table.subscribe("latest") as stream:
                assert await stream.read(0.1) is None
                async with asyncio.timeout(WAIT_S):
                    while fails >= 0:
                        await table.append([{"k": fails}])
                        await asyncio.sleep(0.02)
                rows = await table.count()
                await table.append([{"k": 20}])
                assert (await take(stream, rows + 1))[-1] == 20

    asyncio.run(run())


def test_readers_look_by_themselves_while_the_watch_does_not_work(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        held, _ = watched(metastore)

        def watch(*_: Any, **__: Any) -> Any:
            raise Unavailable("no proxy lets streams through")

        monkeypatch.setattr(held, "watch", watch, raising=False)
        async with lakelog.aio.Catalog(Catalog(held, LocationStores())) as catalog:
            table = await catalog.create_table("shop.t", SCHEMA)
            async with table.subscribe("latest") as stream:
                assert await stream.read(0.1) is None
                await table.append([{"k": 7}])
                assert await take(stream, 1) == [7]

    asyncio.run(run())


def test_a_reader_that_is_replaced_is_fenced_while_it_waits(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.reads.streams.open_stream._KEEP_EVERY_MS", 50)

    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            table = await catalog.create_table("shop.t", SCHEMA)
            first = await table.subscribe("latest", consumer_id="c")
            waiting = asyncio.create_task(first.read())
            second = await table.subscribe("latest", consumer_id="c")
            with pytest.raises(Fenced):
                async with asyncio.timeout(WAIT_S):
                    await waiting
            await first.close()
            await second.close()

    asyncio.run(run())


def test_a_close_ends_the_iteration_of_another_task(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            table = await catalog.create_table("shop.t", SCHEMA)
            stream = await table.subscribe("latest")

            async def iterate() -> int:
                return len([batch async for batch in stream])

            iterating = asyncio.create_task(iterate())
            await asyncio.sleep(0.05)
            await stream.close()
            async with asyncio.timeout(WAIT_S):
                assert await iterating == 0
            assert (stream.closed, stream.ended) == (True, True)
            with pytest.raises(InvalidArgument, match="closed"):
                await stream.commit()
            with pytest.raises(InvalidArgument, match="no time to wait"):
                await stream.read(-1)

    asyncio.run(run())


def test_the_end_of_the_catalog_ends_a_read_that_waits(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        held, _ = watched(metastore)
        catalog = lakelog.aio.Catalog(Catalog(held, LocationStores()))
        table = await catalog.create_table("shop.t", SCHEMA)
        stream = await table.subscribe("latest", consumer_id="c")
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0.1)
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(catalog.close(), catalog.close())
            with pytest.raises(InvalidArgument, match="closed"):
                await reading
            await stream.close()
        assert stream.closed
        assert count_threads("lakelog-watch") == 0

    asyncio.run(run())


def test_a_forgotten_subscription_releases_its_consumer(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            table = await catalog.create_table("shop.t", SCHEMA)
            stream: Any = await table.subscribe("latest", consumer_id="c")
            assert await stream.read(0.1) is None
            del stream
            gc.collect()
            async with asyncio.timeout(WAIT_S):
                while (await table.consumers.list()).column("holder").to_pylist() != [None]:
                    await asyncio.sleep(0.02)

    asyncio.run(run())


def test_tables_together_come_by_commits(metastore: InProcessMetastore) -> None:
    async def run() -> None:
        async with opened(metastore) as (catalog, _):
            for name in ("shop.a", "shop.b"):
                await catalog.create_table(name, SCHEMA)
            async with catalog.subscribe(["shop.a", "shop.b"], "latest") as stream:
                assert await stream.read(0.1) is None
                for number in range(3):
                    async with catalog.transaction() as tx:
                        await (await tx.table("shop.a")).append([{"k": number}])
                        await (await tx.table("shop.b")).append([{"k": number}])
                seen = []
                async for snapshot in stream.snapshots(timeout=WAIT_S):
                    seen.append((snapshot.table, snapshot.snapshot_id))
                    if len(seen) == 6:
                        break
                assert seen == [(table, number) for number in (1, 2, 3) for table in ("shop.a", "shop.b")]

    asyncio.run(run())


def test_a_watch_that_is_closed_ends_and_one_of_a_closed_catalog_says_nothing(metastore: InProcessMetastore) -> None:
    watches = SharedWatches(metastore)
    watches.close()
    watch = watches.open(["0" * 32], complete=True, notify=lambda: None)
    events = iter(watch)
    assert next(events) is None
    watch.close()
    assert next(events, "end") == "end"
