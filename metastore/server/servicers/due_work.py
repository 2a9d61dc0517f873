"""DueWorkService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import grpc

from lakelog.rpc.v1 import due_work_pb2, due_work_pb2_grpc

from ...service import MetastoreService

Context = grpc.aio.ServicerContext[Any, Any]


class DueWorkServicer(due_work_pb2_grpc.DueWorkServiceServicer):
    """Work that nobody asked for."""

    def __init__(self, service: MetastoreService) -> None:
        self._service = service

    async def PlanCompactions(  # noqa: N802
        self, request: due_work_pb2.PlanCompactionsRequest, context: Context
    ) -> due_work_pb2.PlanCompactionsResponse:
        """Makes the compactions of a table due that its commits have made necessary."""
        planned = await self._service.plan_compactions(request.table_uuid, request.after)
        return due_work_pb2.PlanCompactionsResponse(**asdict(planned))

    async def DescribeQueue(  # noqa: N802
        self, request: due_work_pb2.DescribeQueueRequest, context: Context
    ) -> due_work_pb2.DescribeQueueResponse:
        """Tells how many jobs there are, kind by kind."""
        queues = await self._service.describe_queue()
        return due_work_pb2.DescribeQueueResponse(queues=[due_work_pb2.JobQueue(**asdict(each)) for each in queues])
