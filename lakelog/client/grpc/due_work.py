"""What is due, over gRPC."""

from __future__ import annotations

from lakelog.client.connection.calls import Calls
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import due_work_pb2


class GrpcDueWork:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about work that no user requested."""

    _calls: Calls

    def plan_compactions(self, table_uuid: str, after: int = 0) -> PlannedTable:
        """Makes the compactions due that a table's commits have made necessary. Repeated: idempotent."""
        request = build(due_work_pb2.PlanCompactionsRequest, table_uuid=table_uuid, after=after)
        response = self._calls.mutate("PlanCompactions", lambda on: on.due_work.PlanCompactions, request)
        return PlannedTable(response.planned_until, response.job_count)

    def describe_queue(self) -> list[JobQueue]:
        """The number of jobs that are not done, by kind."""
        response = self._calls.read(
            "DescribeQueue", lambda on: on.due_work.DescribeQueue, due_work_pb2.DescribeQueueRequest()
        )
        return [
            JobQueue(
                each.kind,
                each.due_count,
                each.resting_count,
                each.leased_count,
                each.failed_count,
                each.oldest_due_ms,
            )
            for each in response.queues
        ]
