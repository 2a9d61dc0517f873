"""The structure of many JSON texts at once: where values begin and end, what belongs to what. No loop over rows.

A scan finds the *tokens* of all texts in one go: brackets, colons, commas, strings, and the separators that stand
between texts. Numbers and words (`true`, `false`, `null`) are no tokens: one may stand in the gap behind a token.

Invariants of a finished scan, which rest on each other in this order:

1. Quotes are even in each text, so that what is inside a string is known.
2. Brackets are balanced in each text and closed by their own kind, so that depths are known.
3. Each token may follow the one before it (`_ALLOWED`): the texts are JSON.

A text that breaks one, or has too many signs (`dense.py`), is *damaged*: it is replaced by `null` and all are scanned
again, so that no text can make another one be misread.

Sorted by depth, then position, each container's tokens stand in one row: it opens, its colons and commas, it closes.
All that is asked later rests on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.codecs.byte_columns import Bounds, Bytes, Mask, find_span_places, to_bytes
from lakelog.log.codecs.json.dense import find_dense

Tokens = npt.NDArray[np.int64]
"""Numbers of tokens, by position."""

_SEPARATOR: Final = 255
"""The byte behind each text: it is none of UTF-8."""
_MAX_DEPTH: Final = 1_000
"""Far deeper than any type; who sends more means no good."""
_QUOTE: Final = 34
_BACKSLASH: Final = 92
_BLOCK_BYTES: Final = 1 << 17
"""Bytes that are looked at in one go: with what is made of them they stay in the processor's cache."""

OPEN_OBJECT: Final = 1
OPEN_ARRAY: Final = 2
CLOSE_OBJECT: Final = 3
CLOSE_ARRAY: Final = 4
COLON: Final = 5
COMMA: Final = 6
"""In an object."""
ARRAY_COMMA: Final = 7
NAME: Final = 8
"""A string in front of a colon."""
STRING: Final = 9
END: Final = 10
"""Behind each text, and in front of the first."""

_CLASSES: Final = np.zeros(256, dtype=np.uint8)
for _byte, _class in ((123, OPEN_OBJECT), (91, OPEN_ARRAY), (125, CLOSE_OBJECT), (93, CLOSE_ARRAY), (58, COLON),
                      (44, COMMA), (_QUOTE, STRING), (_SEPARATOR, END)):  # fmt: skip
    _CLASSES[_byte] = _class

_DEPTH_STEPS: Final = np.zeros(11, dtype=np.int64)
_DEPTH_STEPS[[OPEN_OBJECT, OPEN_ARRAY]] = 1
_DEPTH_STEPS[[CLOSE_OBJECT, CLOSE_ARRAY]] = -1

_VALUE_BEGINS: Final = (OPEN_OBJECT, OPEN_ARRAY, STRING)
_VALUE_ENDS: Final = {
    OPEN_OBJECT: (), OPEN_ARRAY: (CLOSE_ARRAY, ARRAY_COMMA), COLON: (CLOSE_OBJECT, COMMA),
    ARRAY_COMMA: (CLOSE_ARRAY, ARRAY_COMMA), END: (END,),
}  # fmt: skip


def _list_allowed() -> npt.NDArray[np.bool_]:
    """Which token may follow which, without and with a number or word between them."""
    allowed = np.zeros((11, 11, 2), dtype=np.bool_)
    for token, ends in _VALUE_ENDS.items():
        if token != OPEN_OBJECT:
            allowed[token, _VALUE_BEGINS, 0] = True
            allowed[token, list(ends), 1] = True
    allowed[OPEN_ARRAY, CLOSE_ARRAY, 0] = True
    allowed[OPEN_OBJECT, [NAME, CLOSE_OBJECT], 0] = True
    allowed[COMMA, NAME, 0] = True
    allowed[NAME, COLON, 0] = True
    for token in (STRING, CLOSE_OBJECT, CLOSE_ARRAY):
        allowed[token, [COMMA, ARRAY_COMMA, CLOSE_OBJECT, CLOSE_ARRAY, END], 0] = True
    return allowed


_ALLOWED: Final = _list_allowed()
_SPACES: Final = np.zeros(256, dtype=np.bool_)
_SPACES[[9, 10, 13, 32]] = True


