"""Measures now and then how many jobs wait at the metastore."""

from __future__ import annotations

import threading
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.serving.logging_setup import Logger

from .metrics import Metrics

POLL_EVERY_S: Final = 10.0
"""About as often as Prometheus scrapes; a poll is one statement over the jobs that are not done."""


class QueueWatch:
    """Polls how many jobs wait, and sets the metrics; with each job and each heartbeat, but not more often than needed.

    Thread-safe.

    Args:
        metastore: Counts the jobs.
        clock: Measures the time since the last poll.
        metrics: The measurements.
        log: Gets failures.
    """

    def __init__(self, metastore: Metastore, clock: Clock, metrics: Metrics, log: Logger) -> None:
        self._metastore = metastore
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._requested_s: float | None = None
        self._asking = threading.Lock()
        self.has_answered = False
        """Whether the metastore has ever answered; any thread may read it."""

    def poll(self) -> None:
        """Measures, if it is time and no other thread does; blocks.

        Never raises lakelog errors: a missing measurement does not stop any job.
        """
        if not self._asking.acquire(blocking=False):
            return
        try:
            now_s = self._clock.monotonic_s()
            if self._requested_s is not None and now_s - self._requested_s < POLL_EVERY_S:
                return
            self._requested_s = now_s
            self._metrics.show_queue(self._metastore.describe_queue())
            self.has_answered = True
        except LakelogError as error:
            self._log.debug("the queue was not reported", error=error.message)
        finally:
            self._asking.release()
