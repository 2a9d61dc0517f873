"""Places of subscriptions: whoever has gone, whoever takes nothing and whoever is done hold no more than theirs."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import structlog
from prometheus_client import CollectorRegistry

from lakelog.clock import RandomIds, SystemClock
from lakelog.reads.streams.open_stream import OpenStream, open_stream
from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from reader.subscriptions.metrics import SubscriptionMetrics
from reader.subscriptions.servicer import ReaderServicer

WITHIN_S = 10.0
ITEMS = pa.schema([pa.field("id", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    catalog.create_table("shop.items", ITEMS).append(pa.table({"id": [1, 2]}, ITEMS))
    yield catalog
    metastore.close()


class Client:
    """The call of a client, as the servicer sees it."""

    def __init__(self, options: dict[str, str] | None = None, *, takes: int = 1000) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: list[str | None] = []
        self.refusal = ""
        self._takes = takes
        start = reader_pb2.SubscribeStart(tables=[reader_pb2.StreamTable(name="shop.items")], options=options or {})
        self.requests.put_nowait(reader_pb2.SubscribeRequest(start=start))

    async def read(self) -> Any:
        return await self.requests.get()

    async def write(self, answer: reader_pb2.SubscribeResponse) -> None:
        if len(self.answers) >= self._takes:
            await asyncio.Event().wait()
        self.answers.append(answer.WhichOneof("response"))

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, message: str) -> None:
        self.refusal = message

    def set_trailing_metadata(self, metadata: object) -> None: ...

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def auth_context(self) -> dict[str, Any]:
        return {}

    def peer(self) -> str:
        return "test"


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not what():
            await asyncio.sleep(0.01)


def run(catalog: Catalog, test: Callable[[ReaderServicer], Awaitable[None]], **settings: Any) -> None:
    async def serve() -> None:
        servicer = ReaderServicer(
            catalog,
            Access(open=True),
            **{"max_subscriptions": 1, "caller_share": 1.0, **settings},
            holder="test",
            metrics=SubscriptionMetrics(CollectorRegistry()),
            log=structlog.get_logger(),
            ids=RandomIds(),
            draining=asyncio.Event(),
        )
        await test(servicer)

    asyncio.run(serve())


def test_a_place_is_free_when_no_one_reads_for_it_any_more(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def open_slowly(*args: Any, **more: Any) -> OpenStream:
        begun.set()
        assert go_on.wait(WITHIN_S)
        return open_stream(*args, **more)

    async def come_and_go(servicer: ReaderServicer) -> None:
        monkeypatch.setattr("reader.subscriptions.servicer.open_stream", open_slowly)
        call = asyncio.ensure_future(servicer.Subscribe(None, Client()))  # type: ignore[arg-type]
        await until(begun.is_set)
        call.cancel()
        await asyncio.wait([call])
        second = Client()
        await servicer.Subscribe(None, second)  # type: ignore[arg-type]
        assert "has 1 subscriptions open, which is its limit" in second.refusal
        go_on.set()
        await until(lambda: servicer.used_slots == 0)
        third = Client()
        call = asyncio.ensure_future(servicer.Subscribe(None, third))  # type: ignore[arg-type]
        await until(lambda: "progress" in third.answers)
        third.requests.put_nowait(grpc.aio.EOF)
        await call
        await until(lambda: servicer.used_slots == 0)

    run(catalog, come_and_go)


@pytest.mark.parametrize("error", [ValueError("odd"), grpc.aio.EOF])
def test_any_process_that_does_not_begin_gives_its_place_back(catalog: Catalog, error: Any) -> None:
    async def leave(servicer: ReaderServicer) -> None:
        client = Client()
        client.requests = asyncio.Queue()
        client.requests.put_nowait(reader_pb2.SubscribeRequest() if error is not grpc.aio.EOF else error)
        await servicer.Subscribe(None, client)  # type: ignore[arg-type]
        assert bool(client.refusal) == (error is not grpc.aio.EOF)
        assert servicer.used_slots == 0

    run(catalog, leave)


def test_a_stream_at_its_end_does_not_hold_its_place_for_ever(catalog: Catalog) -> None:
    catalog.table("shop.items").append(pa.table({"id": [3]}, ITEMS), watermark=9)

    async def stay(servicer: ReaderServicer) -> None:
        client = Client({"scan.mode": "from-timestamp", "scan.timestamp-millis": "0", "scan.bounded.watermark": "5"})
        async with asyncio.timeout(WITHIN_S):
            await servicer.Subscribe(None, client)  # type: ignore[arg-type]
        assert client.answers[-1] == "ended"
        await until(lambda: servicer.used_slots == 0)

    run(catalog, stay, linger_s=0.1)


def test_any_process_that_takes_no_answers_is_not_heard_any_further(catalog: Catalog) -> None:
    async def flood(servicer: ReaderServicer) -> None:
        client = Client({"consumer-id": "etl"}, takes=1)
        call = asyncio.ensure_future(servicer.Subscribe(None, client))  # type: ignore[arg-type]
        await until(lambda: bool(client.answers))
        keep = reader_pb2.KeepPositions(positions=[reader_pb2.StreamPosition(table="shop.items", snapshot_id=1)])
        for _ in range(100):
            client.requests.put_nowait(reader_pb2.SubscribeRequest(keep=keep))
        await until(lambda: client.requests.qsize() < 99)
        await asyncio.sleep(0.3)
        assert client.requests.qsize() >= 97
        (pump,) = servicer.pumps
        assert pump.outgoing.qsize() <= 3
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: servicer.used_slots == 0)

    run(catalog, flood)


class Odd:
    """A first message that begins nothing."""

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "keep"


@pytest.mark.parametrize("forgets", [True, False], ids=["protected", "control"])
def test_a_refused_request_is_freed_at_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, forgets: bool) -> None:
    """Else refused requests of megabytes pile up until the garbage collector runs."""
    if not forgets:
        monkeypatch.setattr("reader.subscriptions.servicer.forget_frames", lambda _: None)

    async def refuse(servicer: ReaderServicer) -> None:
        client, odd = Client(), Odd()
        client.requests = asyncio.Queue()
        client.requests.put_nowait(odd)
        request = weakref.ref(odd)
        del odd
        gc.collect()
        gc.disable()
        try:
            await servicer.Subscribe(None, client)  # type: ignore[arg-type]
            assert "The first message has no start" in client.refusal
            assert (request() is None) == forgets
        finally:
            gc.enable()

    run(catalog, refuse)
