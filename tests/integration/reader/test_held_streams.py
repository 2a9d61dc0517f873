"""Calls and subscriptions that clients hold, do not read or leave: others go on, and all that they took is given back.

The server runs in this process, over a metastore in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import structlog
from prometheus_client import CollectorRegistry

from lakelog.clock import RandomIds, SystemClock
from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access
from lakelog.serving.edge import probes
from lakelog.serving.edge.shares import ShareLimits
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from reader.subscriptions.metrics import SubscriptionMetrics
from reader.subscriptions.server import ReaderServer, ServerSettings

PLACES = 24
ITEMS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
SUBSCRIBE = "/lakelog.rpc.v1.ReaderService/Subscribe"


class Running:
    """The service, on an event loop of its own."""

    def __init__(self, catalog: Catalog) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.server: ReaderServer = self._run(self._start(catalog))
        self.target = f"127.0.0.1:{self.server.port}"

    async def _start(self, catalog: Catalog) -> ReaderServer:
        settings = ServerSettings("127.0.0.1", 0, None, Access(open=True), PLACES, 1.0, "r", 1.0)
        metrics = SubscriptionMetrics(CollectorRegistry())
        server = ReaderServer(catalog, settings, metrics, structlog.get_logger(), RandomIds())
        await server.start()
        return server

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def stop(self) -> None:
        self._run(self.server.drain())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    items = catalog.create_table("shop.items", ITEMS)
    # More than the 8 MiB that are ready to be sent before they are read.
    items.append(pa.table({"id": range(20_000), "v": ["x" * 1000] * 20_000}, ITEMS))
    yield catalog
    metastore.close()


@pytest.fixture
def start_service(catalog: Catalog) -> Iterator[Callable[[], Running]]:
    with contextlib.ExitStack() as stack:

        def start() -> Running:
            running = Running(catalog)
            stack.callback(running.stop)
            return running

        yield start


@contextlib.contextmanager
def connect(service: Running) -> Iterator[grpc.Channel]:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(service.target, options=options) as channel:
        yield channel


def subscribe(channel: grpc.Channel, left: threading.Event, condition: str = "") -> Any:
    def messages() -> Iterator[bytes]:
        table = reader_pb2.StreamTable(name="shop.items", filter=condition or None)
        start = reader_pb2.SubscribeStart(tables=[table], max_bytes=64 << 20)
        yield reader_pb2.SubscribeRequest(start=start).SerializeToString()
        left.wait(120)

    made: Any = channel.stream_stream(SUBSCRIBE)
    return made(messages(), timeout=120)


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


def reading_threads() -> int:
    return sum(each.name == "subscription" for each in threading.enumerate())


@pytest.mark.parametrize("bounded", [True, False], ids=["protected", "control"])
def test_health_checks_without_a_token_take_a_few_places_of_a_connection(
    start_service: Callable[[], Running], monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    if not bounded:
        monkeypatch.setattr(probes, "OF_PROBES", ShareLimits("health checks", "nothing", 1 << 60, 1 << 60, 1 << 60, 0))
    service, left = start_service(), threading.Event()
    with connect(service) as first, connect(service) as other:
        watch: Any = first.unary_stream("/grpc.health.v1.Health/Watch")
        held = [watch(b"") for _ in range(60)]
        open_probes = service.server._probes._open
        wait_until(lambda: open_probes.open_count == (16 if bounded else 60))
        wait_until(lambda: sum(each.done() for each in held) == 60 - open_probes.open_count)
        reflection: Any = first.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        if bounded:
            with pytest.raises(grpc.RpcError, match="has 16 health checks open"):
                list(reflection(iter(()), timeout=30))
        check: Any = other.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=30)
        running = subscribe(other, left)
        assert next(running)
        running.cancel()
        for each in held:
            each.cancel()
        wait_until(lambda: open_probes.open_count == 0)
        left.set()


def test_subscriptions_that_are_not_read_or_are_left_keep_no_others_waiting(
    start_service: Callable[[], Running],
) -> None:
    """They have filters, and are opened again and again."""
    service, left = start_service(), threading.Event()
    servicer = service.server._servicer
    with connect(service) as other:
        reading = subscribe(other, left)
        assert next(reading)
        for _ in range(2):
            with connect(service) as first:
                unread = [subscribe(first, left, f"id >= {number}") for number in range(40)]
                # One place is the other caller's.
                wait_until(lambda unread=unread: sum(each.done() for each in unread) == 40 - (PLACES - 1))  # type: ignore[misc]
                wait_until(lambda: service.server.subscription_count == PLACES)
                assert next(reading)
                for pump in list(servicer.pumps):
                    assert pump._unsent.sent_bytes <= 16 << 20
            wait_until(lambda: servicer.used_slots == 1)
            wait_until(lambda: reading_threads() <= 1)
        more = subscribe(other, left, "id = 5")
        assert next(more)
        more.cancel()
        reading.cancel()
        wait_until(lambda: servicer.used_slots == 0 and reading_threads() == 0)
        left.set()
