"""How large rows can become in the log, told without writing them. Pure; linear without a loop over rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.json.text import to_json_name

Sizes = npt.NDArray[np.int64]

_ESCAPED_BYTES: Final = 6
"""Of a control character: `\\u001f`."""
_TIME_BYTES: Final = 34
"""Of the farthest timestamp, with sign, zone and quotes."""
_FLOAT_BYTES: Final = 26
"""Of `-2.2250738585072014e-308`, and more than any other; those of 32 bits have less."""


def find_row_sizes(rows: pa.Table) -> Sizes:
    """An upper bound of each row's bytes as a JSON object; Avro takes less.

    Args:
        rows: Columns of canonical types.
    """
    sizes = np.full(len(rows), 2, dtype=np.int64)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        sizes += len(to_json_name(name).encode()) + 2
        start = 0
        for chunk in column.chunks:
            sizes[start : start + len(chunk)] += _find_sizes(chunk)
            start += len(chunk)
    return sizes


def find_largest_size(rows: pa.Table) -> int | None:
    """An upper bound of every row's size, for a tenth of what `find_row_sizes` costs; None: there are nested columns.

    Args:
        rows: Columns of canonical types.
    """
    size = 2
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pt.is_nested(column.type):
            return None
        size += len(to_json_name(name).encode()) + 2
        size += max((_find_largest_value(chunk) for chunk in column.chunks if len(chunk)), default=0)
    return size


def _find_largest_value(column: pa.Array) -> int:
    data_type = column.type
    if not (pt.is_string(data_type) or pt.is_binary(data_type)):
        return _find_width(data_type)
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    # Where a value is NULL there may be bytes as well, which makes the bound higher.
    longest = int(np.diff(offsets).max(initial=0))
    return longest * _ESCAPED_BYTES + 4 if pt.is_string(data_type) else (longest + 2) // 3 * 4 + 4


def _find_sizes(column: pa.Array) -> Sizes | int:
    data_type = column.type
    if pt.is_string(data_type):
        return _find_lengths(column) * _ESCAPED_BYTES + 4
    if pt.is_binary(data_type):
        return (_find_lengths(column) + 2) // 3 * 4 + 4
    if not pt.is_nested(data_type):
        return _find_width(data_type)
    if pt.is_struct(data_type):
        sizes = np.full(len(column), 4, dtype=np.int64)
        for field, child in zip(data_type.fields, column.flatten(), strict=True):
            sizes += len(to_json_name(field.name).encode()) + 2 + _find_sizes(child)
        return sizes
    if pt.is_map(data_type):
        # Of `{"key":..,"value":..}`; as an object's member an entry takes less.
        column = column.cast(pa.list_(pa.struct([data_type.key_field, data_type.item_field])))
    lengths = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    return _add_up(_find_sizes(column.flatten()), lengths) + lengths + 4


def _find_lengths(column: pa.Array) -> Sizes:
    return np.asarray(pc.binary_length(column).fill_null(0)).astype(np.int64)


def _add_up(sizes: Sizes | int, lengths: Sizes) -> Sizes:
    if isinstance(sizes, int):
        return lengths * sizes
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    ends = np.cumsum(lengths)
    return sums[ends] - sums[ends - lengths]


def _find_width(data_type: pa.DataType) -> int:
    if pt.is_decimal(data_type):
        return int(data_type.precision) + 6
    if pt.is_integer(data_type):
        # Or `null`; quoted where it is a map's key.
        return {8: 6, 16: 8, 32: 13, 64: 22}[data_type.bit_width]
    if pt.is_boolean(data_type):
        return 7
    return _FLOAT_BYTES if pt.is_floating(data_type) else _TIME_BYTES
