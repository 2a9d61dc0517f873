"""Schemas and their changes on the wire: Arrow's IPC bytes, with checks, since any client may send them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from lakelog.format.types.evolution import to_path, to_type
from lakelog.format.types.schema import TableSchema
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import catalog_pb2, types_pb2


def to_proto_schema(schema: TableSchema) -> types_pb2.TableSchema:
    """Translates one version of a table's schema."""
    return build(
        types_pb2.TableSchema,
        schema_id=schema.schema_id,
        arrow_schema=schema.to_ipc(),
        primary_key=schema.primary_key,
        partition_by=schema.partition_by,
    )


def from_proto_schema(message: types_pb2.TableSchema, field: str = "schema") -> TableSchema:
    """Translates one version of a table's schema back.

    Args:
        message: The wire form.
        field: Its place in the request or response, for the error.

    Raises:
        InvalidArgument: `arrow_schema` is not an Arrow IPC schema.
    """
    return TableSchema(
        message.schema_id,
        from_ipc_schema(message.arrow_schema, f"{field}.arrow_schema"),
        tuple(message.primary_key),
        tuple(message.partition_by),
    )


def to_ipc_schema(schema: pa.Schema) -> bytes:
    """An Arrow schema in IPC format."""
    return schema.serialize().to_pybytes()


def from_ipc_schema(ipc: bytes, field: str) -> pa.Schema:
    """Reads an Arrow schema in IPC format.

    Args:
        ipc: An encapsulated schema message.
        field: Its place in the request or response, for the error.

    Raises:
        InvalidArgument: The bytes are something else.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(ipc))
    # Damaged flatbuffers raise any of Arrow's errors; a short read raises OSError, and names that are not valid UTF-8
    # raise UnicodeDecodeError.
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        cause = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise refusal(
            field, f"({len(ipc)} bytes) is not an Arrow schema in IPC format: {cause}", "Send schema.serialize()"
        ) from error


def to_proto_column_change(change: ColumnChange) -> catalog_pb2.ColumnChange:
    """Translates a change of a column.

    Raises:
        InvalidArgument: Its path, type or default is none; names the column.
    """
    path = to_path(change.column)
    name = ".".join(path)
    message: dict[str, Any]
    match change:
        case AddColumn():
            field = pa.field(path[-1], to_type(change.data_type, name), bool(change.nullable))
            added = build(
                catalog_pb2.AddColumn,
                field=to_ipc_schema(pa.schema([field])),
                comment=change.comment,
                default_value=b"" if change.default is None else _to_ipc_value(change.default, name),
            )
            if change.first or change.after is not None:
                added.place.CopyFrom(_to_place(name, change.first, change.after))
            message = {"add": added}
        case DropColumn():
            message = {"drop": True}
        case RenameColumn():
            message = {"rename": change.new_name}
        case MoveColumn():
            message = {"move": _to_place(name, change.first, change.after)}
        case WidenColumn():
            field = pa.field(path[-1], to_type(change.data_type, name))
            message = {"widen": to_ipc_schema(pa.schema([field]))}
        case AllowNull():
            message = {"allow_null": True}
        case CommentColumn():
            message = {"comment": change.comment}
        case SetDefault():
            message = {"default_value": _to_ipc_value(change.default, name)}
    return build(catalog_pb2.ColumnChange, path=path, **message)


def from_proto_column_change(message: catalog_pb2.ColumnChange) -> ColumnChange:
    """Translates a change of a column back.

    Raises:
        InvalidArgument: It is incomplete, or what should be Arrow data is something else.
    """
    path = tuple(message.path)
    match message.WhichOneof("change"):
        case "add":
            field = _from_ipc_field(message.add.field, "changes.add.field")
            place = message.add.place
            return AddColumn(
                path,
                field.type,
                field.nullable,
                message.add.comment,
                _from_ipc_value(message.add.default_value, "changes.add.default_value"),
                place.first,
                place.after if place.WhichOneof("place") == "after" else None,
            )
        case "drop":
            return DropColumn(path)
        case "rename":
            return RenameColumn(path, message.rename)
        case "move":
            place = message.move
            return MoveColumn(path, place.first, place.after if place.WhichOneof("place") == "after" else None)
        case "widen":
            return WidenColumn(path, _from_ipc_field(message.widen, "changes.widen").type)
        case "allow_null":
            return AllowNull(path)
        case "comment":
            return CommentColumn(path, message.comment)
        case "default_value":
            return SetDefault(path, _from_ipc_value(message.default_value, "changes.default_value"))
        case _:
            raise refusal("changes.change", "is not given", "Set one of its fields")


def _to_place(name: str, first: bool, after: str | None) -> catalog_pb2.ColumnPlace:
    if first == (after is not None):
        raise InvalidArgument(
            f"The place of column '{name}' is first={first}, after={after!r:.100}: give one of them.",
            metadata={"column": name},
        )
    return build(catalog_pb2.ColumnPlace, after=after) if after is not None else catalog_pb2.ColumnPlace(first=True)


def _to_ipc_value(value: Any, name: str) -> bytes:
    try:
        values = pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value])
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        raise InvalidArgument(
            f"{value!r:.100} cannot be the default of column '{name}': {str(error).splitlines()[0][:200]}.",
            reason="INVALID_DEFAULT",
            metadata={"column": name},
        ) from error
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([values], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _from_ipc_value(data: bytes, field: str) -> pa.Scalar | None:
    if not data:
        return None
    try:
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
        value = batch.column(0)[0]
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, StopIteration) as error:
        raise refusal(
            field, f"({len(data)} bytes) is no Arrow stream with one value", "Send a batch of one row"
        ) from error
    return value if value.is_valid else None


def _from_ipc_field(ipc: bytes, field: str) -> pa.Field:
    schema = from_ipc_schema(ipc, field)
    if len(schema) != 1:
        raise refusal(field, f"has {len(schema)} fields", "Send a schema with one field")
    return schema.field(0)
