"""Binary values as base64 (RFC 4648, padded) and back, for whole columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.log.codecs.byte_columns import Mask, as_text, from_bytes, to_bounds, to_bytes

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_NONE: Final = 255
_CODES: Final = np.full(256, _NONE, dtype=np.uint8)
_CODES[_ALPHABET] = np.arange(64, dtype=np.uint8)
_PAD: Final = ord("=")


def to_base64(column: pa.Array) -> pa.Array:
    """Each value as base64; NULL is empty. Pure."""
    data, bounds = to_bytes(column)
    lengths = np.diff(bounds)
    groups = (lengths + 2) // 3
    group_bounds = to_bounds(groups)
    # Where each group of three bytes begins, its row's first byte and so many groups behind it.
    places = 3 * (np.arange(group_bounds[-1]) - np.repeat(group_bounds[:-1], groups)) + np.repeat(bounds[:-1], groups)
    ends = np.repeat(bounds[1:], groups)
    padded = np.concatenate([data, np.zeros(2, dtype=np.uint8)])
    first = padded[places].astype(np.uint32)
    second = np.where(places + 1 < ends, padded[np.minimum(places + 1, len(data))], 0).astype(np.uint32)
    third = np.where(places + 2 < ends, padded[np.minimum(places + 2, len(data))], 0).astype(np.uint32)
    bits = (first << 16) | (second << 8) | third
    text = np.empty((len(places), 4), dtype=np.uint8)
    for position in range(4):
        text[:, position] = _ALPHABET[(bits >> (18 - 6 * position)) & 63]
    text[places + 1 >= ends, 2] = _PAD
    text[places + 2 >= ends, 3] = _PAD
    return as_text(from_bytes(text.reshape(-1), 4 * group_bounds))


def from_base64(column: pa.Array) -> tuple[pa.Array, Mask]:
    """The bytes of each value, and which values are no base64 (they are then empty). Pure; NULL stays NULL.

    Args:
        column: Strings, or binary of ASCII; padded.
    """
    data, bounds = to_bytes(column)
    lengths = np.diff(bounds)
    wrong = lengths % 4 != 0
    ends = bounds[1:]
    last = data[np.maximum(ends - 1, 0)] == _PAD if len(data) else np.zeros(len(lengths), dtype=np.bool_)
    one_before = data[np.maximum(ends - 2, 0)] == _PAD if len(data) else last
    pads = np.where(lengths > 0, last.astype(np.int64) + (last & one_before), 0)
    codes = _CODES[data]
    strange = codes == _NONE
    # What pads the end is no code, and nothing else may be none.
    strange_counts = np.diff(np.concatenate([[0], np.cumsum(strange)])[bounds])
    wrong |= strange_counts != pads
    if wrong.any():
        kept = np.repeat(~wrong, lengths)
        codes, lengths, pads = codes[kept], np.where(wrong, 0, lengths), np.where(wrong, 0, pads)
    quads = np.where(codes == _NONE, 0, codes).astype(np.uint32).reshape(-1, 4)
    bits = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    found = np.empty((len(quads), 3), dtype=np.uint8)
    for position in range(3):
        found[:, position] = (bits >> (16 - 8 * position)) & 255
    kept = np.ones(found.size, dtype=np.bool_)
    group_ends = to_bounds(lengths // 4)[1:]
    kept[3 * group_ends[pads >= 1] - 1] = False
    kept[3 * group_ends[pads == 2] - 2] = False
    valid = None if column.null_count == 0 else ~np.asarray(column.is_null())
    return from_bytes(found.reshape(-1)[kept], to_bounds(lengths // 4 * 3 - pads), valid), wrong
