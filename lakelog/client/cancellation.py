"""Cancels a call that blocks in another thread, at places where it can end without an effect.

Work that can be cancelled calls `check_cancelled` between its steps, and for the last time before its effect begins. So
a cancelled call either had no effect, or goes on to its end. Threads that a call starts are not cancelled: they end
with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_cancelled: Final[ContextVar[threading.Event | None]] = ContextVar("lakelog_cancelled", default=None)


class CallCancelled(BaseException):
    """The call was cancelled before it had an effect. Like an interrupt, it is no error that is handled on the way."""


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Lets an event cancel what the block calls, in this thread."""
    token = _cancelled.set(event)
    try:
        yield
    finally:
        _cancelled.reset(token)


def check_cancelled() -> None:
    """Raises CallCancelled if the running call was cancelled."""
    event = _cancelled.get()
    if event is not None and event.is_set():
        raise CallCancelled("The call was cancelled, and had no effect.")
