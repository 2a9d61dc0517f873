"""Texts with so many signs of JSON that their structure takes far more memory than they do themselves."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.codecs.byte_columns import Mask, to_bytes

MOST_SIGNS: Final = 1 << 20
"""Brackets, commas, colons and quotes of a text. What a scan keeps of each takes 150 bytes, so that is 150 MB."""

TOO_DENSE: Final = f"it has more than {MOST_SIGNS} brackets, commas, colons and quotes"

_BLOCK_BYTES: Final = 1 << 18
_IS_SIGN: Final = np.zeros(256, dtype=np.bool_)
_IS_SIGN[np.frombuffer(b'[]{},:"\\', np.uint8)] = True


def find_dense(texts: pa.Array) -> Mask:
    """Which texts have more than `MOST_SIGNS` signs. Pure; the loop is over texts that have so many bytes.

    Args:
        texts: Binary without NULL.
    """
    is_dense = np.zeros(len(texts), dtype=np.bool_)
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= MOST_SIGNS:
        return is_dense
    data, bounds = to_bytes(texts)
    for place in np.flatnonzero(np.diff(bounds) > MOST_SIGNS):
        start, end = int(bounds[place]), int(bounds[place + 1])
        signs = sum(
            int(_IS_SIGN[data[first : min(first + _BLOCK_BYTES, end)]].sum())
            for first in range(start, end, _BLOCK_BYTES)
        )
        is_dense[place] = signs > MOST_SIGNS
    return is_dense
