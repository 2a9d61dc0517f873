"""Column statistics of a data file: what a plan needs to exclude the file without opening it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.keys.encoding import encode_value, lower_bound, upper_bound
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.types.types import is_primitive

MAX_STATISTICS_COLUMNS: Final = 64
"""Columns that get statistics, the first ones of the table: an entry of a plan stays below 4 KB however wide it is."""

BOUND_LENGTH: Final = 16
"""Bytes of a string's or binary's bound, marker included: distinguishes most values, and many fit into a plan."""

_MIN_MAX: Final = pc.get_function("min_max")
"""Called without its options, which are the usual ones: for a small file making them takes as long as the values."""


class StatisticsCollector:
    """Collects the statistics of one file while it is written; holds two values per column, whatever the file's size.

    Args:
        fields: Field id by name of the table's top-level columns, in the table's order. Nested columns are skipped; of
            the others the first `MAX_STATISTICS_COLUMNS` are used.
    """

    def __init__(self, fields: Mapping[str, int]) -> None:
        self._fields = dict(fields)
        self._columns: dict[str, _Column] | None = None

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Adds the next rows of the file. Linear, without a loop over rows.

        Raises:
            InvalidArgument: The batch lacks one of the columns.
        """
        if self._columns is None:
            self._columns = self._choose_columns(batch.schema)
        for name, column in self._columns.items():
            column.update(batch.column(name))

    def finish(self) -> tuple[ColumnStatistics, ...]:
        """Returns the statistics of all rows so far, in the order of the fields; none if there was no batch."""
        return tuple(column.finish() for column in (self._columns or {}).values())

    def _choose_columns(self, schema: pa.Schema) -> dict[str, _Column]:
        # SUBTLE: each access to `schema.names` makes a new list of all of them.
        types = dict(zip(schema.names, schema.types, strict=True))
        missing = [name for name in self._fields if name not in types]
        if missing:
            raise InvalidArgument(f"The rows of a file lack the columns {', '.join(missing[:10])}, which it must have.")
        primitives = (name for name in self._fields if is_primitive(types[name]))
        return {
            name: _Column(self._fields[name], types[name])
            for name in itertools.islice(primitives, MAX_STATISTICS_COLUMNS)
        }


class _Column:
    def __init__(self, field_id: int, data_type: pa.DataType) -> None:
        self._field_id = field_id
        self._is_floating = pt.is_floating(data_type)
        self._is_bytes = pt.is_string(data_type) or pt.is_binary(data_type)
        self._null_count = 0
        self._lowest: bytes | None = None
        self._highest: bytes | None = None

    def update(self, column: pa.Array | pa.ChunkedArray) -> None:
        self._null_count += column.null_count
        if self._is_floating and pc.any(pc.is_nan(column)).as_py():
            # NaN is above all numbers, as in filters (semantics 1.5).
            self._take(pa.scalar(float("nan"), column.type))
        # Arrow ignores NaN and NULL here.
        for bound in _MIN_MAX.call([column]).values():
            if bound.is_valid and not (self._is_floating and bound.as_py() != bound.as_py()):
                self._take(bound)

    def finish(self) -> ColumnStatistics:
        lower, upper = self._lowest, self._highest
        if self._is_bytes and lower is not None and upper is not None:
            lower, upper = lower_bound(lower, BOUND_LENGTH), upper_bound(upper, BOUND_LENGTH)
        return ColumnStatistics(self._field_id, self._null_count, lower, upper)

    def _take(self, value: pa.Scalar) -> None:
        encoded = encode_value(value)
        self._lowest = encoded if self._lowest is None else min(self._lowest, encoded)
        self._highest = encoded if self._highest is None else max(self._highest, encoded)
