"""The life of a catalog in an event loop: its threads, its watches, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Self, TypeVar

from lakelog.aio.watches import SharedWatches
from lakelog.aio.workers import Workers, open_workers
from lakelog.aio.wrapped import Wrapped
from lakelog.sdk.catalog import Catalog as BlockingCatalog

C = TypeVar("C", bound=BlockingCatalog)


class OpenCatalog(Wrapped[C]):
    """What a catalog does besides calling the blocking SDK.

    Args:
        blocking: The catalog of the blocking SDK, which is closed together with this one.
        workers: Its threads; None: its own.
    """

    def __init__(self, blocking: C, workers: Workers | None = None) -> None:
        self._watches = SharedWatches(blocking.metastore)
        super().__init__(blocking.with_ready_watches(self._watches), workers or open_workers())
        self._life: AsyncGenerator[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.live()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def live(self) -> None:
        """Has the event loop close this catalog when `asyncio.run` ends, if the program does not."""
        if self._life is None:
            self._life = self._live()
            await anext(self._life)

    async def _live(self) -> AsyncGenerator[None]:
        # A generator that waits is what an event loop finds and ends at its own end.
        try:
            yield
        finally:
            await self._workers.close(self._end)

    def catalog(self, name: str) -> Self:
        """Another catalog of the file LAKELOG_CATALOGS, or this one by its own name; as of `lakelog.Catalog.catalog`.

        It uses the threads of this one.
        """
        found = self._blocking.catalog(name)
        return self if found is self._blocking else type(self)(found, self._workers.lend())

    async def close(self) -> None:
        """Ends the connections and the threads, and waits for them; idempotent.

        Await what is running before: a call whose connection ends raises Unavailable, or OutcomeUnknown if it is a
        write. Calls that wait for a thread, and reads of subscriptions, raise InvalidArgument.
        """
        await self.live()
        assert self._life is not None, "it lives"
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._life.aclose())
        await asyncio.shield(self._closing)

    def _end(self) -> None:
        self._blocking.close()
        self._watches.close()