@dataclass(frozen=True)
class JsonScan:
    """The structure of texts.

    Args:
        data: The texts, each with a separator behind it, one in front of the first.
        damaged: Which texts are no JSON; they count as `null`.
        kinds: Of each token.
        starts: Where each token begins; of a string behind its quote.
        ends: Where it ends; of a string at its closing quote.
        gap_starts: Where the number or word behind each token begins.
        gap_ends: Where it ends; at its beginning where there is none.
        ranks: The place of each token in `order`; of strings 0.
        order: Tokens other than strings by depth, then position.
        partners: For each token that opens a container the one that closes it.
        roots: The token in front of each text.
    """

    data: Bytes
    damaged: Mask
    kinds: npt.NDArray[np.uint8]
    starts: Bounds
    ends: Bounds
    gap_starts: Bounds
    gap_ends: Bounds
    ranks: Tokens
    order: Tokens
    partners: Tokens
    roots: Tokens

    def list_members(self, opens: Tokens) -> tuple[Bounds, Tokens]:
        """Of objects: how many members each has, and the colons of all, object by object."""
        first = self.ranks[opens]
        counts = (self.ranks[self.partners[opens]] - first) // 2
        places = find_span_places(np.zeros_like(first), counts) * 2 + np.repeat(first + 1, counts)
        return counts, self.order[places]

    def list_elements(self, opens: Tokens) -> tuple[Bounds, Tokens]:
        """Of arrays: how many elements each has, and the tokens in front of all, array by array."""
        first = self.ranks[opens]
        closes = self.partners[opens]
        is_empty = (closes == opens + 1) & (self.gap_starts[opens] == self.gap_ends[opens])
        counts = np.where(is_empty, 0, self.ranks[closes] - first)
        return counts, self.order[find_span_places(first, counts)]


def scan_json(texts: pa.Array, *, is_bounded: bool = True) -> JsonScan:
    """Scans texts. Pure.

    Args:
        texts: Binary or strings; NULL counts as `null`.
        is_bounded: Whether texts with too many signs are damaged. Those that lakelog has written itself are read.
    """
    texts = texts.cast(pa.binary()).fill_null(b"null")
    damaged = np.zeros(len(texts), dtype=np.bool_)
    if pc.any(pc.match_substring(texts, b"\xff")).as_py():
        damaged |= np.asarray(pc.match_substring(texts, b"\xff"))
        texts = _replace(texts, damaged)
    if is_bounded and (is_dense := find_dense(texts)).any():
        damaged |= is_dense
        texts = _replace(texts, damaged)
    while True:
        scan, wrong = _scan(texts, damaged)
        if scan is not None:
            return scan
        damaged = damaged | wrong
        texts = _replace(texts, damaged)


def _replace(texts: pa.Array, damaged: Mask) -> pa.Array:
    return pc.if_else(pa.array(damaged), pa.scalar(b"null", pa.binary()), texts)


def _scan(texts: pa.Array, damaged: Mask) -> tuple[JsonScan | None, Mask]:
    """The scan, or which texts are damaged besides those that are known to be."""
    joined, bounds = to_bytes(pc.binary_join_element_wise(texts, b"\xff", b""))
    data = np.concatenate([np.array([_SEPARATOR], dtype=np.uint8), joined])
    texts_ends = bounds[1:]
    found = _find_special(data)
    kinds = _CLASSES[data[found]]
    escaped = _find_escaped(data, found)
    if escaped is not None:
        kinds[escaped] = 0
    is_quote = kinds == STRING
    quotes = np.cumsum(is_quote, dtype=np.int64)
    is_end = kinds == END
    wrong = np.diff(quotes[is_end]) % 2 != 0
    if wrong.any():
        return None, wrong
    # What stands inside of strings is their own, and so is the quote that closes one.
    kept = ((quotes & 1 == 0) & (kinds != 0) & ~is_quote) | (is_quote & (quotes & 1 == 1))
    closing = found[is_quote][1::2]
    starts, kinds = found[kept], kinds[kept]
    ends = starts + 1
    is_string = kinds == STRING
    starts[is_string] += 1
    ends[is_string] = closing
    return _find_structure(data, damaged, kinds, starts, ends, texts_ends)


