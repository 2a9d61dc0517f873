"""Bloom filters of keys: which of many keys a file cannot hold, without reading its rows.

A filter is blocked: a key has four bits in one 64-bit word (F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and
Space-Efficient Bloom Filters", 2007), so that a key costs one load. With 16 bits a key or more, at most about one
absent key of 200 is taken for one that may be there. Everything here is pure and a batch at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lakelog.format.keys.codes import Codes

Words = npt.NDArray[np.uint64]

_KEYS_A_WORD: Final = 4
_BITS_A_KEY: Final = 4

# Odd numbers with their bits spread, as for any multiplicative hash.
_FIRST_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND_MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class KeyHashes:
    """The hashes of keys for filters, computed once for all of them.

    Attributes:
        numbers: One per key; the upper bits select the key's word.
        bits: The key's bits in the word.
    """

    numbers: Words
    bits: Words

    def take(self, places: npt.NDArray[np.int64]) -> KeyHashes:
        """The hashes of some of the keys."""
        return KeyHashes(self.numbers[places], self.bits[places])


def hash_codes(codes: Codes) -> KeyHashes:
    """Hashes keys, given by their codes; equal codes have equal hashes on any machine."""
    numbers = codes.view(np.uint64) * _FIRST_MULTIPLIER
    numbers ^= numbers >> np.uint64(32)
    numbers *= _SECOND_MULTIPLIER
    numbers ^= numbers >> np.uint64(29)
    bits = np.zeros(len(numbers), np.uint64)
    for turn in range(_BITS_A_KEY):
        bits |= np.uint64(1) << ((numbers >> np.uint64(6 * turn)) & np.uint64(63))
    return KeyHashes(numbers, bits)


class KeyFilter:
    """A filter of some keys.

    Args:
        words: As of `make_filter`: a power of two of them.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._shift = np.uint64(64 - (len(words).bit_length() - 1))

    def may_hold(self, hashes: KeyHashes) -> npt.NDArray[np.bool_]:
        """For each key whether it may be in the filter; False: it is not."""
        found = self._words[_to_places(hashes.numbers, self._shift)]
        return (found & hashes.bits) == hashes.bits


def make_filter(codes: Codes) -> Words:
    """Makes the filter of keys, given by their codes: 16 to 32 bits per key."""
    length = 2
    while length * _KEYS_A_WORD < len(codes):
        length *= 2
    words = np.zeros(length, np.uint64)
    hashes = hash_codes(codes)
    np.bitwise_or.at(words, _to_places(hashes.numbers, np.uint64(64 - (length.bit_length() - 1))), hashes.bits)
    return words


def _to_places(numbers: Words, shift: np.uint64) -> npt.NDArray[np.int64]:
    return (numbers >> shift).view(np.int64)
