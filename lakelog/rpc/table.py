"""Databases, tables, grants on them, their logs, and how far these are published, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.log.state import LogInfo, PublishReport, PublishState, SnapshotOffsets
from lakelog.format.tables.grant import Grant, Granted, GrantLevel
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.rpc.messages import build
from lakelog.rpc.schema import from_proto_schema, to_proto_schema
from lakelog.rpc.translation import Translation, translate_enum
from lakelog.rpc.v1 import catalog_pb2, grants_pb2, logs_pb2, publishing_pb2, types_pb2


def to_proto_table(table: TableInfo) -> types_pb2.Table:
    """Translates the catalog's description of a table."""
    return build(
        types_pb2.Table,
        table_uuid=table.table_uuid,
        database=table.name.database,
        name=table.name.name,
        location=table.location,
        schema=to_proto_schema(table.schema),
        options=dict(table.options),
        latest_snapshot_id=table.latest_snapshot_id,
        created_at_ms=table.created_at_ms,
        comment=table.comment,
    )


def from_proto_table(message: types_pb2.Table) -> TableInfo:
    """Translates a table back.

    Raises:
        InvalidArgument: Its schema cannot be read.
    """
    return TableInfo(
        table_uuid=message.table_uuid,
        name=TableName(message.database, message.name),
        location=message.location,
        schema=from_proto_schema(message.schema, "table.schema"),
        options=dict(message.options),
        latest_snapshot_id=message.latest_snapshot_id,
        created_at_ms=message.created_at_ms,
        comment=message.comment,
    )


TABLE_NAME: Final = Translation(TableName, catalog_pb2.TableName)
to_proto_table_name, from_proto_table_name = TABLE_NAME.both
to_proto_database, from_proto_database = Translation(DatabaseInfo, catalog_pb2.Database).both

GRANT_LEVEL: Final = translate_enum(
    {
        GrantLevel.READER: grants_pb2.GRANT_LEVEL_READER,
        GrantLevel.WRITER: grants_pb2.GRANT_LEVEL_WRITER,
        GrantLevel.OWNER: grants_pb2.GRANT_LEVEL_OWNER,
    },
    "level",
    "Use reader (1), writer (2) or owner (3)",
    zero="is not given",
)
to_proto_grant, from_proto_grant = Translation(Grant, grants_pb2.Grant, fields={"level": GRANT_LEVEL}).both
to_proto_granted, from_proto_granted = Translation(
    Granted, grants_pb2.GrantResponse, fields={"grant": (to_proto_grant, from_proto_grant)}
).both

to_proto_log, from_proto_log = Translation(LogInfo, logs_pb2.LogInfo, fields={"name": TABLE_NAME.both}).both

_OFFSETS: Final = Translation(SnapshotOffsets, publishing_pb2.SnapshotOffsets)
_STATE: Final = Translation(PublishState, publishing_pb2.GetPublishStateResponse, apart=("table_uuid",))
to_proto_offsets, from_proto_offsets = _OFFSETS.both
to_proto_report, from_proto_report = Translation(
    PublishReport, publishing_pb2.ReportPublishedRequest, fields={"snapshots": _OFFSETS.both}
).both
to_proto_publish_state = _STATE.to_proto


def from_proto_publish_state(message: publishing_pb2.GetPublishStateResponse, table_uuid: str) -> PublishState:
    """Translates how far a log is published back; its table is that of the request."""
    return _STATE.from_proto(message, table_uuid=table_uuid)
