"""A thread that writes beside its caller, in order, and makes a faster caller wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

WRITER_QUEUE_DEPTH: Final = 2


class WriterThread:
    """A thread that does its work in order; a caller that submits too much waits."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._waiting: list[Future[None]] = []
        self._stays_here = False

    def stay_here(self) -> None:
        """Lets the caller do the following work, unless the thread runs already."""
        self._stays_here = self._executor is None

    def submit(self, work: Callable[[], None]) -> None:
        """Does the work after all earlier work; blocks while the thread has `WRITER_QUEUE_DEPTH` items left."""
        if self._stays_here:
            work()
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="lakelog-write")
        while len(self._waiting) >= WRITER_QUEUE_DEPTH:
            self._waiting.pop(0).result()
        self._waiting.append(self._executor.submit(work))

    def check(self) -> None:
        """Raises the error of finished work."""
        while self._waiting and self._waiting[0].done():
            self._waiting.pop(0).result()

    def wait(self) -> None:
        """Blocks until all is done; raises the first error."""
        while self._waiting:
            self._waiting.pop(0).result()

    def close(self) -> None:
        """Waits for all work, then ends the thread."""
        try:
            self.wait()
        finally:
            if self._executor is not None:
                self._executor.shutdown()

    def cancel(self) -> None:
        """Ends the thread after its current work."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._waiting = []
