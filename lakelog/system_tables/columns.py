"""Values of system tables as Arrow columns. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.filter.condition import Filter
from lakelog.system_tables.declaration import TIME


def to_times(times_ms: Iterable[int | None]) -> pa.Array:
    """Times in milliseconds since the epoch as a column."""
    return from_ms(pa.array(list(times_ms), pa.int64()))


def from_ms(times_ms: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of milliseconds since the epoch as times."""
    return pc.cast(pc.multiply(times_ms, 1000), pa.int64()).cast(TIME)


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Picks the columns of a schema, with its types; all that can be NULL."""
    columns = [_to_type(rows.column(field.name), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema) if columns else rows.select([])


def _to_type(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    # Arrow cannot cast a struct that is NULL if a field of it cannot be NULL, not even to its own type.
    return column if column.type == data_type else column.cast(data_type)


def pick_rows(
    batches: Iterator[pa.RecordBatch], condition: Filter | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of batches that fulfil a condition on their columns, as `conform` returns them; closes the batches."""
    expression = None if condition is None else condition.to_arrow()
    with closing(cast(Generator[pa.RecordBatch, None, None], batches)):
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if expression is not None:
                rows = rows.filter(expression)
            yield from conform(rows, schema).to_batches()
