"""PublishService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.format.commit.facts import AttemptState
from lakelog.rpc.log import from_proto_report, to_proto_offsets, to_proto_publish_state
from lakelog.rpc.v1 import publishing_pb2, publishing_pb2_grpc

from ...logs.publishing import Publishing
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class PublishServicer(publishing_pb2_grpc.PublishServiceServicer):
    """How far external logs are published."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing

    async def GetPublishState(  # noqa: N802
        self, request: publishing_pb2.GetPublishStateRequest, context: Context
    ) -> publishing_pb2.GetPublishStateResponse:
        """Returns how far a log is published."""
        return to_proto_publish_state(await self._publishing.get_publish_state(request.table_uuid))

    async def ReportPublished(  # noqa: N802
        self, request: publishing_pb2.ReportPublishedRequest, context: Context
    ) -> publishing_pb2.ReportPublishedResponse:
        """Records how far a log is published."""
        await self._publishing.report_published(from_proto_report(request), by=principal())
        return publishing_pb2.ReportPublishedResponse()

    async def FindLogOffsets(  # noqa: N802
        self, request: publishing_pb2.FindLogOffsetsRequest, context: Context
    ) -> publishing_pb2.FindLogOffsetsResponse:
        """Returns where the newest snapshot with a known end ends in the log."""
        until = request.until if request.HasField("until") else None
        found = await self._publishing.find_log_offsets(request.table_uuid, until=until)
        return publishing_pb2.FindLogOffsetsResponse(found=None if found is None else to_proto_offsets(found))

    async def ListLogOffsets(  # noqa: N802
        self, request: publishing_pb2.ListLogOffsetsRequest, context: Context
    ) -> publishing_pb2.ListLogOffsetsResponse:
        """Returns where snapshots end in the log."""
        found = await self._publishing.list_log_offsets(
            request.table_uuid, after=request.after, until=request.until, limit=request.limit
        )
        return publishing_pb2.ListLogOffsetsResponse(snapshots=[to_proto_offsets(each) for each in found])

    async def FindAttempts(  # noqa: N802
        self, request: publishing_pb2.FindAttemptsRequest, context: Context
    ) -> publishing_pb2.FindAttemptsResponse:
        """Returns the states of attempts."""
        found = await self._publishing.find_attempts(request.table_uuid, list(request.attempt_ids))
        opened = {each: sent for each, sent in found.items() if sent.state is AttemptState.OPEN}
        return publishing_pb2.FindAttemptsResponse(
            open_ids=opened,
            committed_ids=[each for each, sent in found.items() if sent.state is AttemptState.COMMITTED],
            silent_ids=[each for each, sent in opened.items() if sent.is_silent],
            opened_ms=[sent.opened_ms for sent in opened.values()],
        )

    async def RenewAttempts(  # noqa: N802
        self, request: publishing_pb2.RenewAttemptsRequest, context: Context
    ) -> publishing_pb2.RenewAttemptsResponse:
        """Notes that writers are alive."""
        renewed = await self._publishing.renew_attempts(list(request.attempt_ids), by=principal())
        return publishing_pb2.RenewAttemptsResponse(open_ids=renewed)
