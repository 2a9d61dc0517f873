"""Fields of JSON records by the scan of the log's codecs: whatever their types are, and which records are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.base64_text import from_base64
from lakelog.log.codecs.byte_columns import Mask, take_spans
from lakelog.log.codecs.casts import cast_where_possible
from lakelog.log.codecs.json.scan import JsonScan, scan_json
from lakelog.log.codecs.json.values import ARRAY, OBJECT, TEXT, WORD, Members, Values, read_column
from lakelog.records.text_options import TextOptions
from lakelog.records.text_values import parse_text

_WORD: Final = rb"^(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|-?Inf(?:inity)?|NaN)$"
"""The numbers and words of JSON, and the numbers that have none there but that many write."""
_WHOLE: Final = pa.decimal128(38, 0)


@dataclass(frozen=True)
class ScannedRecords:
    """What a scan found.

    Args:
        columns: By field, a value a record: of the field's type, or text that is still to be parsed as such.
        damaged: Which records are no JSON object with fields as they shall be.
        wrong: By field the records in which it cannot be a value of its type.
    """

    columns: dict[str, pa.Array]
    damaged: Mask
    wrong: dict[str, Mask]


def scan_records(
    texts: pa.Array, options: TextOptions, types: Mapping[str, pa.DataType], *, ignore_unknown: bool
) -> ScannedRecords:
    """Reads records. Pure; no loop over records.

    Args:
        texts: Binary, one a record.
        options: How text inside of nested values is to be understood.
        types: By field: as what it is read.
        ignore_unknown: Whether other fields are passed over; else their record is damaged.
    """
    # A scan keeps one of the bytes that UTF-8 does not have for itself; another one makes only its field wrong.
    scan = scan_json(pc.replace_substring(texts, b"\xff", b"\xfe"))
    objects = Values.of_roots(scan, Members.ONCE if ignore_unknown else Members.KNOWN)
    objects.refuse(objects.kinds != OBJECT)
    objects.refuse(_find_strange_words(scan))
    columns, wrong = {}, {}
    for (name, type_), values in zip(types.items(), objects.find_members(list(types)), strict=True):
        wrong[name] = np.zeros(len(texts), np.bool_)
        columns[name] = _read(replace(values, wrong=wrong[name]), type_, options)
    return ScannedRecords(columns, objects.wrong, wrong)


def _find_strange_words(scan: JsonScan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The texts in which something stands that is neither a value nor a sign of JSON."""
    holders = np.flatnonzero(scan.gap_starts < scan.gap_ends)
    starts = scan.gap_starts[holders]
    words = take_spans(scan.data, starts, scan.gap_ends[holders] - starts)
    strange = holders[~np.asarray(pc.match_substring_regex(words, _WORD))]
    return np.searchsorted(scan.roots, strange, side="right") - 1


def _read(values: Values, type_: pa.DataType, options: TextOptions) -> pa.Array:
    if pt.is_nested(type_):
        return read_column(values, type_, lambda inner, inner_type: _read_inner(inner, inner_type, options))
    return _read_single(values, type_, options)


def _read_inner(values: Values, type_: pa.DataType, options: TextOptions) -> pa.Array:
    found = _read_single(values, type_, options)
    if found.type == type_:
        return found
    parsed = parse_text(found, type_, options)
    values.refuse(parsed.bad)
    return parsed.values


def _read_single(values: Values, type_: pa.DataType, options: TextOptions) -> pa.Array:
    """The values, or their text where that is to be parsed as any text is."""
    values.refuse((values.kinds == OBJECT) | (values.kinds == ARRAY))
    if pt.is_string(type_) or pt.is_binary(type_):
        values.refuse(values.kinds == WORD)
        texts = values.read_texts()
        if pt.is_string(type_):
            return texts
        found, wrong = from_base64(texts)
        values.refuse(wrong)
        return found
    words = values.read_words()
    if pt.is_boolean(type_):
        is_true = pc.equal(words, "true")
        values.refuse(np.asarray(pc.and_(words.is_valid(), pc.invert(pc.is_in(words, pa.array(["true", "false"]))))))
        if not (values.kinds == TEXT).any():
            return is_true
        words = pc.if_else(is_true, options.true_values[0], options.false_values[0])
    elif pt.is_integer(type_):
        pointed = pc.if_else(pc.match_substring_regex(words, "[.eE]"), words, pa.scalar(None, pa.string()))
        whole, _ = cast_where_possible(pointed, _WHOLE)
        words = pc.coalesce(whole.cast(pa.string()), words)
    return pc.coalesce(values.read_texts(), words)
