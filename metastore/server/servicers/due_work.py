"""DueWorkService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import grpc

from lakelog.rpc.v1 import due_work_pb2, due_work_pb2_grpc

from ...jobs.dedicated import DedicatedPlanning
from ...jobs.jobs import Jobs

Context = grpc.aio.ServicerContext[Any, Any]


class DueWorkServicer(due_work_pb2_grpc.DueWorkServiceServicer):
    """Work that is due without a request."""

    def __init__(self, dedicated: DedicatedPlanning, jobs: Jobs) -> None:
        self._dedicated = dedicated
        self._jobs = jobs

    async def PlanCompactions(  # noqa: N802
        self, request: due_work_pb2.PlanCompactionsRequest, context: Context
    ) -> due_work_pb2.PlanCompactionsResponse:
        """Makes the compactions due that the commits of a table have made necessary."""
        planned = await self._dedicated.plan_compactions(request.table_uuid, request.after)
        return due_work_pb2.PlanCompactionsResponse(**asdict(planned))

    async def DescribeQueue(  # noqa: N802
        self, request: due_work_pb2.DescribeQueueRequest, context: Context
    ) -> due_work_pb2.DescribeQueueResponse:
        """Counts the jobs that are not done, by kind."""
        queues = await self._jobs.describe_queue()
        return due_work_pb2.DescribeQueueResponse(queues=[due_work_pb2.JobQueue(**asdict(each)) for each in queues])
