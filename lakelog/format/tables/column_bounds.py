"""Extracts one column's statistics of many files at once from their compact form.

The layout of one file is described in `lakelog.format.tables.packed_statistics`. An absent value means that nothing is
known about the file.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.tables.packed_statistics import ENTRY, HEAD
from lakelog.format.tables.prune import ColumnBounds

_ENTRY_TYPE: Final = np.dtype(
    [("field_id", "<u4"), ("min_length", "<i4"), ("max_length", "<i4"), ("offset", "<u4"), ("null_count", "<i8")]
)


def decode_column(statistics: pa.BinaryArray, field_id: int) -> ColumnBounds:
    """The statistics of one column in many files. No loop over files.

    Args:
        statistics: One value a file, as `encode_statistics` makes them.
        field_id: The column.

    Returns:
        Bounds of one value a file; NULL where a file says nothing.
    """
    count = len(statistics)
    offsets = np.frombuffer(statistics.buffers()[1], np.int32)[statistics.offset : statistics.offset + count + 1]
    data_buffer = statistics.buffers()[2]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets)
    filled = np.flatnonzero(lengths > 0)
    columns = np.zeros(count, np.int64)
    columns[filled] = data[starts[filled]].astype(np.int64) | data[starts[filled] + 1].astype(np.int64) << 8

    min_start, min_length = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    max_start, max_length = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    null_count = np.zeros(count, np.int64)
    known = np.zeros(count, np.bool_)
    # A loop over positions in the list of columns, of which a file has few; files usually agree on the position.
    for place in range(int(columns.max(initial=0))):
        candidates = np.flatnonzero((columns > place) & ~known)
        entry_starts = starts[candidates] + HEAD.size + ENTRY.size * place
        entries = data[entry_starts[:, None] + np.arange(ENTRY.size)].view(_ENTRY_TYPE).reshape(-1)
        hit = entries["field_id"] == field_id
        rows, entries = candidates[hit], entries[hit]
        known[rows] = True
        null_count[rows] = entries["null_count"]
        min_length[rows] = entries["min_length"]
        max_length[rows] = entries["max_length"]
        values_start = starts[rows] + HEAD.size + ENTRY.size * columns[rows]
        min_start[rows] = values_start + entries["offset"]
        max_start[rows] = min_start[rows] + np.maximum(entries["min_length"], 0)
    return ColumnBounds(
        min_value=_gather(data, min_start, min_length),
        max_value=_gather(data, max_start, max_length),
        null_count=pa.array(null_count, mask=~known),
    )


def _gather(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> pa.Array:
    """Slices of `data` as one binary array; a negative length gives NULL."""
    sizes = np.maximum(lengths, 0)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    indices = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    valid = np.packbits(lengths >= 0, bitorder="little").tobytes()
    buffers = [
        pa.py_buffer(valid),
        pa.py_buffer(offsets.astype(np.int32).tobytes()),
        pa.py_buffer(data[indices].tobytes()),
    ]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
