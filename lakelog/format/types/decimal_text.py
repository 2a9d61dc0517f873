"""Text becomes decimals without ever asking Arrow for a power of ten that it does not have.

SUBTLE: Arrow moves the point of `1e-999999999` by reading that entry of a table with 39 (of decimal256: 77) powers of
ten, without a check. What it finds outside of the table decides: the process dies, or the value becomes 0. So each text
goes through here, and each reader of Arrow that makes decimals itself is only given data without such exponents.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WIDE_DIGITS: Final = 76
_LONGEST_PLAIN: Final = 39
"""A text without an exponent that is no longer has 38 digits after its point at most."""
_LONGEST: Final = 43
"""A text that is no longer, with the point and `e-38`, has 38 digits after its point at most, which makes 76 places."""
_BOUNDED: Final = r"^[+-]?[0-9]*\.?[0-9]*([eE]\+?[0-9]+|[eE]-0*([0-9]|[12][0-9]|3[0-8]))?$"

_NUMERIC: Final = np.zeros(256, dtype=np.bool_)
_NUMERIC[np.frombuffer(b"0123456789.", np.uint8)] = True
_OF_WORDS: Final = _NUMERIC.copy()
_OF_WORDS[np.frombuffer(b"+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)] = True


def cast_decimal_texts(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals of strings. Pure; no loop over values.

    Args:
        texts: Strings; NULL stays NULL.
        target: A decimal128.

    Raises:
        pa.ArrowInvalid: A text is no number, the type does not hold it exactly, it has an exponent below -38, or it is
            far longer than any number that the type holds.
    """
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= _LONGEST_PLAIN and not any(pc.any(pc.match_substring(texts, sign)).as_py() for sign in "eE"):
        return texts.cast(target)
    if longest > _LONGEST or pc.all(pc.match_substring_regex(texts, _BOUNDED)).as_py() is False:
        raise pa.ArrowInvalid(f"a text is no number that {target} holds")
    return texts.cast(pa.decimal256(_WIDE_DIGITS, target.scale)).cast(target)


def has_shrinking_exponents(data: bytes | pa.Buffer) -> bool:
    """Whether a number with a negative exponent may stand in text, so that no reader of Arrow may make decimals of it.

    Pure; no loop over bytes. A word in which one stands between other letters, as a UUID, is no number.
    """
    octets = np.concatenate([np.zeros(1, np.uint8), np.frombuffer(data, np.uint8), np.zeros(1, np.uint8)])
    minuses = np.flatnonzero(octets == ord("-"))
    minuses = minuses[((octets[minuses - 1] | 32) == ord("e")) & _NUMERIC[octets[minuses + 1]]]
    if not len(minuses):
        return False
    ends = _pass_over(octets, minuses + 1, 1)
    begins = _pass_over(octets, minuses - 2, -1)
    is_number = (begins < minuses - 2) & ~_OF_WORDS[octets[ends]]
    is_signed = (octets[begins] == ord("-")) | (octets[begins] == ord("+"))
    begins = np.where(is_signed, np.maximum(begins - 1, 0), begins)
    return bool((is_number & ~_OF_WORDS[octets[begins]]).any())


def _pass_over(octets: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.int64]:
    """The first place from each of these on, in steps of 1 or -1, that is no digit or point."""
    places = np.maximum(places, 0)
    going = np.flatnonzero(_NUMERIC[octets[places]])
    while len(going):
        places[going] += step
        going = going[_NUMERIC[octets[places[going]]]]
    return places
