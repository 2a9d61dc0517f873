"""Work that one thread does in order, and that does not keep a program from ending."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_Work = Callable[[], None]


class OrderedWork:
    """Runs submitted work in order; its thread ends with the last reference to this object. For many threads.

    Executors of the standard library finish their work before the interpreter exits. Work that waits for unavailable
    brokers would keep a finished program alive for minutes.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        weakref.finalize(self, self._waiting.put, None).atexit = False
        threading.Thread(target=_run, args=(self._waiting,), name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Runs work after all that was submitted before; does not wait."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._waiting.put(work)
        return future


def _run(waiting: queue.SimpleQueue[_Work | None]) -> None:
    while (work := waiting.get()) is not None:
        work()
        # The reference would keep the submitter alive, whose end is to end the thread.
        del work
