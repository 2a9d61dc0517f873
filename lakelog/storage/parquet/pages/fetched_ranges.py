"""Fetches ranges of a distant file at once; page headers, and then their rows, are read from memory."""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pyarrow as pa

_HOLE_BYTES: Final = 64 << 10
"""If at most this many bytes lie between two ranges, they are fetched too: another request would take longer."""

_REQUESTS: Final = 8
"""How many requests are made at once for a row group, as many as by Arrow's own readers."""


def is_near(source: pa.NativeFile) -> bool:
    """Whether reading a little of a file costs next to nothing, as on a local disk or in memory."""
    return isinstance(source, pa.OSFile | pa.BufferReader)


def fetch_ranges(source: pa.NativeFile, ranges: Sequence[range]) -> FetchedRanges:
    """Fetches some bytes of a file. Blocks.

    Args:
        source: The open file.
        ranges: The places of the bytes, in any order.
    """
    joined: list[range] = []
    for each in sorted(ranges, key=lambda each: each.start):
        if joined and each.start <= joined[-1].stop + _HOLE_BYTES:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, each.stop))
        else:
            joined.append(each)
    if len(joined) > 1:
        with ThreadPoolExecutor(min(_REQUESTS, len(joined)), thread_name_prefix="lakelog-fetch") as pool:
            parts = list(pool.map(lambda each: source.read_at(len(each), each.start), joined))
    else:
        parts = [source.read_at(len(each), each.start) for each in joined]
    return FetchedRanges(source, [each.start for each in joined], parts)


class FetchedRanges(io.RawIOBase):
    """A file of which some ranges are in memory; other bytes are read from it when they are needed.

    Args:
        source: The open file, which the caller closes.
        starts: Where the ranges begin, rising.
        parts: Their bytes.
    """

    def __init__(self, source: pa.NativeFile, starts: Sequence[int], parts: Sequence[bytes]) -> None:
        super().__init__()
        self._source = source
        self._starts = np.array(starts, np.int64)
        self._parts = [memoryview(part) for part in parts]
        self._size = int(source.size())
        self._place = 0

    def read_at(self, count: int, place: int) -> bytes:
        """Returns some bytes from a place on; fewer at the end of the file."""
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        if number >= 0:
            offset = place - int(self._starts[number])
            if offset + count <= len(self._parts[number]):
                return bytes(self._parts[number][offset : offset + count])
        return bytes(self._source.read_at(max(0, min(count, self._size - place)), place))

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes."""
        data = self.read_at(self._size - self._place if size < 0 else size, self._place)
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        """The place that is read next."""
        return self._place

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True
