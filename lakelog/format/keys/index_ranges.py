"""A set of the numbers 0, 1, 2, .. that have arrived, stored as ranges: a write's rows mostly follow each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class IndexRanges:
    """Numbers that have arrived. One thread uses it."""

    def __init__(self) -> None:
        self._starts: Numbers = np.empty(0, np.int64)
        self._ends: Numbers = np.empty(0, np.int64)

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._starts)

    def add(self, numbers: Numbers) -> Mask:
        """Adds numbers, in any order; returns for each whether it arrived for the first time."""
        is_new = np.zeros(len(numbers), bool)
        is_new[np.unique(numbers, return_index=True)[1]] = True
        if len(self):
            place = np.searchsorted(self._starts, numbers, side="right") - 1
            is_new &= (place < 0) | (numbers >= self._ends[np.maximum(place, 0)])
        new = np.sort(numbers[is_new])
        if len(new):
            breaks = np.flatnonzero(np.diff(new) != 1) + 1
            self._join(new[np.append(0, breaks)], new[np.append(breaks - 1, len(new) - 1)] + 1)
        return is_new

    def holds_all(self, count: int) -> bool:
        """Whether all numbers below `count` have arrived, and no others."""
        if count == 0:
            return not len(self)
        return len(self) == 1 and int(self._starts[0]) == 0 and int(self._ends[0]) == count

    def _join(self, starts: Numbers, ends: Numbers) -> None:
        """Adds ranges that meet none of the existing ones."""
        starts, ends = np.append(self._starts, starts), np.append(self._ends, ends)
        order = np.argsort(starts)
        starts, ends = starts[order], ends[order]
        glued = starts[1:] == ends[:-1]
        self._starts = starts[np.append(True, ~glued)]
        self._ends = ends[np.append(~glued, True)]
