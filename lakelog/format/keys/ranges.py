"""Which of some sorted keys lie between two bounds, both as encoded bytes (`encoding.py`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import pyarrow as pa


def find_in_range(encoded: pa.Array, first: bytes | None, last: bytes | None) -> slice:
    """Returns which of some keys are in a range, by bisection. Pure.

    Args:
        encoded: Binary, rising.
        first: The lowest key of the range, or a prefix of it; None: unbounded.
        last: The highest key of the range, or an upper bound of it; None: unbounded.
    """
    keys = _Keys(encoded)
    start = 0 if first is None else bisect_left(keys, first)
    return slice(start, len(keys) if last is None else max(start, bisect_right(keys, last)))


class _Keys(Sequence[bytes]):
    """The keys one by one, since bisection reads only a few of them."""

    def __init__(self, encoded: pa.Array) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    def __getitem__(self, place: int) -> bytes:  # type: ignore[override]
        key: bytes = self._encoded[place].as_py()
        return key
