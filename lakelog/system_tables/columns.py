"""Values of system tables as Arrow columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema) if columns else rows.select([])


def pick_rows(
    batches: Iterable[pa.RecordBatch], condition: Filter | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of batches that fulfil a condition on their columns, as `conform` returns them."""
    expression = None if condition is None else condition.to_arrow()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if expression is not None:
            rows = rows.filter(expression)
        yield from conform(rows, schema).to_batches()
