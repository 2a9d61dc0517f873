"""What a store does for jobs, leases, pipelines and present services: a part of `metastore.store.transaction`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from lakelog.format.jobs.job import DueJob, Job, JobCount, JobPage, JobStatus
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.jobs.presence import Service, ServiceReport
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.work import LeaseGrant, Pipeline

from .grants import Readable
from .records import WorkCursor

_CURSOR: Final = re.compile(r"([1-9][0-9]{0,17})/([a-z][a-z-]{0,63})/([^\x00]{0,8192})")


class JobPlace(NamedTuple):
    """The place of a job in pages: places have the order of the pages.

    Args:
        table_id: The store's own number of the table.
        kind: The kind.
        key: The scope, or what stands for a long one.
    """

    table_id: int
    kind: str
    key: str

    def to_cursor(self) -> str:
        """What a client sends back for the jobs behind it. Pure."""
        return f"{self.table_id}/{self.kind}/{self.key}"


def parse_cursor(cursor: str) -> JobPlace:
    """The inverse of `JobPlace.to_cursor`. Pure.

    Raises:
        ValueError: It is not a cursor of a list of jobs.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError(cursor)
    table_id, kind, key = found.groups()
    return JobPlace(int(table_id), kind, key)


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are listed: those for which all that is given holds.

    Args:
        table_uuids: Of these tables; empty: of all.
        job_ids: With these ids; empty: with any.
        kinds: Of these kinds; empty: of all.
        statuses: That stand so; empty: however they stand.
        readable: Of tables that the caller may read; None: of all.
    """

    table_uuids: Sequence[str] = ()
    job_ids: Sequence[int] = ()
    kinds: Sequence[str] = ()
    statuses: Sequence[JobStatus] = ()
    readable: Readable | None = None


@dataclass(frozen=True)
class RunEnd:
    """How a job's holder ended it; the store knows the rest of the run.

    Args:
        result: How.
        message: What was done, or why it failed.
    """

    result: RunResult
    message: str


@dataclass(frozen=True)
class RunFilter:
    """Which runs are listed: those for which all that is given holds.

    Args:
        table_uuids: Of these tables; empty: of all.
        job_id: Of this job; 0: of all.
        kinds: Of jobs of these kinds; empty: of all.
        results: That ended so; empty: however they ended.
        readable: Of tables that the caller may read; None: of all.
    """

    table_uuids: Sequence[str] = ()
    job_id: int = 0
    kinds: Sequence[str] = ()
    results: Sequence[RunResult] = ()
    readable: Readable | None = None


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

        `owner` is the principal that holds it from now on. The run of a previous holder is recorded as lost.

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

    async def put_job(self, job: Job, pause_ms: int, run: RunEnd | None = None) -> None:
        """Changes a locked job that no one holds any more: all but its identity, priority, epoch and times.

        A job that is due, or becomes due, is due after the pause. The end of its run is recorded, if one is given.
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


class JobListingTransaction(Protocol):
    """Reads jobs for people and programs, without locks."""

    async def list_job_page(self, wanted: JobFilter, after: JobPlace | None, limit: int) -> JobPage:
        """The first jobs behind a place, by table, kind and scope; None: from the beginning."""
        ...

    async def list_jobs(self, wanted: JobFilter, limit: int) -> list[Job]:
        """The first jobs by the name of the table, kind and scope."""
        ...

    async def count_jobs(self, wanted: JobFilter) -> list[JobCount]:
        """How many of the jobs there are, by kind and status."""
        ...


class JobRunTransaction(Protocol):
    """Runs of jobs. Taking a job over and ending it record them."""

    async def list_job_runs(self, wanted: RunFilter, before: int, limit: int) -> list[JobRun]:
        """The newest runs with a lower id, the newest first; 0: with any id."""
        ...

    async def forget_old_runs(self, after: str, most: int, age_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes old runs of the next `limit` tables after one: those of an age, and all but the newest ones.

        Of runs that ended badly as many are kept as of the others.

        Returns:
            The last of these tables, or an empty text after the last one of all; and the ids of the removed runs.
        """
        ...


class WorkTransaction(Protocol):
    """Leases and pipelines. Only the database's clock judges deadlines."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, owner: str) -> tuple[LeaseGrant, bool]:
        """Takes a lease that is free or expired, under a new epoch.

        The second value says whether the owner has one lease more than before.
        """
        ...

    async def count_leases(self, owner: str, limit: int) -> int:
        """How many leases a principal owns, or the limit if there are more. It is called after one was taken.

        If two transactions count those of one principal, the second waits for the end of the first, and sees its lease.
        """
        ...

    async def forget_unused_leases(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes leases that no one has held for `unused_ms`, and the reports of their pipelines.

        Looks at the next `limit` names after a name. Returns the last of them, or an empty text after the last one of
        all; and the names that were removed. A lease that another transaction uses at this moment stays.
        """
        ...

    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> tuple[LeaseGrant, str]:
        """Moves the deadline of a lease that has this epoch and is held; `acquired` says whether it did.

        The text is the lease's owner; empty: it is not known.
        """
        ...

    async def release_lease(self, name: str, epoch: int) -> str:
        """Ends a lease that has this epoch, and returns its owner; empty: it is not known, or there is none."""
        ...

    async def lock_lease(self, name: str) -> tuple[int, str]:
        """Locks a lease's epoch against changes; returns the epoch and the owner. 0: the lease was never held."""
        ...

    async def upsert_pipeline(self, pipeline: Pipeline, owner: str) -> bool:
        """Records the progress of a pipeline, with the time; returns whether the owner has one pipeline more."""
        ...

    async def count_pipelines(self, owner: str, limit: int) -> int:
        """As `count_leases`, for pipelines that have reported."""
        ...

    async def list_pipelines(self) -> list[Pipeline]:
        """All pipelines by name, with the holders of their leases."""
        ...

    async def delete_pipeline(self, name: str) -> None:
        """Removes the reports of a pipeline; its lease stays, with its epoch."""
        ...


class PresenceTransaction(Protocol):
    """Which services run. Only the store's clock says when they reported."""

    async def renew_service(self, report: ServiceReport) -> bool:
        """Replaces what a service reported, except its start; False: it is not listed."""
        ...

    async def lock_services(self) -> None:
        """Prevents other transactions from listing a new service before this one ends."""
        ...

    async def count_services(self) -> int:
        """How many services are listed."""
        ...

    async def insert_service(self, report: ServiceReport) -> None:
        """Lists a service, which started `uptime_ms` ago."""
        ...

    async def remove_service(self, instance_id: str) -> None:
        """Removes a service from the list, if it is there."""
        ...

    async def evict_services(self, gone_ms: int) -> None:
        """Removes services whose last report expired at least `gone_ms` ago, unless they report at this moment."""
        ...

    async def list_services(self) -> list[Service]:
        """All listed services, by kind, host, start and instance."""
        ...
