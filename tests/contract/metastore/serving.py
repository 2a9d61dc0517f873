"""A gRPC server over Postgres, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from prometheus_client import CollectorRegistry

from lakelog.clock import RandomIds
from lakelog.serving.access import Access
from metastore.background import Background
from metastore.postgres import PostgresStore
from metastore.server.grpc_server import MetastoreServer, ServerSettings
from metastore.server.rpc_metrics import RpcMetrics
from metastore.service import MetastoreService
from metastore.store.transaction import Store


@contextmanager
def serving(database_url: str, make_service: Callable[[Store], MetastoreService] | None = None) -> Iterator[str]:
    """Serves a migrated database for the length of the block, which is given the target."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="metastore server", daemon=True)
    thread.start()
    running = _running(database_url, make_service or _make_service)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def _running(database_url: str, make_service: Callable[[Store], MetastoreService]) -> AsyncIterator[str]:
    store = PostgresStore(database_url)
    service = make_service(store)
    background = Background(service)
    settings = ServerSettings(host="127.0.0.1", port=0, tls=None, access=Access(open=True), grace_s=2)
    server = MetastoreServer(service, store.check, settings, RpcMetrics(CollectorRegistry()), RandomIds())
    background.start()
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.drain()
        await background.stop()
        await service.close()
        await store.close()


def _make_service(store: Store) -> MetastoreService:
    return MetastoreService(store, "file:///warehouse")
