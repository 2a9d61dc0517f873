"""Objects of many JSON texts read by Arrow's own reader: the quick way, for texts in which nothing is unusual.

It reads all or nothing: whatever it does not take (a damaged text, a map, NaN as a string, a name that comes twice) is
left to `values.py`, which is several times slower and knows which text is wrong. What both read is equal.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pj
from pyarrow import types as pt

from lakelog.format.types.decimal_text import has_shrinking_exponents
from lakelog.log.codecs.base64_text import from_base64
from lakelog.log.codecs.time_texts import from_iso_texts

_READ: Final = pj.ReadOptions(use_threads=False, block_size=(1 << 31) - 1)
"""As one block, of however many bytes there are."""


class _UnusualError(Exception):
    """Something that is left to the other way."""


def read_objects(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """The objects' members as columns of these types; None: left to the other way. Pure.

    Args:
        texts: Binary without NULL.
        schema: Names and canonical types; other members are passed over, missing ones are NULL.
    """
    # What begins and ends with a brace cannot be half of an object that goes on in the next line; so where there are as
    # many objects as texts each text is one.
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, rb"(?s)^\{.*\}$")).as_py():
        return None
    joined = pc.binary_join_element_wise(texts, b"\n", b"")
    _, offsets, data = joined.buffers()
    length = int(np.frombuffer(offsets, np.int32, 1, 4 * (joined.offset + len(joined)))[0])
    rows = read_lines(data.slice(0, length), schema, ignore_unknown=True)
    return rows if rows is not None and len(rows) == len(texts) else None


def read_lines(
    data: pa.Buffer, schema: pa.Schema, *, ignore_unknown: bool, needs_zone: bool = False
) -> pa.Table | None:
    """The members of objects in lines as columns of these types, as `read_objects`. Pure.

    Args:
        data: The lines; an object may take several, and there may be several in one.
        schema: Names and canonical types; missing members are NULL.
        ignore_unknown: Whether other members are passed over, rather than left to the other way.
        needs_zone: As of `from_iso_texts`.
    """
    if _holds_decimals(pa.struct(list(schema))) and has_shrinking_exponents(data):
        return None
    try:
        plain = pa.schema([pa.field(field.name, _to_plain(field.type)) for field in schema])
        parsing = pj.ParseOptions(
            explicit_schema=plain, unexpected_field_behavior="ignore" if ignore_unknown else "error"
        )
        rows = pj.read_json(pa.BufferReader(data), read_options=_READ, parse_options=parsing)
        columns = [_from_plain(rows[field.name].combine_chunks(), field.type, needs_zone) for field in schema]
    except (_UnusualError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return pa.Table.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def can_read(schema: pa.Schema) -> bool:
    """Whether `read_lines` knows these types. Pure."""
    try:
        return all(_to_plain(field.type) is not None for field in schema)
    except _UnusualError:
        return False


def _holds_decimals(data_type: pa.DataType) -> bool:
    if pt.is_map(data_type):
        return False
    if pt.is_struct(data_type) or pt.is_list(data_type):
        return any(_holds_decimals(data_type.field(place).type) for place in range(data_type.num_fields))
    return bool(pt.is_decimal(data_type))


def _to_plain(data_type: pa.DataType) -> pa.DataType:
    """The type that a column is read as."""
    if pt.is_map(data_type):
        raise _UnusualError
    if pt.is_struct(data_type):
        return pa.struct([pa.field(field.name, _to_plain(field.type)) for field in data_type.fields])
    if pt.is_list(data_type):
        return pa.list_(pa.field("element", _to_plain(data_type.value_type)))
    return pa.string() if pt.is_temporal(data_type) or pt.is_binary(data_type) else data_type


def _from_plain(column: pa.Array, data_type: pa.DataType, needs_zone: bool) -> pa.Array:
    if pt.is_struct(data_type):
        children = [
            _check_nulls(_from_plain(column.field(place), field.type, needs_zone), field, column)
            for place, field in enumerate(data_type.fields)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=data_type.fields, mask=mask)
    if pt.is_list(data_type):
        elements = _check_nulls(
            _from_plain(column.values, data_type.value_type, needs_zone), data_type.value_field, None
        )
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, elements, type=data_type, mask=mask)
    if pt.is_floating(data_type):
        # JSON has no such numbers, but Arrow's reader has.
        if pc.all(pc.is_finite(column)).as_py() is False:
            raise _UnusualError
        return column
    if pt.is_string(column.type):
        # Arrow's reader takes any bytes for a string.
        column.validate(full=True)
    if pt.is_temporal(data_type) or pt.is_binary(data_type):
        is_time = pt.is_temporal(data_type)
        found, wrong = from_iso_texts(column, data_type, needs_zone=needs_zone) if is_time else from_base64(column)
        if wrong.any():
            raise _UnusualError
        return found
    return column


def _check_nulls(column: pa.Array, field: pa.Field, parent: pa.Array | None) -> pa.Array:
    if field.nullable or not column.null_count:
        return column
    if parent is None or pc.any(pc.and_(column.is_null(), parent.is_valid())).as_py():
        raise _UnusualError
    return column
