"""JobService: the method that waits."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from lakelog.rpc.job import to_proto_job
from lakelog.rpc.v1 import jobs_pb2

from ...use_cases import UseCases
from ..callers import principal, recheck
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]


class JobServicer(Servicer):
    """Leases, pipelines and jobs."""

    def __init__(self, use_cases: UseCases) -> None:
        super().__init__(jobs_pb2.DESCRIPTOR.services_by_name["JobService"], use_cases)
        self._jobs = use_cases.jobs

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
