"""Databases and tables on the wire."""

from __future__ import annotations

from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.rpc.messages import build
from lakelog.rpc.schema import from_proto_schema, to_proto_schema
from lakelog.rpc.v1 import catalog_pb2, types_pb2


def to_proto_table(table: TableInfo) -> types_pb2.Table:
    """Translates what the catalog knows of a table."""
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


def to_proto_table_name(name: TableName) -> catalog_pb2.TableName:
    """Translates a table's full name."""
    return build(catalog_pb2.TableName, database=name.database, name=name.name)


def from_proto_table_name(message: catalog_pb2.TableName) -> TableName:
    """Translates a table's full name back."""
    return TableName(message.database, message.name)


def to_proto_database(database: DatabaseInfo) -> catalog_pb2.Database:
    """Translates a database."""
    return build(
        catalog_pb2.Database,
        name=database.name,
        comment=database.comment,
        table_count=database.table_count,
        size_bytes=database.size_bytes,
    )


def from_proto_database(message: catalog_pb2.Database) -> DatabaseInfo:
    """Translates a database back."""
    return DatabaseInfo(message.name, message.comment, message.table_count, message.size_bytes)
