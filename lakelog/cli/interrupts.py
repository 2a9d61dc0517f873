"""Handles Ctrl-C: during imports, when there is nothing to clean up, and while threads wait for a store."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

_INTERRUPTED = 130
"""`lakelog.cli.failures.ExitCode.INTERRUPTED`, which cannot be imported before Ctrl-C is handled."""


@contextmanager
def silent_interrupts() -> Iterator[None]:
    """Ends the process at once on Ctrl-C, without a message. Afterwards Ctrl-C is a KeyboardInterrupt.

    Imports take up to a second, and a KeyboardInterrupt inside one may come out as any error. If Ctrl-C is ignored, as
    under nohup, or another handler exists, it stays so.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _interrupt):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _interrupt)


def _leave(_signal: int, _frame: object) -> NoReturn:
    os._exit(_INTERRUPTED)


_left_threads: Final = threading.Event()


def leave_threads() -> None:
    """Lets the end of this process wait for no thread: one hangs, in a library that waits for it at the end."""
    _left_threads.set()


def leave(code: int) -> NoReturn:
    """Ends the process with this code.

    If calls of a store have no answer yet, nothing waits for them: pyarrow would, at the end of Python, for minutes.
    """
    calls = sys.modules.get("lakelog.storage.objects.calls")
    if _left_threads.is_set() or (calls is not None and calls.CALLS.left):
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raises KeyboardInterrupt here, and ends the calls of a store in other threads, for which its handling waits."""
    # The module is imported only by commands that use a store.
    calls = sys.modules.get("lakelog.storage.objects.calls")
    if calls is not None:
        calls.CALLS.interrupt()
    signal.default_int_handler(number, frame)
