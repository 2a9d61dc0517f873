"""The threads of one catalog, in which the blocking SDK runs while the event loop goes on.

A call takes a thread from its beginning to its end. Calls for which no thread is free wait in their order, so a service
that begins a thousand writes at once has as many running as there are threads.

Cancellation: a call that has not begun never does. One that has begun is asked to end, which it does where it has had
no effect yet (`lakelog.client.cancellation`). After that it goes on to its end, and the cancelled `await` of a change
waits for that, though not for ever: see `lakelog.aio.outcome`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, TypeVar

from lakelog.aio.outcome import note_outcome
from lakelog.client.cancellation import cancelled_by
from lakelog.client.connection.retry import CLOSED
from lakelog.errors import InvalidArgument

T = TypeVar("T")

DEFAULT_THREADS: Final = 16
"""With more, a thousand commits at once take no less time, and the event loop waits longer for Python's lock."""

_SETTLE_S: Final = 5.0
"""How long a cancelled change is waited for that has begun its effect. It takes milliseconds while the metastore
answers; without an answer a commit is repeated for minutes."""


class Workers:
    """Runs blocking calls of one catalog in threads. One event loop uses it.

    Args:
        pool: The threads.
        turn: Is held by each call while it runs.
        at_end: Called at the end of the threads, as long as someone else refers to them.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        turn: AbstractContextManager[Any] | None = None,
        at_end: weakref.WeakSet[Callable[[], None]] | None = None,
    ) -> None:
        self._pool = pool
        self._turn = turn or nullcontext()
        self.at_end: Final = weakref.WeakSet() if at_end is None else at_end

    def in_turn(self) -> Workers:
        """The same threads for the calls of one object, of which only one may run at a time.

        A call that was cancelled may still run when the next one comes, which then waits for it.
        """
        return Workers(self._pool, threading.Lock(), self.at_end)

    def lend(self) -> Workers:
        """The same threads for another catalog, which does not end them."""
        return BorrowedWorkers(self._pool, None, self.at_end)

    async def read(self, call: Callable[[], T]) -> T:
        """Runs a call without an effect; if it is cancelled, that is raised at once."""
        return await self._run(call, settle_s=0.0)

    async def change(self, call: Callable[[], T]) -> T:
        """Runs a call with an effect; if it is cancelled, the error says what became of it (`find_outcome`)."""
        return await self._run(call, settle_s=_SETTLE_S)

    async def _run(self, call: Callable[[], T], settle_s: float) -> T:
        cancelled = threading.Event()
        job = self.start(call, cancelled)
        try:
            await wait_for_job(job)
        except asyncio.CancelledError as error:
            cancelled.set()
            if not job.cancel() and settle_s:
                # A second cancellation ends the wait.
                with suppress(asyncio.CancelledError):
                    await wait_for_job(job, settle_s)
            if settle_s:
                note_outcome(error, job)
            raise
        return to_result(job)

    def start(self, call: Callable[[], T], cancelled: threading.Event | None = None) -> Future[T]:
        """Starts a call in a thread, with the context variables of the caller.

        Args:
            call: What to do.
            cancelled: Cancels it when it is set.

        Raises:
            InvalidArgument: The catalog is closed.
        """
        turn, event = self._turn, cancelled or threading.Event()

        def run() -> T:
            with turn, cancelled_by(event):
                return call()

        try:
            return self._pool.submit(contextvars.copy_context().run, run)
        except RuntimeError as error:
            raise _closed() from error

    def forget(self, call: Callable[[], object]) -> None:
        """Starts a call that cleans up, and whose end no one waits for; does nothing if the catalog is closed."""
        with suppress(InvalidArgument):
            self.start(call)

    async def close(self, end: Callable[[], object]) -> None:
        """Ends what the threads use, then waits until all of them have ended. Calls that have not begun never do.

        Args:
            end: Called in a thread of its own, since all others may be waiting for a metastore that is away.
        """
        ended: Future[None] = Future()

        def close() -> None:
            try:
                self._pool.shutdown(wait=False, cancel_futures=True)
                for each in list(self.at_end):
                    each()
                end()
                self._pool.shutdown()
            except BaseException as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)

        threading.Thread(target=close, name="lakelog-close", daemon=True).start()
        await asyncio.shield(asyncio.wrap_future(ended))


class BorrowedWorkers(Workers):
    """The threads of another catalog, which it ends."""

    async def close(self, end: Callable[[], object]) -> None:
        """Ends only what this catalog uses."""
        await self.read(end)


def open_workers(threads: int = DEFAULT_THREADS) -> Workers:
    """Starts threads, in which so many calls can run at once.

    Raises:
        InvalidArgument: It is no number of threads.
    """
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InvalidArgument(
            f"threads={threads!r:.80} is no number of threads: give 1 or more.", metadata={"field": "threads"}
        )
    pool = ThreadPoolExecutor(threads, thread_name_prefix="lakelog-aio")
    # At once: the start of a thread waits until it runs, and an event loop would wait beside those that are busy.
    all_started = threading.Barrier(threads)
    for _ in range(threads):
        pool.submit(all_started.wait)
    return Workers(pool)


async def wait_for_job(job: Future[Any], timeout_s: float | None = None) -> bool:
    """Waits for a job, whatever becomes of it; whether it is done in time. A cancellation leaves it alone."""
    answer = asyncio.wrap_future(job)
    # Its error is raised by the job itself, or no one waits for it any more.
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
    done, _ = await asyncio.wait([answer], timeout=timeout_s)
    return bool(done)


def to_result(job: Future[T]) -> T:
    """The result of a job that has ended; raises its error, or InvalidArgument if the threads ended before it began."""
    if job.cancelled():
        raise _closed()
    return job.result()


def _closed() -> InvalidArgument:
    return InvalidArgument("This catalog is closed: its threads have ended. Connect again.", reason=CLOSED)
