"""ConsumerService: from messages to use cases and back, nothing else."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.rpc.retention import from_proto_position, to_proto_consumer
from lakelog.rpc.v1 import consumers_pb2, consumers_pb2_grpc

from ...snapshots.consumers import Consumers
from ..callers import principal

Context = grpc.aio.ServicerContext[Any, Any]


class ConsumerServicer(consumers_pb2_grpc.ConsumerServiceServicer):
    """Named readers."""

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

    async def OpenConsumer(  # noqa: N802
        self, request: consumers_pb2.OpenConsumerRequest, context: Context
    ) -> consumers_pb2.OpenConsumerResponse:
        """Begins to read as a consumer."""
        opened = await self._consumers.open_consumer(
            request.consumer_id, list(request.table_uuids), request.holder, by=principal()
        )
        return consumers_pb2.OpenConsumerResponse(consumers=[to_proto_consumer(consumer) for consumer in opened])

    async def AdvanceConsumer(  # noqa: N802
        self, request: consumers_pb2.AdvanceConsumerRequest, context: Context
    ) -> consumers_pb2.AdvanceConsumerResponse:
        """Moves a consumer's positions."""
        positions = [from_proto_position(position) for position in request.positions]
        await self._consumers.advance_consumer(request.consumer_id, positions, by=principal())
        return consumers_pb2.AdvanceConsumerResponse()

    async def RenewConsumer(  # noqa: N802
        self, request: consumers_pb2.RenewConsumerRequest, context: Context
    ) -> consumers_pb2.RenewConsumerResponse:
        """Records that a reader is there, or has closed."""
        epochs = {each.table_uuid: each.epoch for each in request.epochs}
        await self._consumers.renew_consumer(request.consumer_id, epochs, request.holder, by=principal())
        return consumers_pb2.RenewConsumerResponse()

    async def ListConsumers(  # noqa: N802
        self, request: consumers_pb2.ListConsumersRequest, context: Context
    ) -> consumers_pb2.ListConsumersResponse:
        """Lists a table's consumers."""
        found = await self._consumers.list_consumers(request.table_uuid)
        return consumers_pb2.ListConsumersResponse(consumers=[to_proto_consumer(consumer) for consumer in found])

    async def ResetConsumer(  # noqa: N802
        self, request: consumers_pb2.ResetConsumerRequest, context: Context
    ) -> consumers_pb2.ResetConsumerResponse:
        """Sets a consumer's position."""
        await self._consumers.reset_consumer(
            request.table_uuid, request.consumer_id, request.snapshot_id, by=principal()
        )
        return consumers_pb2.ResetConsumerResponse()

    async def DeleteConsumer(  # noqa: N802
        self, request: consumers_pb2.DeleteConsumerRequest, context: Context
    ) -> consumers_pb2.DeleteConsumerResponse:
        """Forgets a consumer."""
        await self._consumers.delete_consumer(request.table_uuid, request.consumer_id, by=principal())
        return consumers_pb2.DeleteConsumerResponse()
