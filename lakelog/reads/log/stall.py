"""How long a reader of a log waits for missing records before it reads the files instead."""

from __future__ import annotations

import time
from typing import Final

STALL_S: Final = 10.0
"""Without any progress for this long, the publisher or the brokers are stuck, and the files are there."""


class LogStallTimer:
    """Measures the time since the last progress, so that neither slow brokers nor busy readers end the wait.

    Progress means: records arrived, offsets without records were passed, or the caller took what it was handed, because
    the caller may have been busy with that.
    """

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def renew(self) -> None:
        """Notes progress."""
        self._since_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether there was no progress for too long."""
        return time.monotonic() - self._since_s > STALL_S
