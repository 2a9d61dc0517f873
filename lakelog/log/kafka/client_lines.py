"""The messages that librdkafka prints by itself, as lines of a Python logger.

While a broker is away, each try of each client brings a line, many a second. Errors reach their callers in any case, so
of lines that differ only in numbers one a minute is enough.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final

_QUIET_S: Final = 60.0
_MOST: Final = 1000
"""The most kinds of lines that the filter remembers; librdkafka has fewer."""

_NUMBERS: Final = re.compile(r"[0-9]+")


class OncePerMinute(logging.Filter):
    """Of lines that differ only in numbers, passes the first one, and the next one a minute later.

    Args:
        monotonic_s: Reads the monotonic clock, in seconds.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._let_through_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        kind, now_s = _NUMBERS.sub("", record.getMessage()), self._monotonic_s()
        with self._lock:
            if now_s - self._let_through_s.get(kind, -_QUIET_S) < _QUIET_S:
                return False
            if len(self._let_through_s) >= _MOST:
                self._let_through_s.clear()
            self._let_through_s[kind] = now_s
        return True


LOGGER: Final = logging.getLogger("lakelog.log.kafka")
LOGGER.addFilter(OncePerMinute())
# A program without logging set up, such as a typed command, would print them between its own lines.
LOGGER.addHandler(logging.NullHandler())
