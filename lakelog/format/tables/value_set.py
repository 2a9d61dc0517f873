"""Finds the files that may hold one of many encoded values, for many files at once.

A file may hold one if more values are up to its greatest value than below its least. So two binary searches a file are
enough: k values and n files take O((n + k) log k), in numpy, which lets other threads run meanwhile.

numpy compares only bytes of one width. So a value becomes its first `_WIDTH` bytes, filled up with zeros, and its
length: if two values have the same bytes and zeros, the shorter one is lower. Longer values with the same first bytes
look equal; where that could matter, they are compared in full.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

_WIDTH: Final = 64
"""Bytes that are compared at once: stored bounds of texts are not longer, and encoded numbers have 9."""

_FEW: Final = 4
"""Up to this many values are compared one by one, which is faster."""


class ValueSet:
    """Encoded values of one column; immutable.

    Args:
        values: Any number, in any order.
    """

    def __init__(self, values: Collection[bytes]) -> None:
        self._values = tuple(dict.fromkeys(values))
        self._longest = max(map(len, self._values), default=0)
        self._width = min(self._longest, _WIDTH)

    def __len__(self) -> int:
        return len(self._values)

    def may_lie_between(self, least: pa.Array, greatest: pa.Array) -> Mask:
        """For each file whether one of the values lies within its bounds, both included. Pure.

        Args:
            least: Binary, one a file; NULL: no bound.
            greatest: Likewise.
        """
        if len(self._values) <= _FEW:
            hits = np.zeros(len(least), np.bool_)
            for value in self._values:
                above = _or_unknown(pc.less_equal(least, pa.scalar(value, least.type)))
                hits |= above & _or_unknown(pc.greater_equal(greatest, pa.scalar(value, greatest.type)))
            return hits
        below = np.searchsorted(self._keys, _to_keys(least, self._width), side="left")
        up_to = np.searchsorted(self._keys, _to_keys(greatest, self._width), side="right")
        if least.null_count:
            below[_is_null(least)] = 0
        if greatest.null_count:
            up_to[_is_null(greatest)] = len(self._values)
        hits = up_to > below
        if self._longest > _WIDTH:
            self._look_closely(hits, least, greatest)
        return hits

    def may_hold_another(self, least: pa.Array, greatest: pa.Array) -> Mask:
        """For each file whether it may hold a value other than these: surely not if all its values are one of them."""
        is_only = pc.and_(pc.equal(least, greatest), pc.is_in(least, value_set=self._array))
        return ~_or_false(is_only)

    @cached_property
    def _array(self) -> pa.Array:
        return pa.array(self._values, pa.binary())

    @cached_property
    def _keys(self) -> npt.NDArray[np.bytes_]:
        return np.sort(_to_keys(self._array, self._width))

    def _look_closely(self, hits: Mask, least: pa.Array, greatest: pa.Array) -> None:
        """Corrects the answer for files with a bound that is longer than the compared bytes."""
        files = np.flatnonzero(hits & (_is_longer(least) | _is_longer(greatest)))
        if not len(files):
            return
        # The ranks of values and bounds among each other are in the order of their bytes.
        low, high = (bounds.take(pa.array(files)).cast(pa.binary()) for bounds in (least, greatest))
        together = pa.concat_arrays([self._array, low, high])
        ranks = pc.rank(together, sort_keys="ascending", tiebreaker="dense").to_numpy()
        count, after_low = len(self._values), len(self._values) + len(files)
        values = np.sort(ranks[:count])
        below = np.searchsorted(values, ranks[count:after_low], side="left")
        up_to = np.searchsorted(values, ranks[after_low:], side="right")
        below[_is_null(low)] = 0
        up_to[_is_null(high)] = count
        hits[files] = up_to > below


def _to_keys(values: pa.Array, width: int) -> npt.NDArray[np.bytes_]:
    """Values as bytes of one width, in the order of the values; the bytes of NULLs are arbitrary."""
    count = len(values)
    if not count:
        return np.empty(0, f"S{width + 1}")
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    buffer = values.buffers()[2]
    data = np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    lengths = np.diff(offsets)
    keys = np.zeros((count, width + 1), np.uint8)
    taken = np.minimum(lengths, width)
    starts = np.cumsum(taken) - taken
    places = np.repeat(offsets[:-1] - starts, taken) + np.arange(int(taken.sum()))
    keys[:, :width][np.arange(width) < taken[:, np.newaxis]] = data[places]
    keys[:, width] = np.minimum(lengths, width + 1)
    return keys.view(f"S{width + 1}").ravel()


def _is_longer(values: pa.Array) -> Mask:
    return _or_false(pc.greater(pc.binary_length(values), _WIDTH))


def _is_null(values: pa.Array) -> Mask:
    return _or_false(values.is_null())


def _or_unknown(answer: pa.Array) -> Mask:
    return _to_mask(answer, unknown=True)


def _or_false(answer: pa.Array) -> Mask:
    return _to_mask(answer, unknown=False)


def _to_mask(answer: Any, *, unknown: bool) -> Mask:
    mask: Mask = pc.fill_null(answer, unknown).to_numpy(zero_copy_only=False)
    return mask
