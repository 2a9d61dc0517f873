"""JobService: from messages to use cases and back, nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from lakelog.rpc.job import (
    from_proto_pipeline,
    to_proto_job,
    to_proto_job_state,
    to_proto_lease_grant,
    to_proto_pipeline,
)
from lakelog.rpc.messages import refusal
from lakelog.rpc.v1 import jobs_pb2, jobs_pb2_grpc

from ...jobs.jobs import Jobs
from ...jobs.leases import Leases
from ...jobs.pipelines import Pipelines
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class JobServicer(jobs_pb2_grpc.JobServiceServicer):
    """Leases, pipelines and jobs."""

    def __init__(self, leases: Leases, pipelines: Pipelines, jobs: Jobs) -> None:
        self._leases = leases
        self._pipelines = pipelines
        self._jobs = jobs

    async def AcquireLease(  # noqa: N802
        self, request: jobs_pb2.AcquireLeaseRequest, context: Context
    ) -> jobs_pb2.AcquireLeaseResponse:
        """Takes a lease that is free or expired."""
        grant = await self._leases.acquire_lease(request.name, request.holder, request.duration_ms, by=principal())
        return to_proto_lease_grant(grant)

    async def RenewLease(  # noqa: N802
        self, request: jobs_pb2.RenewLeaseRequest, context: Context
    ) -> jobs_pb2.RenewLeaseResponse:
        """Renews a lease."""
        remaining_ms = await self._leases.renew_lease(request.name, request.epoch, request.duration_ms, by=principal())
        return jobs_pb2.RenewLeaseResponse(remaining_ms=remaining_ms)

    async def ReleaseLease(  # noqa: N802
        self, request: jobs_pb2.ReleaseLeaseRequest, context: Context
    ) -> jobs_pb2.ReleaseLeaseResponse:
        """Gives a lease back."""
        await self._leases.release_lease(request.name, request.epoch, by=principal())
        return jobs_pb2.ReleaseLeaseResponse()

    async def ReportPipeline(  # noqa: N802
        self, request: jobs_pb2.ReportPipelineRequest, context: Context
    ) -> jobs_pb2.ReportPipelineResponse:
        """Records the progress of a pipeline."""
        if not request.HasField("pipeline"):
            raise refusal("pipeline", "is not given", "Send the pipeline's state")
        await self._pipelines.report_pipeline(from_proto_pipeline(request.pipeline), request.epoch, by=principal())
        return jobs_pb2.ReportPipelineResponse()

    async def ListPipelines(  # noqa: N802
        self, request: jobs_pb2.ListPipelinesRequest, context: Context
    ) -> jobs_pb2.ListPipelinesResponse:
        """Lists all pipelines that have ever reported."""
        pipelines = await self._pipelines.list_pipelines()
        return jobs_pb2.ListPipelinesResponse(pipelines=[to_proto_pipeline(pipeline) for pipeline in pipelines])

    async def ForgetPipeline(  # noqa: N802
        self, request: jobs_pb2.ForgetPipelineRequest, context: Context
    ) -> jobs_pb2.ForgetPipelineResponse:
        """Removes a pipeline that has ended from the list."""
        await self._pipelines.forget_pipeline(request.name)
        return jobs_pb2.ForgetPipelineResponse()

    async def LeaseJob(  # noqa: N802
        self, request: jobs_pb2.LeaseJobRequest, context: Context
    ) -> jobs_pb2.LeaseJobResponse:
        """Takes a job that is due, and waits for one if necessary."""
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
            by=principal(),
        )
        if job is None:
            return jobs_pb2.LeaseJobResponse()
        return jobs_pb2.LeaseJobResponse(job=to_proto_job(job), aborted_attempt_ids=job.aborted_attempts)

    async def HeartbeatJob(  # noqa: N802
        self, request: jobs_pb2.HeartbeatJobRequest, context: Context
    ) -> jobs_pb2.HeartbeatJobResponse:
        """Renews a job."""
        remaining_ms = await self._jobs.heartbeat_job(
            request.job_id, request.epoch, request.duration_ms, by=principal()
        )
        return jobs_pb2.HeartbeatJobResponse(remaining_ms=remaining_ms)

    async def FinishJob(  # noqa: N802
        self, request: jobs_pb2.FinishJobRequest, context: Context
    ) -> jobs_pb2.FinishJobResponse:
        """Ends a job with success."""
        due_again = await self._jobs.finish_job(
            request.job_id, request.epoch, request.outcome, work_left=request.work_left, by=principal()
        )
        return jobs_pb2.FinishJobResponse(due_again=due_again)

    async def FailJob(  # noqa: N802
        self, request: jobs_pb2.FailJobRequest, context: Context
    ) -> jobs_pb2.FailJobResponse:
        """Ends a job with failure."""
        state = await self._jobs.fail_job(
            request.job_id, request.epoch, request.reason, final=request.final, passing=request.passing, by=principal()
        )
        return jobs_pb2.FailJobResponse(state=to_proto_job_state(state))

    async def ListJobs(  # noqa: N802
        self, request: jobs_pb2.ListJobsRequest, context: Context
    ) -> jobs_pb2.ListJobsResponse:
        """Lists jobs."""
        jobs = await self._jobs.list_jobs(tuple(request.table_uuids))
        return jobs_pb2.ListJobsResponse(jobs=[to_proto_job(job) for job in jobs])

    async def RetryJob(  # noqa: N802
        self, request: jobs_pb2.RetryJobRequest, context: Context
    ) -> jobs_pb2.RetryJobResponse:
        """Makes a job due at once that has failed or rests."""
        await self._jobs.retry_job(request.job_id)
        return jobs_pb2.RetryJobResponse()

    async def RequestJobs(  # noqa: N802
        self, request: jobs_pb2.RequestJobsRequest, context: Context
    ) -> jobs_pb2.RequestJobsResponse:
        """Requests work on parts of a table."""
        jobs = await self._jobs.request_jobs(
            request.table_uuid, request.kind, tuple(request.scopes), dict(request.payload), priority=request.priority
        )
        return jobs_pb2.RequestJobsResponse(jobs=[to_proto_job(job) for job in jobs])
