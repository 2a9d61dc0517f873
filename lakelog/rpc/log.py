"""External logs of tables on the wire."""

from __future__ import annotations

from lakelog.format.log.state import LogInfo
from lakelog.rpc.messages import build
from lakelog.rpc.table import from_proto_table_name, to_proto_table_name
from lakelog.rpc.v1 import logs_pb2


def to_proto_log(log: LogInfo) -> logs_pb2.LogInfo:
    """Translates a log."""
    return build(
        logs_pb2.LogInfo,
        table_uuid=log.table_uuid,
        name=to_proto_table_name(log.name),
        topic=log.topic,
        topic_id=log.topic_id,
        generation=log.generation,
        starts_after=log.starts_after,
        is_named=log.is_named,
        options=dict(log.options),
        problem=log.problem,
    )


def from_proto_log(message: logs_pb2.LogInfo) -> LogInfo:
    """Translates a log back."""
    return LogInfo(
        table_uuid=message.table_uuid,
        name=from_proto_table_name(message.name),
        topic=message.topic,
        topic_id=message.topic_id,
        generation=message.generation,
        starts_after=message.starts_after,
        is_named=message.is_named,
        options=dict(message.options),
        problem=message.problem,
    )
