"""What waits at the metastore, measured now and then."""

from __future__ import annotations

import threading
from typing import Final

from lakelog.client.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.serving.logs import Log

from .metrics import Metrics

LOOK_EVERY_S: Final = 10.0
"""As often as Prometheus asks, about; one statement over the jobs that are not done."""


class QueueWatch:
    """Asks how many jobs wait, and sets the metrics; with each job and each heartbeat, but not more often than needed.

    Thread-safe.

    Args:
        metastore: Who has the jobs.
        clock: For the time since it was asked.
        metrics: What is measured.
        log: For what goes wrong.
    """

    def __init__(self, metastore: Metastore, clock: Clock, metrics: Metrics, log: Log) -> None:
        self._metastore = metastore
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._asked_s: float | None = None
        self._asking = threading.Lock()

    def look(self) -> None:
        """Measures, if it is time and no other thread does; blocks.

        Never raises lakelog errors: what waits matters to nobody at work.
        """
        if not self._asking.acquire(blocking=False):
            return
        try:
            now_s = self._clock.monotonic_s()
            if self._asked_s is not None and now_s - self._asked_s < LOOK_EVERY_S:
                return
            self._asked_s = now_s
            self._metrics.show_queue(self._metastore.describe_queue())
        except LakelogError as error:
            self._log.debug("the queue was not told", error=error.message)
        finally:
            self._asking.release()
