"""Notes of long calls on what they do and how far they are; a display shows them once they last longer than a second.

Nothing is shown unless a display was set, as the command does on a terminal, or the program is a notebook. A note costs
an addition. Inside a call that is shown no other one is: the outermost says what the user waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lakelog.progress.notebook import find_notebook
from lakelog.progress.work import Display, Work

DELAY_S: Final = 1.0

_display: ContextVar[Display | None] = ContextVar("display", default=None)
_current: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Has a display show the works of the block."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def track(title: str, unit: str = "", total: int | None = None) -> Iterator[Work]:
    """A work that lasts as long as the block; arguments as of `Work`. Not around a `yield` to a caller."""
    work = Work(title, unit, total)
    display = None if _current.get() is not None else _display.get() or find_notebook()
    token = _current.set(work)
    try:
        if display is None:
            yield work
        else:
            with _delayed(display, work):
                yield work
    finally:
        _current.reset(token)


def current_work() -> Work | None:
    """The innermost work of this thread; None: none."""
    return _current.get()


@contextmanager
def _delayed(display: Display, work: Work) -> Iterator[None]:
    lock = threading.Lock()
    ends: list[Callable[[], None]] = []
    is_over = False

    def begin() -> None:
        with lock:
            if not is_over:
                ends.append(display(work))

    timer = threading.Timer(DELAY_S, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            is_over = True
            for end in ends:
                end()
