"""What stands between the quotes of JSON strings, as strings: escapes resolved, UTF-8 checked."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.codecs.byte_columns import Bounds, Bytes, Mask, from_bytes, to_bounds, to_bytes
from lakelog.log.codecs.casts import cast_where_possible
from lakelog.log.codecs.json.scan import find_escaping

_SIMPLE: Final = np.zeros(256, dtype=np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _SIMPLE[_letter] = _meaning
_HEX: Final = np.full(256, 16, dtype=np.int64)
_HEX[list(b"0123456789")] = np.arange(10)
_HEX[list(b"abcdef")] = _HEX[list(b"ABCDEF")] = np.arange(10, 16)
_U: Final = ord("u")


def unescape_texts(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Resolves escapes. Pure; linear without a loop over rows.

    Args:
        texts: Binary; NULL stays NULL.

    Returns:
        Strings, and which values are no JSON strings: unknown escapes, half surrogates, bytes that are no
        UTF-8. They are NULL.
    """
    has_escape = pc.match_substring(texts, b"\\").fill_null(False)
    wrong = np.zeros(len(texts), dtype=np.bool_)
    if has_escape.true_count:
        found, damaged = _unescape(texts.filter(has_escape))
        wrong[np.flatnonzero(np.asarray(has_escape))[damaged]] = True
        texts = pc.replace_with_mask(texts, has_escape, found)
    strings, no_utf8 = to_strings(texts)
    return strings, wrong | no_utf8


def to_strings(texts: pa.Array) -> tuple[pa.Array, Mask]:
    """Binary values as strings, and which are no UTF-8; they are NULL."""
    return cast_where_possible(texts, pa.string())


def _unescape(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The same with what each escape means, and which values have a wrong one; all are without NULL."""
    data, bounds = to_bytes(texts)
    data = np.concatenate([data, np.zeros(12, dtype=np.uint8)])
    at = find_escaping(np.flatnonzero(data == 92))
    kept = np.ones(len(data), dtype=np.bool_)
    kept[-12:] = False
    codes = data[at + 1]
    is_unicode = codes == _U
    simple = at[~is_unicode]
    meanings = _SIMPLE[codes[~is_unicode]]
    # What an escape means is never longer than itself, so it is written in its place.
    data[simple] = meanings
    kept[simple + 1] = False
    wrong_places = [simple[meanings == 0], _write_unicode(data, kept, at[is_unicode], bounds)]
    wrong = np.searchsorted(bounds, np.concatenate(wrong_places), side="right") - 1
    lengths = np.diff(np.concatenate([[0], np.cumsum(kept)])[bounds])
    return from_bytes(data[kept], to_bounds(lengths)), np.unique(wrong)


def _write_unicode(data: Bytes, kept: Mask, at: Bounds, bounds: Bounds) -> Bounds:
    """Writes UTF-8 for escapes by number, pairs of surrogates too; returns the places of wrong ones."""
    digits = _HEX[data[at[:, None] + np.arange(2, 6)]]
    # SUBTLE: what follows a wrong escape, or half a pair, can be of the next value, which is whole.
    ends = bounds[np.searchsorted(bounds, at, side="right")]
    wrong = (digits == 16).any(axis=1) | (at + 6 > ends)
    points = (digits * (4096, 256, 16, 1)).sum(axis=1)
    is_high = (points >= 0xD800) & (points < 0xDC00)
    is_low = (points >= 0xDC00) & (points < 0xE000)
    pairs = np.zeros(len(at), dtype=np.bool_)
    pairs[:-1] = (
        is_high[:-1] & is_low[1:] & (at[1:] == at[:-1] + 6) & (ends[1:] == ends[:-1]) & ~wrong[:-1] & ~wrong[1:]
    )
    second = np.zeros(len(at), dtype=np.bool_)
    second[1:] = pairs[:-1]
    # Half of a pair becomes bytes that are no UTF-8, and is found as such.
    following = np.append(points[1:], 0)
    points = np.where(pairs, 0x10000 + ((points - 0xD800) << 10) + (following - 0xDC00), points)
    kept[at[~wrong][:, None] + np.arange(6)] = False
    for first, last, length in ((0, 0x7F, 1), (0x80, 0x7FF, 2), (0x800, 0xFFFF, 3), (0x10000, 0x10FFFF, 4)):
        chosen = (points >= first) & (points <= last) & ~second & ~wrong
        places, values = at[chosen], points[chosen]
        for byte in range(length):
            bits = values >> (6 * (length - 1 - byte))
            lead = 0 if length == 1 else (0xF00 >> length) & 0xFF
            data[places + byte] = (bits | lead) if byte == 0 else (bits & 0x3F) | 0x80
            kept[places + byte] = True
    return at[wrong]
