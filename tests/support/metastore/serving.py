"""A gRPC server over Postgres or memory, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from prometheus_client import CollectorRegistry

from lakelog.clock import RandomIds, SystemClock
from lakelog.serving.access import Access
from metastore.background import Background
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.server.grpc_server import MetastoreServer, ServerSettings
from metastore.server.rpc_metrics import RpcMetrics
from metastore.store.transaction import Store
from metastore.use_cases import UseCases


@contextmanager
def serving(
    database_url: str | None,
    make_use_cases: Callable[[Store], UseCases] | None = None,
    access: Access | None = None,
) -> Iterator[str]:
    """Serves a migrated database, or memory if none is given, for the length of the block, which gets the target."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="metastore server", daemon=True)
    thread.start()
    running = _running(database_url, make_use_cases or _make_use_cases, access or Access(open=True))
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def _running(
    database_url: str | None, make_use_cases: Callable[[Store], UseCases], access: Access
) -> AsyncIterator[str]:
    store = MemoryStore(SystemClock()) if database_url is None else PostgresStore(database_url)
    use_cases = make_use_cases(store)
    background = Background(use_cases)
    settings = ServerSettings(host="127.0.0.1", port=0, tls=None, access=access, grace_s=2)
    server = MetastoreServer(use_cases, _Probe(store), settings, RpcMetrics(CollectorRegistry()), RandomIds())
    background.start()
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.drain()
        await background.stop()
        await use_cases.close()
        await store.close()


class _Probe:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def ping(self) -> None:
        if isinstance(self._store, PostgresStore):
            await self._store.check()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _make_use_cases(store: Store) -> UseCases:
    return UseCases(store, "file:///warehouse")
