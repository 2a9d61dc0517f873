"""Consumers on the wire."""

from __future__ import annotations

from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import consumers_pb2

to_proto_consumer, from_proto_consumer = Translation(
    Consumer, consumers_pb2.Consumer, names={"is_expired": "expired"}
).both
to_proto_position, from_proto_position = Translation(ConsumerPosition, consumers_pb2.ConsumerPosition).both
