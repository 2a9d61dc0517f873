"""Values of JSON texts as columns of the types of a schema: the inverse of `json_text.py`. No loop over rows.

A value that does not fit its type makes its text *wrong*, and is NULL. All values are found by place: which number of
slot they fill, and which text they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.base64_text import from_base64
from lakelog.log.codecs.byte_columns import Mask, fill_with_any, take_spans, to_bounds
from lakelog.log.codecs.casts import cast_where_possible
from lakelog.log.codecs.json import scan as json_scan
from lakelog.log.codecs.json.scan import JsonScan, Tokens
from lakelog.log.codecs.json.strings import to_strings, unescape_texts
from lakelog.log.codecs.time_texts import from_iso_texts

NOTHING: Final = 0
"""No value at all, or `null`."""
TEXT: Final = 1
WORD: Final = 2
"""A number, `true` or `false`."""
OBJECT: Final = 3
ARRAY: Final = 4

_NUMBER: Final = r"^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$"
_NOT_FINITE: Final = ["NaN", "Infinity", "-Infinity"]


@dataclass(frozen=True)
class Values:
    """Values by slot.

    Args:
        scan: What they are of.
        wrong: By text: whether a value did not fit; shared by all values of a scan, and written to.
        holders: The token that each value stands behind; -1: there is none.
        kinds: What it is.
        texts: Which text each slot is of.
    """

    scan: JsonScan
    wrong: Mask
    holders: Tokens
    kinds: npt.NDArray[np.int8]
    texts: Tokens

    @staticmethod
    def of(scan: JsonScan, wrong: Mask, holders: Tokens, texts: Tokens) -> Values:
        """Values behind tokens."""
        kinds = np.zeros(len(holders), dtype=np.int8)
        there = np.maximum(holders, 0)
        is_word = scan.gap_starts[there] < scan.gap_ends[there]
        following = scan.kinds[np.minimum(there + 1, len(scan.kinds) - 1)]
        kinds[following == json_scan.STRING] = TEXT
        kinds[following == json_scan.OPEN_OBJECT] = OBJECT
        kinds[following == json_scan.OPEN_ARRAY] = ARRAY
        kinds[is_word] = WORD
        starts = scan.gap_starts[there]
        # Of all words only `null` begins with an n, but for damage; that is found where words are read.
        is_null = is_word & (scan.data[starts] == ord("n")) & (scan.gap_ends[there] - starts == 4)
        kinds[is_null | (holders < 0)] = NOTHING
        return Values(scan, wrong, holders, kinds, texts)

    @staticmethod
    def of_roots(scan: JsonScan) -> Values:
        """The value of each text."""
        return Values.of(scan, scan.damaged.copy(), scan.roots, np.arange(len(scan.roots)))

    def __len__(self) -> int:
        return len(self.holders)

    def fill(self, slots: npt.NDArray[np.int64] | Mask) -> Values:
        """Some of the slots."""
        return Values(self.scan, self.wrong, self.holders[slots], self.kinds[slots], self.texts[slots])

    def refuse(self, slots: npt.NDArray[np.int64] | Mask) -> None:
        """Says that values do not fit."""
        self.wrong[self.texts[slots]] = True

    def read_texts(self) -> pa.Array:
        """The strings; NULL where a value is none."""
        return self._read_strings(self.kinds == TEXT)

    def read_words(self) -> pa.Array:
        """Numbers, `true` and `false` as strings; NULL where a value is none."""
        chosen = self.kinds == WORD
        there = np.where(chosen, self.holders, 0)
        lengths = np.where(chosen, self.scan.gap_ends[there] - self.scan.gap_starts[there], 0)
        words, no_utf8 = to_strings(take_spans(self.scan.data, self.scan.gap_starts[there], lengths, chosen))
        self.refuse(no_utf8)
        return words

    def _read_strings(self, chosen: Mask) -> pa.Array:
        tokens = np.where(chosen, self.holders + 1, 0)
        lengths = np.where(chosen, self.scan.ends[tokens] - self.scan.starts[tokens], 0)
        found, wrong = unescape_texts(take_spans(self.scan.data, self.scan.starts[tokens], lengths, chosen))
        self.refuse(wrong)
        return found

    def find_members(self, names: Sequence[str]) -> list[Values]:
        """Of slots that are objects: the values of these names, slot by slot; of a name that comes twice the last."""
        slots, members, values = self._list_members()
        places = np.asarray(pc.index_in(members, value_set=pa.array(names, pa.string())).fill_null(-1))
        found = []
        for place in range(len(names)):
            chosen = places == place
            holders = np.full(len(self), -1, dtype=np.int64)
            holders[slots[chosen]] = values[chosen]
            found.append(Values.of(self.scan, self.wrong, holders, self.texts))
        return found

    def _list_members(self) -> tuple[Tokens, pa.Array, Tokens]:
        """The slot, the name and the holding token of each member of each object."""
        objects = np.flatnonzero(self.kinds == OBJECT)
        counts, colons = self.scan.list_members(self.holders[objects] + 1)
        slots = np.repeat(objects, counts)
        tokens = colons - 1
        starts = self.scan.starts[tokens]
        names, wrong = unescape_texts(take_spans(self.scan.data, starts, self.scan.ends[tokens] - starts))
        self.wrong[self.texts[slots[wrong]]] = True
        return slots, names, colons


def read_column(values: Values, data_type: pa.DataType) -> pa.Array:
    """The values as an array of this canonical type, one a slot; values of other kinds are wrong."""
    if pt.is_struct(data_type):
        return _read_structs(values, data_type)
    if pt.is_map(data_type):
        return _read_maps(values, data_type)
    if pt.is_list(data_type):
        values.refuse((values.kinds != ARRAY) & (values.kinds != NOTHING))
        return _read_lists(values, data_type)
    return _read_singles(values, data_type)


def _read_singles(values: Values, data_type: pa.DataType) -> pa.Array:
    is_text, is_word = values.kinds == TEXT, values.kinds == WORD
    fits = values.kinds == NOTHING
    if pt.is_floating(data_type):
        found, fits = _read_floats(values, data_type)
    elif pt.is_boolean(data_type) or pt.is_integer(data_type):
        fits |= is_word
        found, wrong = read_numbers(values.read_words(), data_type)
        fits &= ~wrong
    elif pt.is_decimal(data_type):
        fits |= is_text | is_word
        found, wrong = read_numbers(pc.coalesce(values.read_texts(), values.read_words()), data_type)
        fits &= ~wrong
    elif pt.is_string(data_type):
        fits |= is_text
        found = values.read_texts()
    else:
        fits |= is_text
        found, wrong = _read_coded(values, data_type)
        fits &= ~wrong
    values.refuse(~fits)
    return found


def _read_coded(values: Values, data_type: pa.DataType) -> tuple[pa.Array, Mask]:
    if pt.is_binary(data_type):
        return from_base64(values.read_texts())
    return from_iso_texts(values.read_texts(), data_type)


def _read_floats(values: Values, data_type: pa.DataType) -> tuple[pa.Array, Mask]:
    found, wrong = read_numbers(values.read_words(), data_type)
    fits = ~wrong & (values.kinds != OBJECT) & (values.kinds != ARRAY)
    is_text = values.kinds == TEXT
    if is_text.any():
        texts = values.read_texts()
        fits &= ~is_text | np.asarray(pc.is_in(texts, value_set=pa.array(_NOT_FINITE)))
        named = pc.if_else(pc.is_in(texts, value_set=pa.array(_NOT_FINITE)), texts, pa.scalar(None, pa.string()))
        found = pc.coalesce(found, named.cast(data_type))
    return found, fits


def read_numbers(words: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, Mask]:
    """Numbers, or `true` and `false`, from their JSON text, and which are none or do not fit; those are NULL."""
    if pt.is_boolean(data_type):
        is_known = pc.or_(pc.equal(words, "true"), pc.equal(words, "false"))
    elif pt.is_integer(data_type):
        # Arrow takes nothing but digits with a sign, and checks the range.
        is_known = None
    else:
        is_known = pc.match_substring_regex(words, _NUMBER)
    wrong = np.zeros(len(words), dtype=np.bool_)
    if is_known is not None and pc.all(is_known).as_py() is False:
        wrong = ~np.asarray(is_known.fill_null(True))
        words = pc.if_else(is_known, words, pa.scalar(None, pa.string()))
    found, failed = cast_where_possible(words, data_type)
    return found, wrong | failed


def _read_structs(values: Values, data_type: pa.DataType) -> pa.Array:
    values.refuse((values.kinds != OBJECT) & (values.kinds != NOTHING))
    fields = data_type.fields
    children = [
        read_column(members, field.type)
        for members, field in zip(values.find_members([field.name for field in fields]), fields, strict=True)
    ]
    is_null = values.kinds != OBJECT
    for child, field in zip(children, fields, strict=True):
        if not field.nullable and child.null_count:
            values.refuse(np.asarray(child.is_null()) & ~is_null)
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_null))


def _read_lists(values: Values, data_type: pa.DataType) -> pa.Array:
    arrays = np.flatnonzero(values.kinds == ARRAY)
    counts, holders = values.scan.list_elements(values.holders[arrays] + 1)
    elements = Values.of(values.scan, values.wrong, holders, np.repeat(values.texts[arrays], counts))
    field = data_type.value_field
    children = read_column(elements, field.type)
    if not field.nullable and children.null_count:
        elements.refuse(np.asarray(children.is_null()))
    lengths = np.zeros(len(values), dtype=np.int64)
    lengths[arrays] = counts
    return pa.ListArray.from_arrays(
        pa.array(to_bounds(lengths), pa.int32()), children, type=data_type, mask=pa.array(values.kinds != ARRAY)
    )


def _read_maps(values: Values, data_type: pa.DataType) -> pa.Array:
    key_field, item_field = data_type.key_field, data_type.item_field
    if pt.is_nested(key_field.type):
        entries = pa.list_(pa.field("element", pa.struct([key_field, item_field]), nullable=False))
        values.refuse((values.kinds != ARRAY) & (values.kinds != NOTHING))
        lists = _read_lists(values, entries)
        pairs = lists.values
        offsets, keys, items = lists.offsets, pairs.field(0), pairs.field(1)
        is_null = values.kinds != ARRAY
    else:
        values.refuse((values.kinds != OBJECT) & (values.kinds != NOTHING))
        slots, names, colons = values._list_members()
        texts = values.texts[slots]
        keys, wrong = _read_names(names, key_field.type)
        values.wrong[texts[wrong]] = True
        members = Values.of(values.scan, values.wrong, colons, texts)
        items = read_column(members, item_field.type)
        if not item_field.nullable and items.null_count:
            members.refuse(np.asarray(items.is_null()))
        lengths = np.bincount(slots, minlength=len(values))
        offsets = pa.array(to_bounds(lengths), pa.int32())
        is_null = values.kinds != OBJECT
    # Those that are missing are of wrong texts, whose rows nobody sees.
    return pa.MapArray.from_arrays(offsets, fill_with_any(keys), items, type=data_type, mask=pa.array(is_null))


def _read_names(names: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, Mask]:
    """The keys of a map from the names that they are written as."""
    if pt.is_string(data_type):
        return names, np.asarray(names.is_null())
    if pt.is_binary(data_type):
        return from_base64(names)
    if pt.is_date(data_type) or pt.is_timestamp(data_type):
        return from_iso_texts(names, data_type)
    if not pt.is_floating(data_type):
        return read_numbers(names, data_type)
    is_named = pc.is_in(names, value_set=pa.array(_NOT_FINITE))
    found, wrong = read_numbers(pc.if_else(is_named, "0", names), data_type)
    named = pc.if_else(is_named, names, pa.scalar(None, pa.string())).cast(data_type)
    return pc.coalesce(named, found), wrong
