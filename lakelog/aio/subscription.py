"""Subscriptions for asyncio: no thread waits for a batch, however many of them are open.

One thread of the catalog waits for the commits of all (`lakelog.aio.watches`), and wakes the event loop. Then a thread
of the workers reads until there is a batch, or until there is nothing more. So what is not read costs nothing, and a
slow reader stops only itself. Two kinds of subscriptions have a thread of their own: those that a reader service reads,
and those of uncommitted rows in a log.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress

from lakelog.aio.workers import Workers, to_result, wait_for_job
from lakelog.errors import InvalidArgument
from lakelog.reads.streams.batch import SnapshotChanges, StreamBatch
from lakelog.reads.streams.subscription import SnapshotParts, check_wait
from lakelog.reads.streams.subscription import Subscription as BlockingSubscription
from lakelog.storage.parquet.read_counts import ReadMetrics


class Subscription:
    """The changes of tables as they come: `async for batch in stream`. One task reads, any may close it.

    It ends when it is closed, or at the end that the options set. The position moves when the next batch is requested;
    without `auto_commit` only by `commit`. A read that is cancelled loses nothing: the next one returns its batch.

    Args:
        blocking: The subscription of the blocking SDK, open, and made for a reader that never waits.
        workers: The threads of the catalog.
    """

    def __init__(self, blocking: BlockingSubscription, workers: Workers) -> None:
        self._blocking = blocking
        self._workers = workers
        self._in_turn = workers.in_turn()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        # A read in a thread, whose task may have been cancelled.
        self._reading: Future[StreamBatch | None] | None = None
        waker = _Waker(self._loop, self._woken)
        blocking.listen(waker)
        workers.at_end.add(waker)
        if blocking.keep_every_s is not None:
            _renew_later(weakref.ref(self), self._loop, blocking.keep_every_s)

    def __repr__(self) -> str:
        return repr(self._blocking)

    def __del__(self) -> None:
        # Not here: a thread that the event loop runs in must not wait for the metastore.
        if not self._blocking.closed:
            self._workers.forget(self._blocking.close)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> StreamBatch:
        batch = None if self._blocking.closed else await self.read()
        if batch is None:
            raise StopAsyncIteration
        return batch

    @property
    def position(self) -> int | None:
        """The last snapshot that is done; as of `lakelog.Subscription`."""
        return self._blocking.position

    @property
    def positions(self) -> dict[str, int]:
        """The last snapshot that is done, by table; as of `lakelog.Subscription`."""
        return self._blocking.positions

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far, and what was skipped; as of `lakelog.Subscription`."""
        return self._blocking.metrics

    @property
    def is_whole(self) -> bool:
        """Whether the last batch ends a commit, so that `commit` would move past it."""
        return self._blocking.is_whole

    @property
    def ended(self) -> bool:
        """Whether no more batches will come."""
        return self._blocking.ended

    @property
    def closed(self) -> bool:
        """Whether it was closed, so that the position can no longer be moved by `commit`."""
        return self._blocking.closed

    async def read(self, timeout: float | None = None) -> StreamBatch | None:
        """Returns the next batch; arguments, result and errors as of `lakelog.Subscription.read`.

        If it is cancelled, the next call returns the batch that it would have returned.
        """
        check_wait(timeout)
        end_s = None if timeout is None else self._loop.time() + timeout
        while True:
            is_read, batch = await self._read_ready(end_s)
            if batch is not None or not is_read or self.ended:
                return batch
            if not await self._wait(end_s):
                return None

    async def _read_ready(self, end_s: float | None) -> tuple[bool, StreamBatch | None]:
        """Reads in a thread what is there; False: it is not done in time, and the next read goes on with it."""
        if self._reading is None:
            # What comes from now on wakes the reader again.
            self._woken.clear()
            self._reading = self._in_turn.start(self._blocking.read_ready)
        reading = self._reading
        if not await wait_for_job(reading, self._left_s(end_s)):
            return False, None
        self._reading = None
        return True, to_result(reading)

    async def _wait(self, end_s: float | None) -> bool:
        """Waits until something may have come; False: not in time."""
        try:
            async with asyncio.timeout_at(end_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    def _left_s(self, end_s: float | None) -> float | None:
        # One look is always taken, as by the blocking SDK with a timeout of 0.
        return None if end_s is None else max(end_s - self._loop.time(), 0.05)

    async def snapshots(self, timeout: float | None = None) -> AsyncGenerator[SnapshotChanges]:
        """Yields whole snapshots; as of `lakelog.Subscription.snapshots`."""
        parts = SnapshotParts()
        while (batch := None if self._blocking.closed else await self.read(timeout)) is not None:
            for snapshot in parts.add(batch, self.is_whole):
                yield snapshot
        if not self.ended:
            parts.check_end(repr(self._blocking), timeout)

    async def commit(self) -> None:
        """Moves the position past the batches handed out so far; as of `lakelog.Subscription.commit`."""
        await self._in_turn.change(self._blocking.commit)

    async def close(self) -> None:
        """Ends the subscription; the position stays where it is. Idempotent."""
        if self._blocking.closed:
            return
        try:
            # Not in turn: this ends a read that is running.
            await self._workers.change(self._blocking.close)
        except InvalidArgument:
            # The threads have ended together with the catalog.
            await asyncio.to_thread(self._blocking.close)


async def open_subscription(subscribe: Callable[[], BlockingSubscription], workers: Workers) -> Subscription:
    """Opens a subscription in a thread. If that is cancelled, what it opens is closed when it is forgotten."""
    return Subscription(await workers.read(subscribe), workers)


class _Waker:
    """Wakes a reader in its event loop, from any thread. It has no reference to the subscription."""

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        self._loop = loop
        self._woken = woken

    def __call__(self) -> None:
        # A loop that is closed has no reader.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)


def _renew_later(stream: weakref.ref[Subscription], loop: asyncio.AbstractEventLoop, every_s: float) -> None:
    """Reports the reader's presence every so many seconds, until it is closed or forgotten."""

    def renew() -> None:
        found = stream()
        if found is None or found.ended:
            return
        found._workers.forget(found._blocking.renew)
        loop.call_later(every_s, renew)

    loop.call_later(every_s, renew)
