"""Column statistics of one file in a compact form: what the metastore stores, and holds of a commit of many files.

An object for each column of each file would take ten times as much memory.

Layout, little-endian: `u16 n`, then n entries of 24 bytes (`u32 field id`, `i32 length of min`, `i32 length of max`,
`u32 offset of min` after the entries, `i64 null count`), then the values; max follows min. A length of -1 means that
there is no such bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

from lakelog.format.tables.files import ColumnStatistics

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
