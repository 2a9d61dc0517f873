"""When this process opened its first channel: from then on a fork runs handlers of gRPC, which crash some children."""

from __future__ import annotations

import time

first_opened_s: float | None = None
"""In seconds since the machine began, as times of processes are told; None: there was none."""


def note_opened() -> None:
    """Notes that a channel is opened."""
    global first_opened_s
    if first_opened_s is None:
        first_opened_s = time.clock_gettime(time.CLOCK_BOOTTIME)
