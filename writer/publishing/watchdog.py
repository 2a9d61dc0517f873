"""Ends the process when a step does not return (reliability R6), or when too many calls hang.

There is no timeout for the end of a transaction, because its outcome would be unknown. If it does not end, a new
process finds the outcome by its first start. Other hanging calls are abandoned, and their resources are freed only when
the process ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from lakelog.clock import Clock
from lakelog.serving.logging_setup import Logger

_POLL_EVERY_S: Final = 5.0

_MOST_HANGING: Final = 200
"""Each is a client that is no longer used: some threads, connections and megabytes."""

STUCK: Final = 9
"""The exit code."""


class Watchdog:
    """Knows how long each table's step has been running.

    Args:
        max_unavailable_s: How long one may take.
        clock: For the time.
        log: For the last line.
        leave: Ends the process with a code.
        count_hanging: How many calls were given up and have not returned.
    """

    def __init__(
        self,
        max_unavailable_s: float,
        clock: Clock,
        log: Logger,
        leave: Callable[[int], None] = os._exit,
        count_hanging: Callable[[], int] = lambda: 0,
    ) -> None:
        self._max_unavailable_s: Final = max_unavailable_s
        self._clock = clock
        self._log = log
        self._leave = leave
        self._count_hanging = count_hanging
        self._since_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begins to watch, in its own thread."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self, table: str) -> None:
        """Records that a step of a table begins."""
        with self._lock:
            self._since_s[table] = self._clock.monotonic_s()

    def end(self, table: str) -> None:
        """Records that the step has returned."""
        with self._lock:
            self._since_s.pop(table, None)

    def poll(self) -> None:
        """Checks once."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            stuck = {table: now_s - since_s for table, since_s in self._since_s.items()}
        for table, lasts_s in stuck.items():
            if lasts_s > self._max_unavailable_s:
                self._log.error(
                    "a step does not come back, so that this process ends; another goes on",
                    table=table,
                    seconds=round(lasts_s),
                )
                self._leave(STUCK)
        hanging = self._count_hanging()
        if hanging > _MOST_HANGING:
            self._log.error("too many calls of brokers were left hanging, so that this process ends", calls=hanging)
            self._leave(STUCK)

    def _watch(self) -> None:
        while True:
            self._clock.sleep(_POLL_EVERY_S)
            self.poll()
