"""Handles Ctrl-C during imports, when there is nothing to clean up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_INTERRUPTED = 130
"""`lakelog.cli.failures.ExitCode.INTERRUPTED`, which cannot be imported before Ctrl-C is handled."""


@contextmanager
def silent_interrupts() -> Iterator[None]:
    """Ends the process at once on Ctrl-C, without a message.

    Imports take up to a second, and a KeyboardInterrupt inside one may come out as any error. If Ctrl-C is ignored, as
    under nohup, or another handler exists, it stays so.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_signal: int, _frame: object) -> NoReturn:
    os._exit(_INTERRUPTED)
