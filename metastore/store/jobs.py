"""What a store does for jobs: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.jobs.job import DueJob, Job
from lakelog.format.jobs.queue import JobQueue

from .records import WorkCursor


class JobTransaction(Protocol):
    """Jobs. Only the database's clock judges deadlines and pauses; a lock on a job comes behind one on a head."""

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        duration_ms: int,
        *,
        changelogs_last: bool = False,
    ) -> tuple[Job, bool] | None:
        """Takes the first job that is due, or over; its epoch rises by one, and so do its attempts.

        With `changelogs_last` those of the priority of changelogs come behind all others. The flag tells whether it was
        over: whoever held it was not heard of in time.
        """
        ...

    async def next_due_ms(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> int | None:
        """In how many milliseconds the first of these jobs is due or over; None: none will be by itself."""
        ...

    async def abort_attempts(self, writer: str) -> list[str]:
        """Aborts the open attempts of a writer and tells which."""
        ...

    async def find_job(self, job_id: int) -> Job | None:
        """A job, without locking it."""
        ...

    async def lock_job(self, job_id: int) -> Job | None:
        """Keeps a job as it is."""
        ...

    async def renew_job(self, job_id: int, duration_ms: int) -> None:
        """Moves the deadline of a locked job."""
        ...

    async def put_job(self, job: Job, pause_ms: int) -> None:
        """Changes a locked job that nobody holds any more: all but what names it, its priority, epoch and times.

        What is due, or becomes so, is due after the pause.
        """
        ...

    async def set_payload(self, job: Job) -> None:
        """Changes what a locked job does, and what was asked for since, and nothing else."""
        ...

    async def lock_jobs(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        """Keeps those jobs of a table that exist as they are, in any order. The table's head is locked."""
        ...

    async def list_waiting(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        """Those jobs of a table that are due, now or later, and that nobody does."""
        ...

    async def request_jobs(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due at once that are locked, or do not exist yet, with their payloads and at least their priority.

        They are tried anew, whatever became of them. Those that somebody does stay as they are, and have the payload as
        what was asked for since.
        """
        ...

    async def count_waiting(self, table_id: int, kind: str) -> int:
        """How many jobs of a table are due, now or later, that nobody does."""
        ...

    async def describe_queue(self) -> list[JobQueue]:
        """How many jobs there are that are not done, by kind."""
        ...

    async def make_due(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due by themselves, at once or after their delays, that are locked, or do not exist yet.

        What failed stays so until it has rested, and is tried once then. What is due does this payload then, at least
        with this priority; it is not put off, nor tried before its pause is over. Those that somebody does have the
        payload as what was asked for since, unless there is a delay.
        """
        ...

    async def lock_work_cursor(self, table_id: int) -> WorkCursor | None:
        """Makes this transaction the only one that plans the table's work; None: another does."""
        ...

    async def move_work_cursor(self, table_id: int, cursor: WorkCursor) -> None:
        """Writes down that all up to this was planned, and heard. The table's head is locked."""
        ...

    async def request_planning(self, table_id: int) -> None:
        """Has the table's work planned though no snapshot comes. The table's head is locked."""
        ...

    async def list_unplanned(self, limit: int) -> list[str]:
        """Uuids of tables with snapshots that were not planned, or with questions that were not heard."""
        ...

    async def list_jobs(self, table_uuids: Sequence[str]) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        ...