def _find_structure(
    data: Bytes, damaged: Mask, kinds: npt.NDArray[np.uint8], starts: Bounds, ends: Bounds, texts_ends: Bounds
) -> tuple[JsonScan | None, Mask]:
    roots = np.flatnonzero(kinds == END)
    text_of: Callable[[Tokens], Tokens] = lambda tokens: np.searchsorted(roots, tokens, side="left") - 1  # noqa: E731
    wrong = np.zeros(len(damaged), dtype=np.bool_)
    steps = _DEPTH_STEPS[kinds]
    after = np.cumsum(steps)
    wrong |= np.diff(after[roots]) != 0
    # Counted from where the text begins, so that no text disturbs the next one.
    own = after - np.repeat(after[roots], np.diff(np.append(roots, len(kinds))))
    depths = np.maximum(own, own - steps)
    wrong |= np.minimum.reduceat(own, roots)[:-1] < 0
    wrong |= np.maximum.reduceat(own, roots)[:-1] > _MAX_DEPTH
    wrong[text_of(np.flatnonzero((depths == 0) & ((kinds == COMMA) | (kinds == COLON))))] = True
    if wrong.any():
        return None, wrong
    is_string = kinds == STRING
    tokens = np.flatnonzero(~is_string)
    order = tokens[np.argsort(depths[tokens].astype(np.int16), kind="stable")]
    ordered = kinds[order]
    is_open = (ordered == OPEN_OBJECT) | (ordered == OPEN_ARRAY)
    is_close = (ordered == CLOSE_OBJECT) | (ordered == CLOSE_ARRAY)
    opens, closes = order[is_open], order[is_close]
    unfit = kinds[opens] + 2 != kinds[closes]
    if unfit.any():
        wrong[text_of(opens[unfit])] = True
        return None, wrong
    container = np.maximum.accumulate(np.where(is_open, np.arange(len(order)), 0))
    in_array = ordered[container] == OPEN_ARRAY
    ordered[in_array & (ordered == COMMA)] = ARRAY_COMMA
    kinds[order] = ordered
    names = np.flatnonzero(is_string)
    kinds[names[(kinds[names - 1] == OPEN_OBJECT) | (kinds[names - 1] == COMMA)]] = NAME
    gap_starts, gap_ends = _find_gaps(data, ends, np.where(is_string, starts - 1, starts), is_string)
    fits = _ALLOWED[kinds[:-1], kinds[1:], (gap_starts < gap_ends)[:-1].astype(np.int8)]
    # A colon in an array follows no name, and so is not allowed either.
    if not fits.all():
        wrong[text_of(np.flatnonzero(~fits) + 1)] = True
        return None, wrong
    ranks = np.zeros(len(kinds), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    partners = np.zeros(len(kinds), dtype=np.int64)
    partners[opens] = closes
    scan = JsonScan(data, damaged, kinds, starts, ends, gap_starts, gap_ends, ranks, order, partners, roots[:-1])
    return scan, wrong


def _find_gaps(data: Bytes, ends: Bounds, begins: Bounds, is_string: Mask) -> tuple[Bounds, Bounds]:
    """What stands between a token's end and the next token, without spaces around it."""
    starts = ends + is_string
    stops = np.append(begins[1:], begins[-1] + 1)
    stops[-1] = starts[-1]
    for edge, step in ((starts, 1), (stops, -1)):
        at = edge if step == 1 else edge - 1
        open_ = np.flatnonzero((starts < stops) & _SPACES[data[np.minimum(at, len(data) - 1)]])
        while len(open_):
            edge[open_] += step
            at = edge[open_] if step == 1 else edge[open_] - 1
            open_ = open_[(starts[open_] < stops[open_]) & _SPACES[data[np.minimum(at, len(data) - 1)]]]
    return starts, stops


def _find_special(data: Bytes) -> Bounds:
    """The places of bytes that may be tokens: of all that are, and of few others."""
    found = []
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        # Brackets of both kinds and the backslash differ in one bit.
        mask = ((block | 32) - 123) < 3
        mask |= block == _QUOTE
        mask |= block == 44
        mask |= block == 58
        mask |= block == _SEPARATOR
        found.append(np.flatnonzero(mask) + start)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _find_escaped(data: Bytes, found: Bounds) -> npt.NDArray[np.int64] | None:
    """Which of the found places have a backslash before them that escapes them."""
    slashes = found[data[found] == _BACKSLASH]
    if not len(slashes):
        return None
    escaped = find_escaping(slashes) + 1
    places = np.searchsorted(found, escaped)
    within = places < len(found)
    places, escaped = places[within], escaped[within]
    return places[(found[places] == escaped) & (data[escaped] != _SEPARATOR)]


def find_escaping(slashes: Bounds) -> Bounds:
    """Of the places of backslashes those that escape the byte behind them: each other one of a run, from its first."""
    begins = np.ones(len(slashes), dtype=np.bool_)
    begins[1:] = slashes[1:] != slashes[:-1] + 1
    firsts = np.maximum.accumulate(np.where(begins, slashes, 0))
    return slashes[(slashes - firsts) % 2 == 0]
