"""Databases, tables, grants on them, their logs, and how far these are published, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.log.state import LogInfo, PublishReport, PublishState, SnapshotOffsets
from lakelog.format.tables.grant import CallerRole, Grant, Granted, GrantLevel, Identity, SignIn
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

_to_proto_role, _from_proto_role = translate_enum(
    {
        CallerRole.USER: grants_pb2.CALLER_ROLE_USER,
        CallerRole.READER: grants_pb2.CALLER_ROLE_READER,
        CallerRole.WRITER: grants_pb2.CALLER_ROLE_WRITER,
        CallerRole.ADMIN: grants_pb2.CALLER_ROLE_ADMIN,
    },
    "role",
    "Use user (1) to admin (4)",
)
_to_proto_sign_in, _from_proto_sign_in = translate_enum(
    {
        SignIn.NONE: grants_pb2.SIGN_IN_NONE,
        SignIn.TOKEN: grants_pb2.SIGN_IN_TOKEN,
        SignIn.SIGNED_TOKEN: grants_pb2.SIGN_IN_SIGNED_TOKEN,
        SignIn.CERTIFICATE: grants_pb2.SIGN_IN_CERTIFICATE,
    },
    "sign_in",
    "Use none (1) to certificate (4)",
)


def to_proto_identity(identity: Identity) -> grants_pb2.WhoAmIResponse:
    """Translates who a caller is."""
    write_level, _ = GRANT_LEVEL
    return build(
        grants_pb2.WhoAmIResponse,
        name=identity.name,
        role=_to_proto_role(identity.role),
        sign_in=_to_proto_sign_in(identity.sign_in),
        until_ms=identity.until_ms,
        rights=[
            build(grants_pb2.TableRight, table_uuid=uuid, level=write_level(level))
            for uuid, level in identity.levels.items()
        ],
    )


def from_proto_identity(message: grants_pb2.WhoAmIResponse) -> Identity:
    """Translates who a caller is back."""
    _, read_level = GRANT_LEVEL
    return Identity(
        message.name,
        _from_proto_role(message.role),
        _from_proto_sign_in(message.sign_in),
        message.until_ms,
        {each.table_uuid: read_level(each.level) for each in message.rights},
    )


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
