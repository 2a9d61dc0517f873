"""Types of columns that only their values tell: of texts in CSV, and of fields in JSON. Pure.

A column becomes the narrowest of BIGINT, DOUBLE, BOOLEAN and, in CSV, DATE and TIMESTAMP that holds all of its values,
else STRING. One that has no value says nothing about its type, and has none (Arrow's `null`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pj
from pyarrow import types as pt

from lakelog.format.types.types import LOCAL_TIMESTAMP
from lakelog.records.text_options import TextOptions
from lakelog.records.text_values import parse_text

_OF_TEXTS: Final = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), LOCAL_TIMESTAMP, pa.timestamp("us", "UTC"))


def infer_texts(texts: pa.Array, options: TextOptions) -> pa.DataType:
    """The type of the values of a column of CSV.

    Args:
        texts: Strings.
        options: How they are to be understood.
    """
    if pc.all(pc.or_kleene(texts.is_null(), pc.equal(texts, ""))).as_py() in (True, None):
        return pa.null()
    for each in _OF_TEXTS:
        # 1 and 0 are numbers before they are truth.
        if not parse_text(texts, each, options).bad.any():
            return each
    return pa.string()


def infer_json(texts: pa.Array) -> pa.Schema:
    """The fields of JSON objects, in the order in which they come; texts that are no objects say nothing.

    Args:
        texts: Binary.
    """
    lines = pc.binary_join_element_wise(texts.drop_null(), b"\n", b"")
    data = b"".join(lines.to_pylist())
    try:
        reading = pj.ReadOptions(use_threads=False, block_size=max(len(data), 1))
        found = pj.read_json(pa.BufferReader(data), read_options=reading).schema
        return pa.schema([pa.field(field.name, _without_times(field.type)) for field in found])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _infer_slowly(texts)


def join_schemas(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of several schemas, in types that hold the values of each."""
    joined: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            joined[field.name] = join_types(joined.get(field.name, pa.null()), field.type)
    return pa.schema(list(joined.items()))


def join_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type that holds the values of both, STRING where none else does."""
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    if pt.is_struct(one) and pt.is_struct(other):
        return pa.struct(list(join_schemas([pa.schema(list(one)), pa.schema(list(other))])))
    if pt.is_list(one) and pt.is_list(other):
        return pa.list_(join_types(one.value_type, other.value_type))
    if pt.is_map(one) and pt.is_map(other):
        return pa.map_(join_types(one.key_type, other.key_type), join_types(one.item_type, other.item_type))
    try:
        together = pa.unify_schemas([pa.schema([("c", one)]), pa.schema([("c", other)])], promote_options="permissive")
    except pa.ArrowException:
        return pa.string()
    return together.field("c").type


def leave_out_untyped(schema: pa.Schema) -> pa.Schema:
    """The columns, and the fields inside them, that have a type."""
    return pa.schema([field.with_type(kept) for field in schema if (kept := _typed(field.type)) is not None])


def _typed(data_type: pa.DataType) -> pa.DataType | None:
    if pt.is_null(data_type):
        return None
    if pt.is_struct(data_type):
        fields = leave_out_untyped(pa.schema(list(data_type)))
        return pa.struct(list(fields)) if len(fields) else None
    if pt.is_list(data_type):
        kept = _typed(data_type.value_type)
        return None if kept is None else pa.list_(kept)
    return data_type


def _without_times(data_type: pa.DataType) -> pa.DataType:
    """The type without what Arrow guesses of texts: JSON has no times."""
    if pt.is_temporal(data_type):
        return pa.string()
    if pt.is_struct(data_type):
        return pa.struct([field.with_type(_without_times(field.type)) for field in data_type])
    return pa.list_(_without_times(data_type.value_type)) if pt.is_list(data_type) else data_type


def _infer_slowly(texts: pa.Array) -> pa.Schema:
    """As Arrow, where it refuses some of the objects."""
    found: list[pa.Schema] = []
    for text in texts.to_pylist():
        try:
            value = json.loads(text or b"null", strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(pa.schema([(name, _type_of(each)) for name, each in value.items()]))
    return join_schemas(found)


def _type_of(value: Any) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
        case float():
            return pa.float64()
        case dict():
            return pa.struct([(name, _type_of(each)) for name, each in value.items()])
        case list():
            return pa.list_(_join_all([_type_of(each) for each in value]))
        case _:
            return pa.string()


def _join_all(types: Sequence[pa.DataType]) -> pa.DataType:
    joined = pa.null()
    for each in types:
        joined = join_types(joined, each)
    return joined
