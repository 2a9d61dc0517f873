"""JobService: the method that waits, and the one that answers in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from lakelog.format.jobs.job import Job
from lakelog.rpc.job import from_proto_job_status, to_proto_job
from lakelog.rpc.v1 import jobs_pb2

from ...use_cases import UseCases
from ..callers import principal, readable, recheck
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]


class JobServicer(Servicer):
    """Leases, pipelines and jobs."""

    def __init__(self, use_cases: UseCases) -> None:
        super().__init__(jobs_pb2.DESCRIPTOR.services_by_name["JobService"], use_cases)
        self._jobs = use_cases.jobs
        self._listing = use_cases.job_listing
        self._work = use_cases.work

    async def LeaseJob(self, request: jobs_pb2.LeaseJobRequest, context: Context) -> jobs_pb2.LeaseJobResponse:
        gone = asyncio.Event()
        # A caller that stopped waiting must not get a job that becomes due later.
        context.add_done_callback(lambda _context: gone.set())  # type: ignore[arg-type]
        job = await self._jobs.lease_job(
            tuple(request.kinds),
            tuple(request.table_uuids),
            request.holder,
            duration_ms=request.duration_ms,
            wait_ms=request.wait_ms,
            gone=gone,
            check_right=recheck(),
            by=principal(),
        )
        if job is None:
            return jobs_pb2.LeaseJobResponse()
        return jobs_pb2.LeaseJobResponse(job=to_proto_job(job), aborted_attempt_ids=job.aborted_attempts)

    async def ListJobs(self, request: jobs_pb2.ListJobsRequest, context: Context) -> jobs_pb2.ListJobsResponse:
        page = await self._listing.list_job_page(
            tuple(request.table_uuids),
            job_ids=tuple(request.job_ids),
            kinds=tuple(request.kinds),
            statuses=[from_proto_job_status(each) for each in request.statuses],
            cursor=request.cursor,
            limit=request.limit,
            readable=readable(),
        )
        jobs = await self._work.rows.run(len(page.jobs), _to_messages, page.jobs)
        return jobs_pb2.ListJobsResponse(jobs=jobs, cursor=page.cursor)


def _to_messages(jobs: Sequence[Job]) -> list[jobs_pb2.Job]:
    return [to_proto_job(job) for job in jobs]
