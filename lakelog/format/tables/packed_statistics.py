"""Column statistics of one file in a compact form: what the metastore stores, and holds of a commit of many files.

An object for each column of each file would take ten times as much memory. `decode_column` reads one column of many
files at once; an absent value means that nothing is known about the file.

Layout, little-endian: `u16 n`, then n entries of 24 bytes (`u32 field id`, `i32 length of min`, `i32 length of max`,
`u32 offset of min` after the entries, `i64 null count`), then the values; max follows min. A length of -1 means that
there is no such bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.prune import ColumnBounds

HEAD: Final = struct.Struct("<H")

# The field id is signed here, so that an invalid id of a request reaches the check of the request.
ENTRY: Final = struct.Struct("<iiiIq")

MOST_COLUMNS: Final = 2**16 - 1
"""The layout can count no more."""

Entry = tuple[int, int, bytes | None, bytes | None]
"""A column's id, its number of NULLs, its lower and upper bound; as in `ColumnStatistics`."""


class PackedStatistics(Sequence[ColumnStatistics]):
    """The statistics of one file; equal to a tuple of the same statistics.

    Args:
        encoded: At least one column, in the layout of this module.
    """

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded: Final = encoded

    def entries(self) -> Iterator[Entry]:
        """The columns without an object for each."""
        encoded = self.encoded
        values = HEAD.size + ENTRY.size * len(self)
        for field_id, min_length, max_length, offset, null_count in ENTRY.iter_unpack(encoded[HEAD.size : values]):
            start = values + offset
            middle = start + max(min_length, 0)
            low = None if min_length < 0 else encoded[start:middle]
            yield field_id, null_count, low, None if max_length < 0 else encoded[middle : middle + max_length]

    def __len__(self) -> int:
        count: int = HEAD.unpack_from(self.encoded)[0]
        return count

    def __iter__(self) -> Iterator[ColumnStatistics]:
        return (ColumnStatistics(*entry) for entry in self.entries())

    @overload
    def __getitem__(self, index: int) -> ColumnStatistics: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ColumnStatistics]: ...
    def __getitem__(self, index: int | slice) -> ColumnStatistics | Sequence[ColumnStatistics]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedStatistics):
            return self.encoded == other.encoded
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedStatistics, (self.encoded,)


def pack_entries(entries: Iterable[Entry]) -> bytes:
    """Columns in the layout of this module. Pure.

    Raises:
        struct.error: There are more than `MOST_COLUMNS`, or a number has more bits than its place.
    """
    packed, values, offset = [], [], 0
    for field_id, null_count, low, high in entries:
        min_length = max_length = -1
        start = offset
        if low is not None:
            min_length = len(low)
            offset += min_length
            values.append(low)
        if high is not None:
            max_length = len(high)
            offset += max_length
            values.append(high)
        packed.append(ENTRY.pack(field_id, min_length, max_length, start, null_count))
    return b"".join([HEAD.pack(len(packed)), *packed, *values])


def entries_of(columns: Sequence[ColumnStatistics]) -> Iterable[Entry]:
    """The statistics of one file, column by column. Pure."""
    if isinstance(columns, PackedStatistics):
        return columns.entries()
    return [(each.field_id, each.null_count, each.min_value, each.max_value) for each in columns]


def encode_statistics(columns: Sequence[ColumnStatistics]) -> bytes | None:
    """A file's statistics in the layout of this module; None if there are none. Pure."""
    if not columns:
        return None
    return columns.encoded if isinstance(columns, PackedStatistics) else pack_entries(entries_of(columns))


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
        # Most entries belong to another column, so of each only the id is read at first.
        hit = data[entry_starts[:, None] + np.arange(4)].view("<u4").reshape(-1) == field_id
        rows, entry_starts = candidates[hit], entry_starts[hit]
        entries = data[entry_starts[:, None] + np.arange(ENTRY.size)].view(_ENTRY_TYPE).reshape(-1)
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
