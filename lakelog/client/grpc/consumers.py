"""Consumers over gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.client.connection.calls import Calls
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.rpc.messages import build
from lakelog.rpc.retention import from_proto_consumer, to_proto_position
from lakelog.rpc.v1 import consumers_pb2


class GrpcConsumers:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about named readers."""

    _calls: Calls

    def open_consumer(self, consumer_id: str, table_uuids: Sequence[str], holder: str) -> list[Consumer]:
        """Begins to read as a consumer. Repeated: a lost answer means that this caller itself may have opened it."""
        request = build(
            consumers_pb2.OpenConsumerRequest, consumer_id=consumer_id, table_uuids=table_uuids, holder=holder
        )
        response = self._calls.mutate("OpenConsumer", lambda on: on.consumers.OpenConsumer, request)
        return [from_proto_consumer(consumer) for consumer in response.consumers]

    def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition]) -> None:
        """Moves a consumer's positions. Repeated: idempotent."""
        request = build(
            consumers_pb2.AdvanceConsumerRequest,
            consumer_id=consumer_id,
            positions=[to_proto_position(position) for position in positions],
        )
        self._calls.mutate("AdvanceConsumer", lambda on: on.consumers.AdvanceConsumer, request)

    def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str) -> None:
        """Reports that a reader is there, or has closed. Repeated: idempotent."""
        request = build(
            consumers_pb2.RenewConsumerRequest,
            consumer_id=consumer_id,
            epochs=[build(consumers_pb2.ConsumerEpoch, table_uuid=uuid, epoch=epoch) for uuid, epoch in epochs.items()],
            holder=holder,
        )
        self._calls.mutate("RenewConsumer", lambda on: on.consumers.RenewConsumer, request)

    def list_consumers(self, table_uuid: str) -> list[Consumer]:
        """A table's consumers by id."""
        request = build(consumers_pb2.ListConsumersRequest, table_uuid=table_uuid)
        response = self._calls.read("ListConsumers", lambda on: on.consumers.ListConsumers, request)
        return [from_proto_consumer(consumer) for consumer in response.consumers]

    def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int) -> None:
        """Sets a consumer's position. Repeated: idempotent except for its epoch."""
        request = build(
            consumers_pb2.ResetConsumerRequest,
            table_uuid=table_uuid,
            consumer_id=consumer_id,
            snapshot_id=snapshot_id,
        )
        self._calls.mutate("ResetConsumer", lambda on: on.consumers.ResetConsumer, request)

    def delete_consumer(self, table_uuid: str, consumer_id: str) -> None:
        """Forgets a consumer. Not repeated after an unknown outcome."""
        request = build(consumers_pb2.DeleteConsumerRequest, table_uuid=table_uuid, consumer_id=consumer_id)
        self._calls.mutate("DeleteConsumer", lambda on: on.consumers.DeleteConsumer, request, repeat_unknown=False)
