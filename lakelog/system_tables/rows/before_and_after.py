"""Packs changes for `$binlog`: the row before an update and the row after it become one. Pure; no loop over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_BEFORE, _AFTER = "-U", "+U"
_OWN = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN)


def pack_updates(batches: Iterator[pa.RecordBatch], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Returns a row for each change, whose columns are arrays of one value, or of two for an update.

    Args:
        batches: Changes with `_row_kind` and `_snapshot_id`; a `-U` comes right before its `+U`.
        key: Names of the primary key's columns, which are among theirs; none: nothing is packed.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if held is None else pa.concat_batches([held, batch])
        held = None
        if key and rows.num_rows and rows.column(ROW_KIND_COLUMN)[-1].as_py() == _BEFORE:
            held, rows = rows.slice(rows.num_rows - 1), rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield _pack(rows, key)
    if held is not None:
        yield _pack(held, key)


def _pack(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    ends = np.flatnonzero(~_goes_on(rows, key))
    offsets = pa.array(np.append(0, ends + 1), pa.int32())
    last = pa.array(ends)
    columns = [
        column.take(last) if name in _OWN else pa.ListArray.from_arrays(offsets, column)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _goes_on(rows: pa.RecordBatch, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether the next row belongs to the change of a row: it is what the same snapshot made of the same key."""
    result = np.zeros(rows.num_rows, np.bool_)
    if not key or rows.num_rows < 2:
        return result
    kinds = rows.column(ROW_KIND_COLUMN)
    first, second = slice(0, rows.num_rows - 1), slice(1, rows.num_rows)
    conditions = [pc.equal(kinds[first], _BEFORE), pc.equal(kinds[second], _AFTER)]
    conditions += [pc.equal(rows.column(name)[first], rows.column(name)[second]) for name in (*key, SNAPSHOT_ID_COLUMN)]
    for condition in conditions[1:]:
        conditions[0] = pc.and_(conditions[0], condition)
    result[:-1] = pc.fill_null(conditions[0], False).to_numpy(zero_copy_only=False)
    return result
