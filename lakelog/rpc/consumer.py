"""Consumers on the wire."""

from __future__ import annotations

from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import consumers_pb2


def to_proto_consumer(consumer: Consumer) -> consumers_pb2.Consumer:
    """Translates a consumer."""
    return build(
        consumers_pb2.Consumer,
        consumer_id=consumer.consumer_id,
        table_uuid=consumer.table_uuid,
        epoch=consumer.epoch,
        snapshot_id=consumer.snapshot_id,
        snapshot_uuid=consumer.snapshot_uuid,
        holder=consumer.holder,
        used_at_ms=consumer.used_at_ms,
        expires_at_ms=consumer.expires_at_ms,
        expired=consumer.is_expired,
    )


def from_proto_consumer(message: consumers_pb2.Consumer) -> Consumer:
    """Translates a consumer back."""
    return Consumer(
        consumer_id=message.consumer_id,
        table_uuid=message.table_uuid,
        epoch=message.epoch,
        snapshot_id=message.snapshot_id if message.HasField("snapshot_id") else None,
        snapshot_uuid=message.snapshot_uuid,
        holder=message.holder,
        used_at_ms=message.used_at_ms,
        expires_at_ms=message.expires_at_ms,
        is_expired=message.expired,
    )


def to_proto_position(position: ConsumerPosition) -> consumers_pb2.ConsumerPosition:
    """Translates a position to move to."""
    return build(
        consumers_pb2.ConsumerPosition,
        table_uuid=position.table_uuid,
        epoch=position.epoch,
        snapshot_id=position.snapshot_id,
        snapshot_uuid=position.snapshot_uuid,
    )


def from_proto_position(message: consumers_pb2.ConsumerPosition) -> ConsumerPosition:
    """Translates a position to move to back."""
    return ConsumerPosition(message.table_uuid, message.epoch, message.snapshot_id, message.snapshot_uuid)
