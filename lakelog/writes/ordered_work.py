"""Work that one thread does in its order, and that keeps no program from ending."""

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
    """Does what is submitted, one after the other; its thread ends with the last reference to this. For many threads.

    Executors of the standard library have their work done to its end before the interpreter leaves: what waits for
    brokers that are away would keep a program for minutes that has long done all it wanted.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        weakref.finalize(self, self._waiting.put, None).atexit = False
        threading.Thread(target=_run, args=(self._waiting,), name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Has something done behind all that was submitted before; does not wait."""
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
        # It holds whoever submitted it, whose end is the thread's.
        del work
