"""Columns as Avro's binary encoding (Avro 1.12, "Binary Encoding"), whole columns at once. Pure; no loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.byte_columns import from_bytes, to_bounds, to_bytes
from lakelog.log.codecs.json.text import to_decimal_texts

Parts = list[pa.Array | bytes]
"""What stands one behind the other in each row."""

_NULL: Final = b"\x00"
_PRESENT: Final = b"\x02"
"""The branches of a union of null and something else."""
_END: Final = b"\x00"
"""Behind the blocks of an array or map."""


def to_avro(columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
    """Each row as a record.

    Args:
        columns: At least one, of one length.
        fields: Of each column: a nullable one is a union with null, the others have no NULL.

    Returns:
        Binary without NULL.
    """
    parts: Parts = []
    for column, field in zip(columns, fields, strict=True):
        parts += _write_field(column, field)
    return _join(parts)


def _write_field(column: pa.Array, field: pa.Field) -> Parts:
    if not field.nullable:
        return _write(column)
    if not column.null_count:
        return [_PRESENT, *_write(column)]
    present = _join([_PRESENT, *_write(column)])
    return [pc.if_else(column.is_valid(), present, pa.scalar(_NULL, pa.binary()))]


def _write(column: pa.Array) -> Parts:
    """The values; of NULL anything."""
    data_type = column.type
    if pt.is_struct(data_type):
        parts: Parts = []
        for child, field in zip(column.flatten(), data_type.fields, strict=True):
            # SUBTLE: under a struct that is NULL a child is, too, though its field is not nullable.
            parts += _write_field(child, field)
        return parts
    if pt.is_map(data_type):
        entries = column.cast(pa.list_(pa.struct([data_type.key_field, data_type.item_field])))
        keys, items = entries.flatten().flatten()
        # A map's entry is a string and a value, as a record of both is.
        return _write_blocks(entries, _join([*_write(keys), *_write_field(items, data_type.item_field)]))
    if pt.is_list(data_type):
        return _write_blocks(column, _join(_write_field(column.flatten(), data_type.value_field)))
    if pt.is_decimal(data_type):
        return _write_lengths_and_bytes(to_decimal_texts(column))
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return _write_lengths_and_bytes(column)
    return [_write_fixed(column)]


def _write_fixed(column: pa.Array) -> pa.Array:
    data_type = column.type
    if pt.is_boolean(data_type):
        return _from_matrix(np.asarray(column.fill_null(False)).astype(np.uint8)[:, None])
    if pt.is_floating(data_type):
        numbers = column.fill_null(0.0).to_numpy()
        return _from_matrix(
            numbers.astype(numbers.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, numbers.itemsize)
        )
    if pt.is_temporal(data_type):
        column = column.view(pa.int32() if pt.is_date(data_type) else pa.int64())
    return to_varints(column.fill_null(0).to_numpy())


def _write_lengths_and_bytes(column: pa.Array) -> Parts:
    texts = column.fill_null(b"" if pt.is_binary(column.type) else "").cast(pa.binary())
    return [to_varints(np.asarray(pc.binary_length(texts))), texts]


def _write_blocks(lists: pa.Array, elements: pa.Array) -> Parts:
    """Arrays of encoded elements: all in one block."""
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    data, bounds = to_bytes(elements)
    # What is one list's elements stands together already.
    blocks = from_bytes(data, bounds[to_bounds(lengths)])
    counts = pc.if_else(pa.array(lengths > 0), to_varints(lengths), pa.scalar(b"", pa.binary()))
    return [counts, blocks, _END]


def to_varints(numbers: npt.NDArray[Any]) -> pa.Array:
    """Whole numbers in zig-zag coding, seven bits a byte, the lowest first."""
    wide = np.asarray(numbers, dtype=np.int64)
    rest = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    lengths = np.ones(len(rest), dtype=np.int64)
    for count in range(1, 10):
        more = rest >= np.uint64(1) << np.uint64(7 * count)
        if not more.any():
            break
        lengths += more
    longest = int(lengths.max(initial=1))
    places = np.arange(longest)
    matrix = (rest[:, None] >> (places * 7).astype(np.uint64)).astype(np.uint8) & 0x7F
    matrix |= np.where(places < lengths[:, None] - 1, 0x80, 0).astype(np.uint8)
    return from_bytes(matrix[places < lengths[:, None]], to_bounds(lengths))


def _from_matrix(matrix: npt.NDArray[np.uint8]) -> pa.Array:
    return from_bytes(matrix.reshape(-1), np.arange(len(matrix) + 1) * matrix.shape[1])


def _join(parts: Parts) -> pa.Array:
    if len(parts) == 1 and isinstance(parts[0], pa.Array):
        return parts[0]
    return pc.binary_join_element_wise(*(pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in parts), b"")
