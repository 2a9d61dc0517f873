"""How services share work: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lakelog.format.jobs.job import Job, JobCount, JobPage, JobState, JobStatus
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.jobs.work import LeaseGrant, Pipeline


class Jobs(Protocol):
    """Leases, pipelines and jobs."""

    def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Acquires a lease that is free or over.

        Raises:
            ResourceExhausted: The caller has too many leases of other names; admins have no limit.
        """
        ...

    def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int:
        """Renews a lease, also an expired one that no one took; returns the milliseconds that remain.

        Raises:
            Fenced: Another took it, or it was released.
            PermissionDenied: Another principal holds it.
        """
        ...

    def release_lease(self, name: str, epoch: int) -> None:
        """Releases a lease. Idempotent; a lease that has another epoch by now stays as it is.

        Raises:
            PermissionDenied: Another principal holds it.
        """
        ...

    def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None:
        """Stores where a pipeline is.

        Raises:
            Fenced: Its lease `pipeline/<name>` has another epoch.
            PermissionDenied: Another principal holds the lease.
            ResourceExhausted: Too many other pipelines of the caller have reported; admins have no limit.
        """
        ...

    def list_pipelines(self) -> list[Pipeline]:
        """The pipelines that have reported, by name; one whose lease no one held for 90 days is removed."""
        ...

    def forget_pipeline(self, name: str) -> None:
        """Removes a pipeline that has ended from the list; its table, checkpoint and lease's epoch stay.

        Raises:
            NotFound: No pipeline of this name has reported.
            InvalidArgument: Its lease is held.
        """
        ...

    def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, *, duration_ms: int, wait_ms: int = 0
    ) -> Job | None:
        """Leases a job that is due, of any table if none is named; None: none was due within the wait."""
        ...

    def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        """Renews a job, also after its deadline if no one took it; returns the milliseconds that remain.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def finish_job(self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False) -> bool:
        """Ends a job that succeeded, or gives it back; returns whether it is due again.

        Args:
            job_id: The job.
            epoch: The caller's.
            outcome: What was done, for people.
            work_left: It is given back before its end: what was requested is still to be done.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def fail_job(self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False) -> JobState:
        """Ends a job that failed; returns its state: due after a pause that grows, or failed.

        Args:
            job_id: The job.
            epoch: The caller's.
            reason: For people.
            final: Another try would fail in the same way.
            passing: The cause may pass by itself, so that the number of tries is not limited.

        Raises:
            NotFound: There is no such job; its table was dropped.
            Fenced: Another does it, or it was given back.
            PermissionDenied: Another principal holds it.
        """
        ...

    def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope. There can be very many."""
        ...

    def list_job_page(
        self,
        table_uuids: Sequence[str] = (),
        *,
        job_ids: Sequence[int] = (),
        kinds: Sequence[str] = (),
        statuses: Sequence[JobStatus] = (),
        cursor: str = "",
        limit: int = 1000,
    ) -> JobPage:
        """A page of the jobs for which all that is given holds, by table, kind and scope.

        Tables are in the order in which they were made. A job that is there from the first page to the last comes
        once, however it changes. `lakelog.client.job_pages` goes through all pages.

        Args:
            table_uuids: Only jobs of these tables; empty: of all.
            job_ids: Only these jobs, at most 4000; an id without a job does no harm. Empty: all.
            kinds: Only jobs of these kinds; empty: of all.
            statuses: Only jobs that stand so; empty: however they stand.
            cursor: From the page before; empty: from the beginning.
            limit: At most this many, 1 to 10,000.
        """
        ...

    def count_jobs(self, table_uuids: Sequence[str] = ()) -> list[JobCount]:
        """How many jobs there are, of some tables or of all, by kind and status."""
        ...

    def list_job_runs(
        self,
        table_uuids: Sequence[str] = (),
        *,
        job_id: int = 0,
        kinds: Sequence[str] = (),
        results: Sequence[RunResult] = (),
        before: int = 0,
        limit: int = 0,
    ) -> list[JobRun]:
        """What became of jobs when they were done, the newest first; for which all that is given holds.

        Runs that found nothing to do are not recorded. Of each table the newest 500 that ended well are kept, and the
        newest 500 that ended badly, none for longer than 30 days.

        Args:
            table_uuids: Only of jobs of these tables; empty: of all.
            job_id: Only of this job; 0: of all.
            kinds: Only of jobs of these kinds; empty: of all.
            results: Only those that ended so; empty: however they ended.
            before: Only those with a lower id, the last of the page before; 0: from the newest on.
            limit: At most this many, 1 to 10,000; fewer come only at the end. 0: 1000.
        """
        ...

    def retry_job(self, job_id: int) -> None:
        """Makes a job that failed or rests due at once.

        Not idempotent: once a process has leased the job that the first call made due, a repeat is refused.

        Raises:
            NotFound: There is none.
            InvalidArgument: It is being done, has nothing to do, or waits for as long as a dropped table is kept.
        """
        ...

    def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        """Makes jobs of a table due at once, and running ones due again after their end; NotFound: no such table.

        The request is fulfilled once a job's `done_epoch` is above its `epoch` in the answer.

        Args:
            table_uuid: The table.
            kind: Only `compact`.
            scopes: Which parts, each once, 1 to 4000: those of `lakelog.format.jobs.job.to_bucket_scope`.
            payload: `strategy`: `minor` or `full`. A job that already waits for the stronger strategy keeps it.
            priority: Jobs with a higher one come first.

        Returns:
            One job for each scope, in their order.

        Raises:
            NotFound: There is no such table (any more).
        """
        ...
