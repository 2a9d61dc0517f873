"""PublishService: methods whose answers and messages differ."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.format.commit.facts import AttemptState
from lakelog.rpc.table import to_proto_publish_state
from lakelog.rpc.v1 import publishing_pb2

from ...use_cases import UseCases
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]


class PublishServicer(Servicer):
    """How far external logs are published."""

    def __init__(self, use_cases: UseCases) -> None:
        super().__init__(publishing_pb2.DESCRIPTOR.services_by_name["PublishService"], use_cases)
        self._publishing = use_cases.publishing

    async def GetPublishState(
        self, request: publishing_pb2.GetPublishStateRequest, context: Context
    ) -> publishing_pb2.GetPublishStateResponse:
        return to_proto_publish_state(await self._publishing.get_publish_state(request.table_uuid))

    async def FindAttempts(
        self, request: publishing_pb2.FindAttemptsRequest, context: Context
    ) -> publishing_pb2.FindAttemptsResponse:
        found = await self._publishing.find_attempts(request.table_uuid, list(request.attempt_ids))
        opened = {each: sent for each, sent in found.items() if sent.state is AttemptState.OPEN}
        return publishing_pb2.FindAttemptsResponse(
            open_ids=opened,
            committed_ids=[each for each, sent in found.items() if sent.state is AttemptState.COMMITTED],
            silent_ids=[each for each, sent in opened.items() if sent.is_silent],
            opened_ms=[sent.opened_ms for sent in opened.values()],
        )
