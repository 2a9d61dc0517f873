"""How long who reads a log waits for what should be there, before the files are read in its place."""

from __future__ import annotations

import time
from typing import Final

STALL_S: Final = 10.0
"""So long nothing may happen: else the publisher or the brokers stand still, and the files are there."""


class LogStallTimer:
    """Counts from the last time that something happened, so that neither slow brokers nor busy readers end it.

    Something has happened when records have come, when offsets without any were passed, and when what was handed out
    has been taken: who takes it may have been busy with it for as long.
    """

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def renew(self) -> None:
        """Something has happened."""
        self._since_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing has happened for too long."""
        return time.monotonic() - self._since_s > STALL_S
