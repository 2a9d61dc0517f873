"""Over gRPC: jobs and the changelogs that they attach, leases, pipelines, and the presence of services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.unary import as_long_as_a_notice, as_long_as_the_lease, mutation, read
from lakelog.format.jobs.job import Job, JobPage, JobStatus
from lakelog.rpc.job import from_proto_job, to_proto_job_status
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import jobs_pb2

_LARGEST_PAGE: Final = 10_000
"""Some 3 MB."""

_REPORT_WITHIN_S: Final = 3.0
"""A report that takes longer is out of date, as the next one follows. The limit also lets a service end quickly."""


class GrpcJobs:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about work."""

    _calls: Calls
    _deadlines: Deadlines
    _retries: RetryPolicy

    # Repeated: the answer says what was done.
    attach_changelogs = mutation()
    # Repeated, but not for longer than the lease would last: idempotent.
    heartbeat_job = mutation(total_s=as_long_as_the_lease)
    # Not repeated after an unknown outcome: a repeat would find the lease ended.
    finish_job = mutation(repeat_unknown=False)
    fail_job = mutation(repeat_unknown=False)
    count_jobs = read()
    list_job_runs = read()
    # Repeated, though not idempotent: a repeat does no harm, but its answer may say less. Say a first try took effect,
    # its answer was lost, and a compactor has leased the job since. Then the repeat is refused as it would be for any
    # caller: `JOB_HELD`, or `JOB_DONE` once nothing is left to do. Otherwise the job is due again, and its tries count
    # from zero.
    retry_job = mutation()
    # Repeated: at worst a job runs once more and finds nothing to do.
    request_jobs = mutation()

    # Repeated: idempotent.
    plan_compactions = mutation()
    describe_queue = read()
    get_overview = read()

    # Repeated: if a lost try took it, that lease has to run out before the next try gets it.
    acquire_lease = mutation()
    # Repeated, but not for longer than the lease would last: idempotent.
    renew_lease = mutation(total_s=as_long_as_the_lease)
    # Repeated: idempotent; not for long, since the lease ends by itself.
    release_lease = mutation(total_s=as_long_as_a_notice)

    # Repeated: idempotent; not for long, since the next report replaces it.
    report_pipeline = mutation(total_s=as_long_as_a_notice)
    list_pipelines = read()
    forget_pipeline = mutation(repeat_unknown=False)

    # As a call without an effect: a report that may have come is as good as one that has not, since the next one
    # replaces it. So the metastore is not asked before each report whether it answers.
    report_presence = read(within_s=_REPORT_WITHIN_S)
    list_services = read()

    def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """Loads them in pages."""
        jobs: list[Job] = []
        page = self.list_job_page(table_uuids, limit=_LARGEST_PAGE)
        while True:
            jobs += page.jobs
            if not page.cursor:
                return sorted(jobs, key=lambda job: (*job.table.split("."), job.kind, job.scope))
            page = self.list_job_page(table_uuids, cursor=page.cursor, limit=_LARGEST_PAGE)

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
        """Requests a page. A metastore of an earlier version answers with all jobs."""
        request = build(
            jobs_pb2.ListJobsRequest,
            table_uuids=table_uuids,
            job_ids=job_ids,
            kinds=kinds,
            statuses=[to_proto_job_status(each) for each in statuses],
            cursor=cursor,
            limit=limit,
        )
        response = self._calls.read("ListJobs", lambda on: on.methods.ListJobs, request)
        return JobPage(tuple([from_proto_job(each) for each in response.jobs]), response.cursor)

    def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, *, duration_ms: int, wait_ms: int = 0
    ) -> Job | None:
        """Leases a job that is due. Not repeated after an unknown outcome: its deadline frees a job that it took."""
        request = build(
            jobs_pb2.LeaseJobRequest,
            kinds=kinds,
            table_uuids=table_uuids,
            holder=holder,
            duration_ms=duration_ms,
            wait_ms=wait_ms,
        )
        wait_s = max(wait_ms, 0) / 1000
        response = self._calls.mutate(
            "LeaseJob",
            lambda on: on.methods.LeaseJob,
            request,
            deadline_s=self._deadlines.call_s + wait_s,
            total_s=self._retries.total_s + wait_s,
            repeat_unknown=False,
        )
        return from_proto_job(response.job, tuple(response.aborted_attempt_ids)) if response.HasField("job") else None
