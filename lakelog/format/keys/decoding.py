"""Decodes many encoded keys at once, column by column: the inverse of `encode_rows`. Pure; no loop over keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.keys.encoding import decode_payload

_Places = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_PRESENT = 1


class EncodedKeys:
    """Encoded keys, read from their first column to their last.

    Args:
        encoded: Binary values; NULL counts as a key that cannot be read.
    """

    def __init__(self, encoded: pa.Array) -> None:
        buffers = encoded.buffers()
        ends = np.frombuffer(buffers[1], np.int32)[encoded.offset : encoded.offset + len(encoded) + 1].astype(np.int64)
        # A byte more, so that the byte after the last key can be asked for.
        data = np.frombuffer(buffers[2], np.uint8) if buffers[2] else np.empty(0, np.uint8)
        self._data = np.append(data, np.uint8(0))
        self._places, self._ends = ends[:-1].copy(), ends[1:]
        self._is_good: _Mask = encoded.is_valid().to_numpy(zero_copy_only=False)
        zeros = self._data == 0
        self._terminators = np.flatnonzero(zeros[:-1] & zeros[1:])

    def take_column(self, data_type: pa.DataType) -> pa.Array:
        """The values of the next column; NULL also for keys that cannot be read (`is_complete`)."""
        self._is_good &= self._places < self._ends
        marker = np.where(self._is_good, self._data[np.minimum(self._places, len(self._data) - 1)], 0)
        self._is_good &= marker <= _PRESENT
        is_present = self._is_good & (marker == _PRESENT)
        self._places += 1
        if pt.is_string(data_type) or pt.is_binary(data_type):
            return self._take_bytes(is_present, data_type)
        return self._take_numbers(is_present, data_type)

    def is_complete(self) -> _Mask:
        """Which keys were read to their ends; the others were cut, or have other columns."""
        return self._is_good & (self._places == self._ends)

    def _take_numbers(self, is_present: _Mask, data_type: pa.DataType) -> pa.Array:
        width = 1 if pt.is_boolean(data_type) else 16 if pt.is_decimal128(data_type) else 8
        is_cut = is_present & (self._places + width > self._ends)
        self._is_good &= ~is_cut
        rows = np.flatnonzero(is_present & ~is_cut)
        payload = self._data[self._places[rows, None] + np.arange(width)]
        self._places[rows] += width
        return _spread(decode_payload(payload, data_type), rows, len(self._places))

    def _take_bytes(self, is_present: _Mask, data_type: pa.DataType) -> pa.Array:
        # Inside a value 0x00 is always followed by 0xFF, so the first 0x00 0x00 is the end, wherever it starts.
        next_end = np.searchsorted(self._terminators, self._places)
        known = np.append(self._terminators, len(self._data) + 2)
        stops = known[next_end]
        is_cut = is_present & (stops + 2 > self._ends)
        self._is_good &= ~is_cut
        rows = np.flatnonzero(is_present & ~is_cut)
        values = gather(self._data, self._places[rows], stops[rows] - self._places[rows])
        self._places[rows] = stops[rows] + 2
        return _spread(unescape(values).cast(data_type), rows, len(self._places))


def unescape(values: pa.Array) -> pa.Array:
    """Bytes without the escapes that an encoding has for 0x00."""
    return pc.replace_substring(values, b"\x00\xff", b"\x00")


def gather(data: npt.NDArray[np.uint8], starts: _Places, sizes: _Places) -> pa.Array:
    """Slices of bytes as one binary array."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    indices = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(data[indices].tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _spread(values: pa.Array, rows: Sequence[int] | _Places, count: int) -> pa.Array:
    """The values at their rows of `count`; NULL elsewhere."""
    if len(values) == count:
        return values
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(values))
    return values.take(pa.array(places, mask=places < 0))
