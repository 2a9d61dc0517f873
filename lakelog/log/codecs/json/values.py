"""Values of JSON texts as columns of the types of a schema: the inverse of `text.py`. No loop over rows.

A value that does not fit its type makes its text *wrong*, and is NULL. All values are found by place: which number of
slot they fill, and which text they are of.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


class Members(enum.Enum):
    """Which members an object may have that is read as a struct or a map."""

    ANY = enum.auto()
    """Others than the struct's too; of a name that comes twice the last one counts."""
    ONCE = enum.auto()
    """Others too, but no name twice."""
    KNOWN = enum.auto()
    """Only the struct's own, and no name twice."""


@dataclass(frozen=True)
class Values:
    """Values by slot.

    Args:
        scan: What they are of.
        wrong: By text: whether a value did not fit; shared by all values of a scan, and written to.
        holders: The token that each value stands behind; -1: there is none.
        kinds: What it is.
        texts: Which text each slot is of.
        members: Which members objects may have.
    """

    scan: JsonScan
    wrong: Mask
    holders: Tokens
    kinds: npt.NDArray[np.int8]
    texts: Tokens
    members: Members = Members.ANY

    @staticmethod
    def of(scan: JsonScan, wrong: Mask, holders: Tokens, texts: Tokens, members: Members = Members.ANY) -> Values:
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
        return Values(scan, wrong, holders, kinds, texts, members)

    @staticmethod
    def of_roots(scan: JsonScan, members: Members = Members.ANY) -> Values:
        """The value of each text."""
        return Values.of(scan, scan.damaged.copy(), scan.roots, np.arange(len(scan.roots)), members)

    def at(self, holders: Tokens, texts: Tokens) -> Values:
        """Other values of the same scan."""
        return Values.of(self.scan, self.wrong, holders, texts, self.members)

    def __len__(self) -> int:
        return len(self.holders)

    def fill(self, slots: npt.NDArray[np.int64] | Mask) -> Values:
        """Some of the slots."""
        return replace(self, holders=self.holders[slots], kinds=self.kinds[slots], texts=self.texts[slots])

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
        if self.members is Members.KNOWN:
            self.refuse(slots[places < 0])
        found = []
        for place in range(len(names)):
            chosen = places == place
            holders = np.full(len(self), -1, dtype=np.int64)
            holders[slots[chosen]] = values[chosen]
            found.append(self.at(holders, self.texts))
        return found

    def _list_members(self) -> tuple[Tokens, pa.Array, Tokens]:
        """The slot, the name and the holding token of each member of each object."""
        objects = np.flatnonzero(self.kinds == OBJECT)
        counts, colons = self.scan.list_members(self.holders[objects] + 1)
        slots = np.repeat(objects, counts)
        tokens = colons - 1
        starts = self.scan.starts[tokens]
        names, wrong = unescape_texts(take_spans(self.scan.data, starts, self.scan.ends[tokens] - starts))
        self.refuse(slots[wrong])
        if self.members is not Members.ANY:
            codes = np.asarray(pc.fill_null(names.dictionary_encode().indices, -1), np.int64)
            order = np.lexsort((codes, slots))
            same = (np.diff(codes[order]) == 0) & (np.diff(slots[order]) == 0)
            self.refuse(slots[order[1:][same]])
        return slots, names, colons


ReadSingles = Callable[[Values, pa.DataType], pa.Array]
"""Reads values that are not nested, and refuses those that do not fit."""


def read_column(values: Values, data_type: pa.DataType, read_singles: ReadSingles | None = None) -> pa.Array:
    """The values as an array of this canonical type, one a slot; values of other kinds are wrong.

    Args:
        values: The values.
        data_type: The type.
        read_singles: Reads what is not nested; None: as logs write it.
    """
    read_singles = read_singles or _read_singles
    if pt.is_struct(data_type):
        return _read_structs(values, data_type, read_singles)
    if pt.is_map(data_type):
        return _read_maps(values, data_type, read_singles)
    if pt.is_list(data_type):
        return _read_lists(values, data_type, read_singles)
    return read_singles(values, data_type)


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


