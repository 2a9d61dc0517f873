"""JobService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.messages import refusal
from lakelog.rpc.v1 import jobs_pb2, jobs_pb2_grpc
from lakelog.rpc.work import from_proto_pipeline, to_proto_lease_grant, to_proto_pipeline

from ..service import MetastoreService

Context = grpc.aio.ServicerContext[Any, Any]


class JobServicer(jobs_pb2_grpc.JobServiceServicer):
    """Leases and pipelines."""

    def __init__(self, service: MetastoreService) -> None:
        self._service = service

    async def AcquireLease(  # noqa: N802
        self, request: jobs_pb2.AcquireLeaseRequest, context: Context
    ) -> jobs_pb2.AcquireLeaseResponse:
        """Takes a lease that is free or over."""
        grant = await self._service.acquire_lease(request.name, request.holder, request.duration_ms)
        return to_proto_lease_grant(grant)

    async def RenewLease(  # noqa: N802
        self, request: jobs_pb2.RenewLeaseRequest, context: Context
    ) -> jobs_pb2.RenewLeaseResponse:
        """Keeps a lease."""
        remaining_ms = await self._service.renew_lease(request.name, request.epoch, request.duration_ms)
        return jobs_pb2.RenewLeaseResponse(remaining_ms=remaining_ms)

    async def ReleaseLease(  # noqa: N802
        self, request: jobs_pb2.ReleaseLeaseRequest, context: Context
    ) -> jobs_pb2.ReleaseLeaseResponse:
        """Gives a lease back."""
        await self._service.release_lease(request.name, request.epoch)
        return jobs_pb2.ReleaseLeaseResponse()

    async def ReportPipeline(  # noqa: N802
        self, request: jobs_pb2.ReportPipelineRequest, context: Context
    ) -> jobs_pb2.ReportPipelineResponse:
        """Writes down where a pipeline is."""
        if not request.HasField("pipeline"):
            raise refusal("pipeline", "is not given", "Send the pipeline's state")
        await self._service.report_pipeline(from_proto_pipeline(request.pipeline), request.epoch)
        return jobs_pb2.ReportPipelineResponse()

    async def ListPipelines(  # noqa: N802
        self, request: jobs_pb2.ListPipelinesRequest, context: Context
    ) -> jobs_pb2.ListPipelinesResponse:
        """Lists all pipelines that ever reported."""
        pipelines = await self._service.list_pipelines()
        return jobs_pb2.ListPipelinesResponse(pipelines=[to_proto_pipeline(pipeline) for pipeline in pipelines])

    async def ForgetPipeline(  # noqa: N802
        self, request: jobs_pb2.ForgetPipelineRequest, context: Context
    ) -> jobs_pb2.ForgetPipelineResponse:
        """Takes a pipeline that has ended out of the list."""
        await self._service.forget_pipeline(request.name)
        return jobs_pb2.ForgetPipelineResponse()
