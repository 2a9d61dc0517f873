"""Keys as 64-bit codes for searches: the same key has the same code in every file and every process.

One integer-like column is its own code, so a sorted file is a sorted array. All other keys are hashed; two keys may
then share a code, so a search must compare the keys themselves. The hash is stored only in local copies of data files,
never in a table, and may change with any version that gives these copies another name.

Objectives, which conflict: a few nanoseconds per row; hardly ever the same code for two keys of real tables. Only the
ends of a long text are hashed, which meets the first objective but not the second for texts made to collide; these cost
time, never a wrong answer, since keys are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.keys.ordering import (
    Column,
    integer_values,
    is_integer_like,
    offsets_and_bytes,
    order_codes,
    single_array,
)

Codes = npt.NDArray[np.int64]

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
# The multipliers and shifts of a well-mixing 64-bit finaliser: odd, about half of the bits set.
_MULTIPLIER: Final = np.uint64(0xFF51AFD7ED558CCD)
_FINAL_MULTIPLIER: Final = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT: Final = np.uint64(33)
_END_BYTES: Final = 128
"""Bytes at each end of a text that are hashed."""


def are_exact(types: Sequence[pa.DataType]) -> bool:
    """Whether keys of these types are their own codes: then two keys are equal if and only if their codes are."""
    # Decimals are numbers too, but are not adjacent in memory.
    return len(types) == 1 and is_integer_like(types[0]) and not pt.is_decimal(types[0])


def find_key_codes(columns: Sequence[Column]) -> Codes:
    """Returns one code per row. Pure; no loop over rows.

    Args:
        columns: The key's columns, of canonical key types, without NULLs, all of one length.

    Returns:
        Int64 array; if `are_exact`, in the order of the keys.
    """
    arrays = [single_array(column) for column in columns]
    if are_exact([array.type for array in arrays]):
        return integer_values(arrays[0]).astype(np.int64, copy=False)
    codes = np.full(len(arrays[0]), _SEED)
    for array in arrays:
        if pt.is_string(array.type) or pt.is_binary(array.type):
            _mix_bytes(codes, array)
        elif pt.is_decimal128(array.type) and array.type.precision > 18:
            words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
            _mix(codes, words[::2])
            _mix(codes, words[1::2])
        else:
            _mix(codes, order_codes(array))
    codes *= _FINAL_MULTIPLIER
    codes ^= codes >> _SHIFT
    return codes.view(np.int64)


def _mix(codes: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64]) -> None:
    codes ^= words
    codes *= _MULTIPLIER
    codes ^= codes >> _SHIFT


def _mix_bytes(codes: npt.NDArray[np.uint64], array: pa.Array) -> None:
    offsets, data = offsets_and_bytes(array)
    lengths = np.diff(offsets).astype(np.int64)
    _mix(codes, lengths.astype(np.uint64))
    if len(data) == 0:
        return
    # SUBTLE: the load of a text's last bytes reads past the end of the data; padding of the same length makes it legal.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u8", padded, 0, (1,))
    starts = offsets[:-1].astype(np.int64)
    _mix_words(codes, words, starts, np.minimum(lengths, _END_BYTES))
    longer = np.flatnonzero(lengths > _END_BYTES)
    if len(longer):
        tails = codes[longer]
        _mix_words(tails, words, starts[longer] + lengths[longer] - _END_BYTES, np.full(len(longer), _END_BYTES))
        codes[longer] = tails


def _mix_words(codes: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64], starts: Codes, lengths: Codes) -> None:
    """Mixes in the bytes of each row, eight at a time; rows drop out as they end."""
    rows = np.arange(len(codes))
    for first in range(0, int(lengths.max(initial=0)), 8):
        rows = rows[lengths[rows] > first]
        left = np.minimum(lengths[rows] - first, 8)
        found = words[starts[rows] + first] & _KEPT[left]
        mixed = codes[rows]
        _mix(mixed, found)
        codes[rows] = mixed


_KEPT: Final = np.array([(1 << (8 * count)) - 1 for count in range(9)], np.uint64)
"""The bits of a word's first bytes, by their number."""
