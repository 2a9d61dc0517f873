"""Schemas on the wire: Arrow's IPC bytes, with checks, since any client may send them."""

from __future__ import annotations

import pyarrow as pa

from lakelog.format.types.schema import TableSchema
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import types_pb2


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
