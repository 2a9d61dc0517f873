"""Dropped tables on the wire."""

from __future__ import annotations

from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.rpc.messages import build
from lakelog.rpc.table import from_proto_table, from_proto_table_name, to_proto_table, to_proto_table_name
from lakelog.rpc.v1 import dropped_pb2


def to_proto_dropped(dropped: DroppedTable) -> dropped_pb2.DroppedTable:
    """Translates a dropped table."""
    return build(
        dropped_pb2.DroppedTable,
        table_uuid=dropped.table_uuid,
        name=to_proto_table_name(dropped.name),
        location=dropped.location,
        dropped_at_ms=dropped.dropped_at_ms,
        kept_until_ms=dropped.kept_until_ms,
        is_purged=dropped.is_purged,
    )


def from_proto_dropped(message: dropped_pb2.DroppedTable) -> DroppedTable:
    """Translates a dropped table back."""
    return DroppedTable(
        table_uuid=message.table_uuid,
        name=from_proto_table_name(message.name),
        location=message.location,
        dropped_at_ms=message.dropped_at_ms,
        kept_until_ms=message.kept_until_ms,
        is_purged=message.is_purged,
    )


def to_proto_restored(restored: RestoredTable) -> dropped_pb2.RestoreTableResponse:
    """Translates a table that was restored."""
    return build(
        dropped_pb2.RestoreTableResponse,
        table=to_proto_table(restored.table),
        dropped_at_ms=restored.dropped_at_ms,
        others=restored.others,
    )


def from_proto_restored(message: dropped_pb2.RestoreTableResponse) -> RestoredTable:
    """Translates a table that was restored back."""
    return RestoredTable(from_proto_table(message.table), message.dropped_at_ms, message.others)
