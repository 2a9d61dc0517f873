"""Column statistics of many files, with the columns' own types and present names. No loop over files.

A bound of a long text is cut when it is stored (`lakelog.format.tables.statistics.BOUND_LENGTH`): it is shown with `…`
after what is known of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.keys.decoding import EncodedKeys, gather, unescape
from lakelog.format.tables.packed_statistics import decode_column
from lakelog.format.types.schema import TableSchema, field_id
from lakelog.format.types.types import is_primitive

_CUT: Final = "…"
_CONTINUATION: Final = 0b1000_0000


def statistics_type(schema: TableSchema) -> pa.DataType:
    """A struct with a field for each single-valued column: its bounds and how many values are NULL. Pure."""
    return pa.struct(
        [
            pa.field(each.name, pa.struct([("min", each.type), ("max", each.type), ("nulls", pa.int64())]))
            for each in schema.arrow
            if is_primitive(each.type)
        ]
    )


def decode_statistics(
    encoded: pa.BinaryArray, schema_ids: pa.Array, schema: TableSchema, file_schemas: Mapping[int, TableSchema]
) -> pa.Array:
    """Returns the statistics of files, found by field id. Pure.

    Args:
        encoded: As `lakelog.format.tables.packed_statistics` stores them; NULL: there are none.
        schema_ids: The schema that each file was written with.
        schema: The schema to show them with.
        file_schemas: Every schema that a file was written with, by id.

    Returns:
        Values of `statistics_type(schema)`; a column that a file says nothing of is NULL.
    """
    if not statistics_type(schema).num_fields:
        return pa.nulls(len(encoded), statistics_type(schema))
    columns = [
        _decode_column(encoded, schema_ids, each, file_schemas) for each in schema.arrow if is_primitive(each.type)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(statistics_type(schema)))


def _decode_column(
    encoded: pa.BinaryArray, schema_ids: pa.Array, field: pa.Field, file_schemas: Mapping[int, TableSchema]
) -> pa.Array:
    bounds = decode_column(encoded, field_id(field))
    fields = pa.struct([("min", field.type), ("max", field.type), ("nulls", pa.int64())])
    values = []
    for each, is_upper in ((bounds.min_value, False), (bounds.max_value, True)):
        shown = pa.nulls(len(encoded), field.type)
        for stored, ids in _stored_types(field, file_schemas).items():
            # Those of a later, wider type may not fit into this one.
            is_own = pc.is_in(schema_ids, value_set=pa.array(ids, schema_ids.type))
            own = pc.if_else(is_own, each, pa.scalar(None, pa.binary()))
            found = _decode_bounds(own, stored, is_upper=is_upper)
            shown = pc.coalesce(found.cast(field.type, safe=False), shown)
        values.append(shown)
    return pa.StructArray.from_arrays(
        [*values, bounds.null_count], fields=list(fields), mask=bounds.null_count.is_null()
    )


def _stored_types(field: pa.Field, file_schemas: Mapping[int, TableSchema]) -> dict[pa.DataType, list[int]]:
    """The types that a column had, each with the schemas in which it had it: a widened column had several."""
    found: dict[pa.DataType, list[int]] = {}
    for schema_id, schema in file_schemas.items():
        stored = next((each.type for each in schema.arrow if field_id(each) == field_id(field)), None)
        if stored is not None:
            found.setdefault(stored, []).append(schema_id)
    return found


def _decode_bounds(encoded: pa.Array, data_type: pa.DataType, *, is_upper: bool) -> pa.Array:
    if not (pt.is_string(data_type) or pt.is_binary(data_type)):
        return EncodedKeys(encoded).take_column(data_type)
    is_cut = pc.fill_null(pc.not_equal(pc.binary_slice(encoded, -2), b"\x00\x00"), False)
    whole = unescape(pc.binary_slice(encoded, 1, -2))
    values = pc.if_else(is_cut, _to_prefixes(pc.fill_null(encoded, b"\x01"), is_upper=is_upper), whole)
    if pt.is_binary(data_type):
        return values
    texts = values.cast(pa.string())
    return pc.if_else(is_cut, pc.binary_join_element_wise(texts, _CUT, ""), texts)


def _to_prefixes(encoded: pa.Array, *, is_upper: bool) -> pa.Array:
    """What is known of cut values: their first bytes, without a half character at the end."""
    buffers = encoded.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[encoded.offset : encoded.offset + len(encoded) + 1].astype(np.int64)
    data = np.frombuffer(buffers[2], np.uint8).copy()
    starts, ends = offsets[:-1] + 1, offsets[1:].copy()
    if is_upper:
        # An upper bound that is cut is the next greater prefix (`upper_bound`).
        data[ends[ends > starts] - 1] -= 1
    return unescape(gather(data, starts, np.maximum(_end_of_characters(data, starts, ends) - starts, 0)))


def _end_of_characters(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]],
    starts: np.ndarray[tuple[int], np.dtype[np.int64]],
    ends: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where the last whole character of each text in UTF-8 ends. A character has at most four bytes."""
    result = ends.copy()
    is_open = ends > starts
    for length in range(1, 5):
        place = ends - length
        is_open = is_open & (place >= starts)
        byte = data[np.maximum(place, 0)]
        is_lead = is_open & ((byte & 0b1100_0000) != _CONTINUATION)
        needed = np.where(byte < 0x80, 1, np.where(byte < 0xE0, 2, np.where(byte < 0xF0, 3, 4)))
        result[is_lead & (needed > length)] = place[is_lead & (needed > length)]
        is_open = is_open & ~is_lead
    return result
