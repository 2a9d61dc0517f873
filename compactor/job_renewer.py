"""Renews the lease of a job while the job is done.

The lease only schedules. Its epoch protects the table, because the metastore checks the epoch with each effect. So a
lost heartbeat does no harm, and work ends only when the metastore says that another compactor has the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Self

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, HistoryDiverged, LakelogError, NotFound
from lakelog.format.jobs.job import Job
from lakelog.serving.logging_setup import Logger

from .executor import Control

_HEARTBEATS: Final = 3
"""In the time of one lease, so that two of them may be lost."""


class JobRenewer:
    """Sends heartbeats from a thread while its block runs.

    Args:
        metastore: Receives the heartbeats.
        job: The job.
        duration_s: How long the job is held without a heartbeat.
        control: Notified when the job is lost.
        on_answer: Called when the metastore has answered.
        log: Gets failures.
    """

    def __init__(
        self,
        metastore: Metastore,
        job: Job,
        duration_s: float,
        control: Control,
        on_answer: Callable[[], None],
        log: Logger,
    ) -> None:
        self._on_answer = on_answer
        self._metastore = metastore
        self._job = job
        self._duration_s = duration_s
        self._control = control
        self._log = log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not joined: a heartbeat that is under way finds the job ended, or renews one that ends in a moment.
        self._stop.set()

    def _renew(self) -> None:
        while not self._stop.wait(self._duration_s / _HEARTBEATS):
            try:
                self._metastore.heartbeat_job(self._job.job_id, self._job.epoch, int(self._duration_s * 1000))
                self._on_answer()
            except (Fenced, NotFound, HistoryDiverged) as error:
                self._control.lose(error)
                return
            except LakelogError as error:
                self._log.warning("heartbeat lost", job_id=self._job.job_id, error=error.message)
