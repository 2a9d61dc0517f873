"""How a service's process is told to end, and how it leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def on_signals(stop: Callable[[], None], is_stopping: Callable[[], bool]) -> None:
    """Has SIGTERM and SIGINT stop the service; whoever asks twice ends the process at once. From the main thread.

    Args:
        stop: Tells it to end in good order; soon done, since it runs in between anything.
        is_stopping: Whether it was told before. What is in hand is done again by the next run, once.
    """

    def on_signal(number: int, _frame: object) -> None:
        if is_stopping():
            os._exit(128 + number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def leave(code: int) -> NoReturn:
    """Ends the process though threads still wait for something; everything must be closed by now."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
