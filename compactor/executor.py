"""What a job executor is, and how it learns during a job whether to go on."""

from __future__ import annotations

import threading
from typing import Protocol

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.format.jobs.job import Job
from lakelog.serving.logging_setup import Logger
from lakelog.storage.objects.stores import Stores

from .metrics import Metrics


class Control:
    """Says whether to go on with a job. Thread-safe.

    Args:
        stopping: Set when the service is to end.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._lost: LakelogError | None = None

    def lose(self, error: LakelogError) -> None:
        """Records that another compactor has the job, or that the job is gone."""
        self._lost = error

    def check(self) -> None:
        """Raises the error that ended the hold on the job: unfinished work is useless then."""
        if self._lost is not None:
            raise self._lost

    @property
    def is_lost(self) -> bool:
        """Whether `check` would raise."""
        return self._lost is not None

    @property
    def is_stopping(self) -> bool:
        """Whether to end after the current step; the next holder of the job does the rest."""
        return self._stopping.is_set()


class JobExecutor(Protocol):
    """Does jobs of one kind."""

    def do(self, job: Job, control: Control) -> str:
        """Does as much of a job as is due, or as is fair while others wait; blocks.

        Returns:
            What was done, in a few words for people; empty: there was nothing to do.

        Raises:
            Fenced: Another holder has the job; all that was written for it is deleted.
            NotFound: Its table was dropped; all that was written is deleted.
            DataCorrupted: A file is damaged or missing; the error names it.
            LakelogError: Something else failed. All files that could safely be deleted are deleted.
        """
        ...


class FileJobExecutor:
    """What job executors that work with tables' files need.

    Args:
        metastore: Knows the tables, plans and commits.
        stores: Where the tables' files are.
        metrics: The measurements.
        log: The service's log.
    """

    def __init__(self, metastore: Metastore, stores: Stores, metrics: Metrics, log: Logger) -> None:
        self._metastore = metastore
        self._stores = stores
        self._metrics = metrics
        self._log = log
