"""Schemas and their changes on the wire: Arrow's IPC bytes, with checks, since any client may send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt

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
from lakelog.format.types.defaults import from_text, to_text
from lakelog.format.types.evolution import to_path, to_type
from lakelog.format.types.schema import TableSchema
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import catalog_pb2, types_pb2

_VALUE_KEY: Final = b"value"
"""In the metadata of a field that carries one value: its text. No batch, since one could unpack to any size."""


def to_proto_schema(schema: TableSchema) -> types_pb2.TableSchema:
    """Translates one version of a table's schema."""
    return build(
        types_pb2.TableSchema,
        schema_id=schema.schema_id,
        arrow_schema=schema.to_ipc(),
        primary_key=schema.primary_key,
        partition_by=schema.partition_by,
        created_at_ms=schema.created_at_ms,
        created_by=schema.created_by,
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
        message.created_at_ms if message.HasField("created_at_ms") else None,
        message.created_by,
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
        schema = pa.ipc.read_schema(pa.py_buffer(ipc))
        _decode_texts(list(schema))
        return schema
    # Damaged flatbuffers raise any of Arrow's errors; a short read raises OSError, and names that are not valid UTF-8
    # raise UnicodeDecodeError.
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        cause = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise refusal(
            field, f"({len(ipc)} bytes) is not an Arrow schema in IPC format: {cause}", "Send schema.serialize()"
        ) from error


def _decode_texts(fields: Sequence[pa.Field]) -> None:
    """Looks at all names and time zones, which are decoded only then. Arrow bounds the depth."""
    for field in fields:
        data_type = field.type.value_type if pt.is_dictionary(field.type) else field.type
        _ = field.name, getattr(data_type, "tz", None)
        _decode_texts([data_type.field(place) for place in range(data_type.num_fields)])


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
        values = _to_plain(pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value]))
        field = pa.field("value", pa.null())
        if values.null_count == 0:
            field = pa.field("value", values.type, metadata={_VALUE_KEY: to_text(values)})
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        raise InvalidArgument(
            f"{value!r:.100} cannot be the default of column '{name}': {str(error).splitlines()[0][:200]}.",
            reason="INVALID_DEFAULT",
            metadata={"column": name},
        ) from error
    return to_ipc_schema(pa.schema([field]))


def _to_plain(values: pa.Array) -> pa.Array:
    """The same value, in a type whose texts are read back."""
    data_type = values.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _to_plain(values.storage)
    if pt.is_dictionary(data_type):
        return values.dictionary_decode()
    if pt.is_large_binary(data_type) or pt.is_fixed_size_binary(data_type):
        return values.cast(pa.binary())
    return values.cast(pa.timestamp(data_type.unit, "UTC")) if getattr(data_type, "tz", None) else values


def _from_ipc_value(data: bytes, field: str) -> pa.Scalar | None:
    if not data:
        return None
    value = _from_ipc_field(data, field)
    if pt.is_null(value.type):
        return None
    text = (value.metadata or {}).get(_VALUE_KEY)
    if text is None:
        raise refusal(
            field, f"({len(data)} bytes) has no value", "Send its text in the field's metadata, under 'value'"
        )
    try:
        return from_text(text, value.type)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise refusal(
            field, f"({len(data)} bytes) has no value of type {str(value.type)[:200]}", "Send the text of one"
        ) from error


def _from_ipc_field(ipc: bytes, field: str) -> pa.Field:
    schema = from_ipc_schema(ipc, field)
    if len(schema) != 1:
        raise refusal(field, f"has {len(schema)} fields", "Send a schema with one field")
    return schema.field(0)
