"""Calls of a distant store that end in time: a thread beside the caller waits for the store, so the caller can leave.

Calls of pyarrow's file systems cannot be stopped, and a store that sends a byte now and then keeps them for hours. So
a caller waits for its thread only until a deadline, or until Ctrl-C. The thread that it leaves ends when the store
answers or the connection breaks. Few may be left: then further calls are refused at once, which bounds the memory.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

MOST_LEFT: Final = 32
"""How many calls without an answer may be left at once; each holds at most one range of a file."""

_IDLE_S: Final = 30.0
"""How long a thread without work stays."""


class NoAnswerError(Exception):
    """The store has not answered in time; the call may still have an effect."""


class InterruptedCallError(NoAnswerError):
    """The user has cancelled."""


class Calls:
    """Threads for calls, as many as there are calls at once. Any thread may use it, also after a fork."""

    def __init__(self) -> None:
        self._begin()
        # In a child the threads are missing, and the lock may be held by one of them.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._waiting: set[Future[Any]] = set()
        self._idle = 0
        self._left = 0

    @property
    def left(self) -> int:
        """How many calls run on without a caller."""
        return self._left

    def run(self, work: Callable[[], Result], timeout_s: float) -> Result:
        """Returns the result of a call, or raises its error. Blocks; Ctrl-C ends the wait.

        Args:
            work: The call. It may run on after this has raised, so it must not use what the caller then changes.
            timeout_s: How long to wait.

        Raises:
            NoAnswerError: It took longer, or too many calls have no answer.
            InterruptedCallError: `interrupt` was called meanwhile.
        """
        if self._left >= MOST_LEFT:
            raise NoAnswerError(f"{MOST_LEFT} earlier calls have no answer")
        future: Future[Result] = Future()
        answer: Future[bool] = Future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                # Python waits at its end for threads that are no daemons.
                threading.Thread(target=self._serve, name="lakelog-store", daemon=True).start()
            self._waiting.add(answer)
        self._work.put((future, work))
        future.add_done_callback(lambda _: _settle(answer))
        try:
            is_answered = answer.result(timeout_s)
        except TimeoutError:
            self._leave(future)
            raise NoAnswerError(f"no answer within {timeout_s:.0f} s") from None
        except BaseException:
            self._leave(future)
            raise
        finally:
            with self._lock:
                self._waiting.discard(answer)
        if not is_answered:
            self._leave(future)
            raise InterruptedCallError("it was interrupted")
        return future.result()

    def interrupt(self) -> None:
        """Ends the waits of all threads, as if their calls had no answer: the user of the program has cancelled."""
        # No lock: this runs in the handler of a signal, and the thread that it interrupts may hold the lock.
        for answer in list(self._waiting):
            _settle(answer, is_answered=False)

    def _leave(self, future: Future[Any]) -> None:
        with self._lock:
            self._left += 1
        future.add_done_callback(self._return)

    def _return(self, _: Future[Any]) -> None:
        with self._lock:
            self._left -= 1

    def _serve(self) -> None:
        while True:
            try:
                future, work = self._work.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    # Without an idle thread somebody counts on this one.
                    if self._idle:
                        self._idle -= 1
                        return
                continue
            try:
                result = work()
            except BaseException as error:
                self._end(future, error)
            else:
                self._end(future, None, result)
            # Both may be large.
            del future, work

    def _end(self, future: Future[Any], error: BaseException | None, result: object = None) -> None:
        with self._lock:
            self._idle += 1
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _settle(answer: Future[bool], *, is_answered: bool = True) -> None:
    # Whichever comes first counts: the answer or the interrupt.
    with contextlib.suppress(InvalidStateError):
        answer.set_result(is_answered)


CALLS: Final = Calls()
"""The threads of this process."""
