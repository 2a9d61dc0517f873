"""Defaults of columns, in the metadata of their fields, as Iceberg has them: two for each column.

Rows that were there before a column show its *initial* default, which never changes. A write that leaves the column out
stores its *write* default. Both are kept as text, which Arrow casts to the column's type and back without loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.types.convert import ValueLost, convert_values, find_mismatch
from lakelog.format.types.types import canonical_type

INITIAL_DEFAULT_KEY: Final = b"initial-default"
WRITE_DEFAULT_KEY: Final = b"write-default"

MAX_DEFAULT_BYTES: Final = 4096
"""The longest default: each plan and each file carries it in its schema."""


def to_default_text(value: Any, field: pa.Field) -> bytes:
    """The text of a default. Pure.

    Args:
        value: A Python value or a scalar of Arrow; not NULL.
        field: The column, with its canonical type.

    Raises:
        InvalidArgument: The type has no defaults, or the value does not fit it; names the column.
    """
    if pt.is_nested(field.type):
        raise _refusal(value, field, "Only columns of single values have defaults: leave it out, for NULL")
    try:
        # A text such as 0.1 has no exact float: the nearest one is meant.
        given_type = field.type if isinstance(value, float) and pt.is_floating(field.type) else None
        given = pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value], given_type)
        mismatch = find_mismatch(given.type, field.type)
        if mismatch is not None:
            raise _refusal(value, field, f"It has type {given.type}: {mismatch}")
        converted = convert_values(given, field)
        text = to_text(converted)
        if len(text) > MAX_DEFAULT_BYTES:
            raise _refusal(value, field, f"It has {len(text)} bytes, and at most {MAX_DEFAULT_BYTES} are possible")
        if not from_text(text, field.type).equals(converted[0]) and not pt.is_floating(field.type):
            raise _refusal(value, field, "It is beyond the years 0001 to 9999")
        return text
    except ValueLost as error:
        raise _refusal(value, field, f"In this type, {error}") from error
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        raise _refusal(value, field, str(error).splitlines()[0][:200]) from error


def with_defaults(schema: pa.Schema, defaults: Mapping[str, Any]) -> pa.Schema:
    """The columns of a new table with what writes store that leave them out. Pure.

    Args:
        schema: The columns, of any types that a table can have.
        defaults: Values by column; None: NULL.

    Raises:
        InvalidArgument: There is no such column, or a value does not fit it; named.
    """
    unknown = [name for name in defaults if name not in schema.names]
    if unknown:
        raise InvalidArgument(
            f"defaults names the column '{unknown[0]}', which is not in the schema: {', '.join(schema.names[:20])}.",
            reason="UNKNOWN_COLUMN",
            metadata={"column": unknown[0]},
        )
    fields = []
    for field in schema:
        if defaults.get(field.name) is not None:
            canonical = field.with_type(canonical_type(field.type, field.name))
            text = to_default_text(defaults[field.name], canonical)
            field = field.with_metadata({**(field.metadata or {}), WRITE_DEFAULT_KEY: text})
        fields.append(field)
    return pa.schema(fields, schema.metadata)


def initial_default(field: pa.Field) -> pa.Scalar | None:
    """What rows without the column show; None: NULL."""
    return _read(field, INITIAL_DEFAULT_KEY)


def write_default(field: pa.Field) -> pa.Scalar | None:
    """What a write stores that leaves the column out; None: NULL."""
    return _read(field, WRITE_DEFAULT_KEY)


def show_default(field: pa.Field) -> str | None:
    """The text of what a write stores that leaves the column out; None: NULL."""
    text = (field.metadata or {}).get(WRITE_DEFAULT_KEY)
    return None if text is None else text.decode()


def fill_initial(field: pa.Field, count: int) -> pa.Array:
    """Values of a column for so many rows that were written before there was one."""
    value = initial_default(field)
    return pa.nulls(count, field.type) if value is None else pa.repeat(value, count)


def fill_left_out(field: pa.Field, count: int) -> pa.Array:
    """Values of a column for so many rows of a write that leaves it out."""
    value = write_default(field)
    return pa.nulls(count, field.type) if value is None else pa.repeat(value, count)


def _read(field: pa.Field, key: bytes) -> pa.Scalar | None:
    text = (field.metadata or {}).get(key)
    if text is None:
        return None
    try:
        return from_text(text, field.type)
    except (pa.ArrowException, ValueError) as error:
        raise _refusal(text.decode(errors="replace"), field, "It is no value of this type") from error


def to_text(values: pa.Array) -> bytes:
    """The text of an array's first value, which is not NULL. Pure.

    Raises:
        pa.ArrowException: The type has no text.
    """
    if pt.is_binary(values.type):
        return bytes(values[0].as_py()).hex().encode()
    return str(values.cast(pa.string())[0].as_py()).encode()


def from_text(text: bytes, data_type: pa.DataType) -> pa.Scalar:
    """The value with a text. Pure.

    Raises:
        pa.ArrowException, ValueError: The text is no value of the type.
    """
    if pt.is_binary(data_type):
        return pa.scalar(bytes.fromhex(text.decode()), data_type)
    return pc.cast(pa.scalar(text.decode()), data_type)


def _refusal(value: Any, field: pa.Field, why: str) -> InvalidArgument:
    try:
        shown = repr(str(value)[:80])
    except (ValueError, OverflowError):
        # A time beyond those of Python.
        shown = "This value"
    return InvalidArgument(
        f"{shown} cannot be the default of column '{field.name}' of type {field.type}. {why}.",
        reason="INVALID_DEFAULT",
        metadata={"column": field.name, "type": str(field.type)[:200]},
    )
