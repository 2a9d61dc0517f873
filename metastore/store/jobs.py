"""What a store does for jobs: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.jobs.job import DueJob, Job
from lakelog.format.jobs.queue import JobQueue

from .records import WorkCursor


class JobTransaction(Protocol):
    """Jobs. Only the database's clock judges deadlines and pauses. A lock on a head is taken before one on a job."""

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        duration_ms: int,
        *,
        owner: str = "",
        changelogs_last: bool = False,
    ) -> tuple[Job, bool] | None:
        """Takes the first job that is due or whose lease has expired; the job gets a new epoch, and one more attempt.

        `owner` is the principal that holds it from now on.

        With `changelogs_last` the jobs with the priority of changelogs come after all others. The flag says whether the
        lease had expired: the previous holder did not renew it in time.
        """
        ...

    async def next_due_ms(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> int | None:
        """In how many milliseconds the first of these jobs is due or expires; None: none will be by itself."""
        ...

    async def abort_attempts(self, writer: str) -> list[str]:
        """Aborts the open attempts of a writer and returns their ids."""
        ...

    async def find_job(self, job_id: int) -> Job | None:
        """A job, without locking it."""
        ...

    async def lock_job(self, job_id: int) -> Job | None:
        """Locks a job against changes."""
        ...

    async def renew_job(self, job_id: int, duration_ms: int) -> None:
        """Moves the deadline of a locked job."""
        ...

    async def put_job(self, job: Job, pause_ms: int) -> None:
        """Changes a locked job that no one holds any more: all but its identity, priority, epoch and times.

        A job that is due, or becomes due, is due after the pause.
        """
        ...

    async def set_payload(self, job: Job) -> None:
        """Changes only the payload of a locked job, and what was requested since it was taken."""
        ...

    async def lock_jobs(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        """Locks those jobs of a table that exist against changes, in any order. The table's head is locked."""
        ...

    async def list_waiting(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        """Those jobs of a table that are due, now or later, and that no one is doing."""
        ...

    async def request_jobs(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due at once that are locked or do not exist yet, with their payloads and at least their priority.

        Failed jobs are tried again as well. A job that is being done stays as it is, and keeps the payload as what was
        requested since.
        """
        ...

    async def count_waiting(self, table_id: int, kind: str) -> int:
        """How many jobs of a table are due, now or later, and not being done."""
        ...

    async def describe_queue(self) -> list[JobQueue]:
        """How many jobs are not done, by kind."""
        ...

    async def make_due(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due without a request, at once or after their delays. They are locked, or do not exist yet.

        A failed job stays failed until it has rested, and is then tried once. A waiting job gets this payload and at
        least this priority; it is neither put off nor tried before its pause is over. A job that is being done keeps
        the payload as what was requested since, unless there is a delay.
        """
        ...

    async def lock_work_cursor(self, table_id: int) -> WorkCursor | None:
        """Makes this transaction the only one that plans the table's work; None: another does."""
        ...

    async def move_work_cursor(self, table_id: int, cursor: WorkCursor) -> None:
        """Records that all work up to this cursor was planned, and all requests heard. The table's head is locked."""
        ...

    async def request_planning(self, table_id: int) -> None:
        """Requests that the table's work is planned although there is no new snapshot. The table's head is locked."""
        ...

    async def list_unplanned(self, limit: int) -> list[str]:
        """Uuids of tables with snapshots that were not planned yet, or with requests to plan that are still open."""
        ...

    async def list_jobs(self, table_uuids: Sequence[str]) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        ...
