"""How a service's process is stopped, and how it exits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from lakelog.tracing import spans


def on_signals(stop: Callable[[], None], is_stopping: Callable[[], bool]) -> None:
    """Makes SIGTERM and SIGINT stop the service; a second signal ends the process at once. From the main thread.

    Args:
        stop: Starts an orderly end; must be quick, since it interrupts other code.
        is_stopping: Whether a stop has begun. The next run repeats unfinished work; it takes effect once.
    """

    def on_signal(number: int, _frame: object) -> None:
        if is_stopping():
            os._exit(128 + number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def catch_signals() -> asyncio.Event:
    """As `on_signals`, for a service in the event loop that runs here: the first signal sets the event."""
    signalled = asyncio.Event()

    def on_signal(number: int) -> None:
        if signalled.is_set():
            os._exit(128 + number)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, int(number))
    return signalled


def leave(code: int) -> NoReturn:
    """Ends the process although threads still wait; close everything before."""
    spans.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
