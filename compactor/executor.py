"""What a duty is, and what it is told while it does a job."""

from __future__ import annotations

import threading
from typing import Protocol

from lakelog.errors import LakelogError
from lakelog.format.jobs.job import Job


class Control:
    """Tells whoever does a job whether to go on. Thread-safe.

    Args:
        stopping: Set when the service is to end.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._lost: LakelogError | None = None

    def lose(self, error: LakelogError) -> None:
        """Tells that another does the job, or that it is gone."""
        self._lost = error

    def check(self) -> None:
        """Raises what told that the job is lost: what is in hand is of no use any more."""
        if self._lost is not None:
            raise self._lost

    @property
    def is_lost(self) -> bool:
        """Whether `check` would raise."""
        return self._lost is not None

    @property
    def is_stopping(self) -> bool:
        """Whether to end behind the step in hand; what is left is done by whoever takes the job next."""
        return self._stopping.is_set()


class JobExecutor(Protocol):
    """Does jobs of one kind."""

    def do(self, job: Job, control: Control) -> str:
        """Does as much of a job as is due, or as can be done while others wait; blocks.

        Returns:
            What was done, in a few words for people; empty: there was nothing to do.

        Raises:
            Fenced: Another does the job; all that was written for it is deleted.
            NotFound: Its table was dropped; so is all that was written.
            DataCorrupted: A file is damaged or missing; named.
            LakelogError: Something else failed. Nothing is left behind that could be deleted safely.
        """
        ...
