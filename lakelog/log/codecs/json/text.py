"""Columns as JSON text, value by value and row by row, as the log's records write them (semantics 4.4).

Numbers as they are, but decimals as strings with all digits of their scale; NaN, Infinity and -Infinity as strings;
times in ISO 8601 with microseconds; binary as base64. Structs are objects, lists are arrays. A map is an object whose
names are its keys' text; a map with nested keys is an array of objects with `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.base64_text import to_base64
from lakelog.log.codecs.byte_columns import Bytes, to_bytes
from lakelog.log.codecs.time_texts import to_iso_texts

_NULL: Final = "null"
_BLOCK_BYTES: Final = 1 << 16
"""Bytes that are looked at in one go: they stay in the processor's cache, which makes the look twice as fast."""

_ESCAPES: Final = {34: '\\"', 92: "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


def to_json_texts(column: pa.Array) -> pa.Array:
    """Each value as JSON text. Pure.

    Args:
        column: Of a canonical type; a slice too.

    Returns:
        Strings without NULL; NULL is the text `null`.
    """
    bare, is_quoted = _to_bare_texts(column)
    return _complete(bare, is_quoted)


def to_object_texts(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Each row as a JSON object, its columns in this order. Pure.

    Args:
        names: At least one.
        columns: One array for each name, of one length.
    """
    parts: list[pa.Array | str] = []
    literal = "{"
    for name, column in zip(names, columns, strict=True):
        literal += f"{to_json_name(name)}:"
        bare, is_quoted = _to_bare_texts(column)
        if bare.null_count:
            bare, is_quoted = _complete(bare, is_quoted), False
        quote = '"' if is_quoted else ""
        parts += [literal + quote, bare]
        literal = quote + ","
    return pc.binary_join_element_wise(*parts, literal[:-1] + "}", "")


def to_array_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Each row as a JSON array of its values. Pure."""
    parts: list[pa.Array | str] = ["["]
    for column in columns:
        parts += [to_json_texts(column), ","]
    return pc.binary_join_element_wise(*parts[:-1], "]", "")


def to_json_name(name: str) -> str:
    """A text as JSON, with its quotes."""
    return json.dumps(name, ensure_ascii=False)


def escape_texts(texts: pa.Array) -> pa.Array:
    """Strings as they stand between the quotes of JSON: quotes, backslashes and control characters escaped. Pure."""
    data, _ = to_bytes(texts)
    found = _find_special(data)
    if 92 in found:
        # First of all: what the others become begins with a backslash.
        texts = pc.replace_substring(texts, "\\", "\\\\")
    for code in sorted(found - {92}):
        texts = pc.replace_substring(texts, chr(code), _ESCAPES.get(code, f"\\u{code:04x}"))
    return texts


def _find_special(data: Bytes) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        special = (block < 32) | (block == 34) | (block == 92)
        if special.any():
            found.update(np.unique(block[special]).tolist())
    return found


def _complete(bare: pa.Array, is_quoted: bool) -> pa.Array:
    texts = pc.binary_join_element_wise('"', bare, '"', "") if is_quoted else bare
    return texts.fill_null(_NULL) if texts.null_count else texts


def _to_bare_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    """The texts without their quotes, NULL where the value is, and whether quotes belong around each."""
    data_type = column.type
    if pt.is_floating(data_type):
        return _write_floats(column)
    if not pt.is_nested(data_type):
        return _write_bare(column), not (pt.is_integer(data_type) or pt.is_boolean(data_type))
    if pt.is_struct(data_type):
        texts = to_object_texts([field.name for field in data_type.fields], column.flatten())
    elif pt.is_map(data_type):
        texts = _write_maps(column)
    else:
        texts = _join_elements(column, to_json_texts(column.flatten()), "[", "]")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())), False


def _write_bare(column: pa.Array) -> pa.Array:
    """The text of values of single-valued types other than floats; NULL stays NULL."""
    data_type = column.type
    if pt.is_string(data_type):
        return escape_texts(column)
    if pt.is_binary(data_type):
        texts = to_base64(column)
        return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts
    if pt.is_decimal(data_type):
        return to_decimal_texts(column)
    if pt.is_date(data_type) or pt.is_timestamp(data_type):
        return to_iso_texts(column)
    return column.cast(pa.string())


def _write_floats(column: pa.Array) -> tuple[pa.Array, bool]:
    texts = _write_bare_floats(column)
    finite = pc.is_finite(column)
    if pc.all(finite).as_py() is not False:
        return texts, False
    return pc.if_else(finite, texts, pc.binary_join_element_wise('"', texts, '"', "")), False


def _write_bare_floats(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    # Many readers take `-0` for an integer, and lose its sign.
    negative_zero = pc.equal(texts, "-0")
    if pc.any(negative_zero).as_py():
        texts = pc.if_else(negative_zero, "-0.0", texts)
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return texts
    texts = pc.replace_substring_regex(texts, "^nan$", "NaN")
    return pc.replace_substring_regex(texts, "^(-?)inf$", "\\1Infinity")


def to_decimal_texts(column: pa.Array) -> pa.Array:
    """Decimals with all digits of their scale and without an exponent. Pure; NULL stays NULL."""
    texts = column.cast(pa.string())
    short = pc.match_substring(texts, "E")
    if not pc.any(short).as_py():
        return texts
    # Arrow writes small ones with an exponent. Their digits are those of the same number without a scale.
    scale = column.type.scale
    few = column.filter(short)
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(few), few.buffers(), offset=few.offset).cast(pa.string())
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), scale + 1, "0")
    body = pc.binary_join_element_wise(
        sign,
        pc.utf8_slice_codeunits(digits, 0, -scale),
        ".",
        pc.utf8_slice_codeunits(digits, -scale, None),
        "",
    )
    return pc.replace_with_mask(texts, short.fill_null(False), body)


def _write_maps(column: pa.Array) -> pa.Array:
    entries = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    keys, values = entries.flatten().flatten()
    if pt.is_nested(keys.type):
        return _join_elements(entries, to_object_texts(["key", "value"], [keys, values]), "[", "]")
    names = _write_bare_floats(keys) if pt.is_floating(keys.type) else _write_bare(keys)
    members = pc.binary_join_element_wise('"', names, '":', to_json_texts(values), "")
    return _join_elements(entries, members, "{", "}")


def _join_elements(lists: pa.Array, texts: pa.Array, before: str, after: str) -> pa.Array:
    """The texts of each list's elements with commas between them; `texts` is of its flattened values."""
    bounds = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum(np.asarray(pc.list_value_length(lists).fill_null(0)), out=bounds[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), texts), ",")
    return pc.binary_join_element_wise(before, joined, after, "")