def _read_structs(values: Values, data_type: pa.DataType, read_singles: ReadSingles) -> pa.Array:
    values.refuse((values.kinds != OBJECT) & (values.kinds != NOTHING))
    fields = data_type.fields
    children = [
        read_column(members, field.type, read_singles)
        for members, field in zip(values.find_members([field.name for field in fields]), fields, strict=True)
    ]
    is_null = values.kinds != OBJECT
    for child, field in zip(children, fields, strict=True):
        if not field.nullable and child.null_count:
            values.refuse(np.asarray(child.is_null()) & ~is_null)
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_null))


def _read_lists(values: Values, data_type: pa.DataType, read_singles: ReadSingles) -> pa.Array:
    values.refuse((values.kinds != ARRAY) & (values.kinds != NOTHING))
    slots, elements = _list_elements(values)
    field = data_type.value_field
    children = read_column(elements, field.type, read_singles)
    if not field.nullable and children.null_count:
        elements.refuse(np.asarray(children.is_null()))
    return pa.ListArray.from_arrays(
        _to_offsets(slots, len(values)), children, type=data_type, mask=pa.array(values.kinds != ARRAY)
    )


def _list_elements(values: Values) -> tuple[Tokens, Values]:
    """The slot and the value of each element of each array."""
    arrays = np.flatnonzero(values.kinds == ARRAY)
    counts, holders = values.scan.list_elements(values.holders[arrays] + 1)
    slots = np.repeat(arrays, counts)
    return slots, values.at(holders, values.texts[slots])


def _to_offsets(slots: Tokens, count: int) -> pa.Array:
    return pa.array(to_bounds(np.bincount(slots, minlength=count)), pa.int32())


def _read_maps(values: Values, data_type: pa.DataType, read_singles: ReadSingles) -> pa.Array:
    """Maps from objects where names can say their keys, from arrays of entries where they cannot."""
    key_type, item_field = data_type.key_type, data_type.item_field
    is_map = (values.kinds == ARRAY) | (values.kinds == NOTHING)
    slots, entry_keys, entry_items = _list_entries(values)
    keys = read_column(entry_keys, key_type, read_singles)
    entry_keys.refuse(np.asarray(keys.is_null()))
    holders = entry_items.holders
    if not pt.is_nested(key_type):
        is_map |= values.kinds == OBJECT
        named, names, colons = values._list_members()
        more, wrong = _read_names(names, key_type)
        values.refuse(named[wrong])
        order = np.argsort(np.concatenate([slots, named]), kind="stable")
        keys = pa.concat_arrays([keys, more]).take(pa.array(order))
        slots, holders = np.concatenate([slots, named])[order], np.concatenate([holders, colons])[order]
    values.refuse(~is_map)
    members = values.at(holders, values.texts[slots])
    items = read_column(members, item_field.type, read_singles)
    if not item_field.nullable and items.null_count:
        members.refuse(np.asarray(items.is_null()))
    offsets, is_null = _to_offsets(slots, len(values)), ~is_map | (values.kinds == NOTHING)
    # Those that are missing are of wrong texts, whose rows nobody sees.
    return pa.MapArray.from_arrays(offsets, fill_with_any(keys), items, type=data_type, mask=pa.array(is_null))


def _list_entries(values: Values) -> tuple[Tokens, Values, Values]:
    """The slot, the key and the item of each entry of each array: `[key, item]` or `{"key": key, "value": item}`."""
    slots, entries = _list_elements(values)
    of_keys, of_items = (found.holders for found in entries.find_members(["key", "value"]))
    places, parts = _list_elements(entries)
    counts = np.bincount(places, minlength=len(entries))
    is_pair = (entries.kinds == ARRAY) & (counts == 2)
    entries.refuse(~is_pair & (entries.kinds != OBJECT))
    of_pairs = parts.holders[is_pair[places]]
    of_keys[is_pair], of_items[is_pair] = of_pairs[::2], of_pairs[1::2]
    return slots, entries.at(of_keys, entries.texts), entries.at(of_items, entries.texts)


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
