"""Skips row groups by the statistics of a file's footer and a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from lakelog.format.keys.encoding import encode_value, encode_values
from lakelog.format.tables.predicate import AllOf, AnyOf, Predicate
from lakelog.format.tables.prune import ColumnBounds, PreparedPredicate
from lakelog.format.types.defaults import initial_default
from lakelog.format.types.schema import field_id
from lakelog.format.types.widening import keeps_encoding
from lakelog.storage.parquet.reader import DataFileReader, translated

# A scan calls this for each of its files.
_prepare = lru_cache(maxsize=16)(PreparedPredicate)


def pick_row_groups(reader: DataFileReader, fields: pa.Schema, predicate: Predicate | None) -> list[int]:
    """Returns the row groups of a file that may hold a matching row, rising.

    Args:
        reader: The open file.
        fields: The table's columns with ids; the predicate's values have their types.
        predicate: What rows must fulfil; None: all row groups.
    """
    metadata = reader.metadata
    groups = range(metadata.num_row_groups)
    if predicate is None or len(groups) == 0:
        return list(groups)
    wanted = _field_ids(predicate)
    columns: dict[int, ColumnBounds] = {}
    for field in fields:
        if field_id(field) in wanted and (bounds := read_column_bounds(reader, field)) is not None:
            columns[field_id(field)] = bounds
    counts = pa.array(np.diff(reader.row_group_starts), pa.int64())
    return np.flatnonzero(_prepare(predicate).may_match(columns, counts)).tolist()


def read_column_bounds(reader: DataFileReader, field: pa.Field) -> ColumnBounds | None:
    """Returns the bounds of a column in each row group, from the footer; None if they are not certain.

    Args:
        reader: The open file.
        field: The column, with its id; the file may have it with a narrower type, or lack it.
    """
    if _is_unsure(field.type):
        return None
    # By id: a column of the same name may be another one, if that was dropped since.
    stored = reader.find_field(field)
    if stored is None:
        return _initial_bounds(reader, field)
    leaf = reader.map_columns([field]).leaf_columns[0]
    with translated(reader.name):
        return _read_bounds(reader.metadata, leaf, stored.type, field.type)


def _initial_bounds(reader: DataFileReader, field: pa.Field) -> ColumnBounds:
    """The bounds of a column that the file lacks: all of its rows show the initial default, or NULL."""
    counts = np.diff(reader.row_group_starts)
    default = initial_default(field)
    if default is None:
        nothing = pa.nulls(len(counts), pa.binary())
        return ColumnBounds(nothing, nothing, pa.array(counts, pa.int64()))
    value = pa.array([encode_value(default)] * len(counts), pa.binary())
    return ColumnBounds(value, value, pa.array(np.zeros_like(counts), pa.int64()))


def _is_unsure(data_type: pa.DataType) -> bool:
    """Whether a footer's bounds may be wrong for us: they ignore NaN, and lists have no bounds as a whole."""
    return bool(pt.is_floating(data_type) or pt.is_nested(data_type))


def _field_ids(predicate: Predicate) -> set[int]:
    if isinstance(predicate, AllOf | AnyOf):
        return {found for operand in predicate.operands for found in _field_ids(operand)}
    return {predicate.field_id}


def _read_bounds(metadata: pq.FileMetaData, place: int, stored: pa.DataType, data_type: pa.DataType) -> ColumnBounds:
    """The footer's bounds of one single-valued column in each row group, encoded as of a type that holds its values."""
    bounds: list[tuple[Any, Any, int | None]] = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_null_count:
            bounds.append((None, None, None))
        elif not statistics.has_min_max:
            bounds.append((None, None, statistics.null_count))
        else:
            bounds.append((statistics.min_raw, statistics.max_raw, statistics.null_count))
    lowers, uppers, nulls = zip(*bounds, strict=True)
    lower, upper = (_encode(each, stored, data_type) for each in (lowers, uppers))
    return ColumnBounds(lower, upper, pa.array(nulls, pa.int64()))


def _encode(raw: Sequence[Any], stored: pa.DataType, data_type: pa.DataType) -> pa.Array:
    """The encodings of bounds as Parquet stores them; NULL for None, and if the file has them in another form."""
    values = _to_values(raw, stored)
    if not keeps_encoding(stored, data_type):
        # Arrow has no way from long numbers to days.
        numbers = values.cast(pa.int32()) if pt.is_date32(stored) else values
        values = numbers.cast(stored).cast(data_type)
    return pc.if_else(values.is_valid(), encode_values(values), pa.scalar(None, pa.binary()))


def _to_values(raw: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pt.is_boolean(data_type):
        return pa.array([each if isinstance(each, bool) else None for each in raw], pa.bool_())
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return pa.array([each if isinstance(each, bytes) else None for each in raw], pa.binary())
    if pt.is_decimal(data_type):
        return _to_decimals(raw, data_type)
    # Integers, days and microseconds have one encoding, whatever their width.
    return pa.array([each if isinstance(each, int) else None for each in raw], pa.int64())


def _to_decimals(raw: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    unscaled = [int.from_bytes(each, "big", signed=True) if isinstance(each, bytes) else each for each in raw]
    words = b"".join((each or 0).to_bytes(16, "little", signed=True) for each in unscaled)
    values = pa.Array.from_buffers(data_type, len(unscaled), [None, pa.py_buffer(words)])
    return pc.if_else(pa.array([each is not None for each in unscaled]), values, pa.scalar(None, data_type))
