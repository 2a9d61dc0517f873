"""When this process opened its first channel. After that a fork runs handlers of gRPC, which crash some children."""

from __future__ import annotations

import time

first_opened_s: float | None = None
"""Seconds since the machine started, as the system gives the start times of processes; None: no channel yet."""


def note_opened() -> None:
    """Notes that a channel is opened."""
    global first_opened_s
    if first_opened_s is None:
        first_opened_s = time.clock_gettime(time.CLOCK_BOOTTIME)
