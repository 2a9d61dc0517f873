"""Rows of all types, made by Hypothesis, and what a plain reader of JSON should see of them."""

from __future__ import annotations

import base64
import decimal
import json
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakelog.format.tables.table import TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.codec import LogCodec, LogForm

NAME = TableName("shop", "orders")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)

_SINGLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 38), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: scaled(n, 38))),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: scaled(n, 0))),
    (pa.decimal128(12, 9), st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: scaled(n, 9))),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.timestamp("us"), st.integers(-(2**63) + 1, 2**63 - 1)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(0, 2**51)),
]
KEY_TYPES = [pair for pair in _SINGLE if not pa.types.is_floating(pair[0])]


def scaled(number: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def to_struct(children: list[Any]) -> Any:
        names = [f'f{place}"\n' for place in range(len(children))]
        fields = [pa.field(name, child[0]) for name, child in zip(names, children, strict=True)]
        return pa.struct(fields), st.fixed_dictionaries(
            {name: st.none() | child[1] for name, child in zip(names, children, strict=True)}
        )

    def to_map(parts: tuple[Any, Any]) -> Any:
        (key_type, keys), (value_type, values) = parts
        return pa.map_(key_type, value_type), st.lists(
            # Of two entries of a key most readers know one.
            st.tuples(keys, st.none() | values),
            max_size=3,
            unique_by=lambda entry: repr(entry[0]),
        )

    lists = inner.map(
        lambda child: (pa.list_(pa.field("element", child[0])), st.lists(st.none() | child[1], max_size=3))
    )
    structs = st.lists(inner, min_size=1, max_size=3).map(to_struct)
    # A name made of a float has fewer digits than Python would give it.
    maps = st.tuples(inner.filter(lambda child: not pa.types.is_floating(child[0])), inner).map(to_map)
    return lists | structs | maps


TYPES = st.recursive(st.sampled_from(_SINGLE), _nest, max_leaves=5)
"""Types, each with a strategy of its values as `pa.array` takes them; times are numbers."""


@st.composite
def tables(draw: st.DrawFn, keyed: bool = True) -> tuple[TableSchema, pa.Table]:
    """A schema, and up to 12 rows of it."""
    count = draw(st.integers(1, 12))
    chosen = [draw(st.sampled_from(KEY_TYPES)), *draw(st.lists(TYPES, min_size=1, max_size=4))]
    names = draw(st.lists(TEXTS.filter(bool), min_size=len(chosen), max_size=len(chosen), unique=True))
    columns, fields = [], []
    for place, (data_type, values) in enumerate(chosen):
        given = values if keyed and place == 0 else st.none() | values
        column = make_array(draw(st.lists(given, min_size=count, max_size=count)), data_type)
        columns.append(column)
        fields.append(pa.field(names[place], data_type, nullable=not (keyed and place == 0)))
    arrow = assign_field_ids(pa.schema(fields))
    schema = TableSchema(0, arrow, (names[0],) if keyed else ())
    return schema, pa.Table.from_arrays([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)


def make_array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """As `pa.array`, which would refuse times that Python has none of."""
    return (
        pa.array(values, to_numbers(data_type)).view(data_type) if _is_time(data_type) else pa.array(values, data_type)
    )


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(data_type))


def to_numbers(data_type: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date(data_type) else pa.int64()


def make_codec(schema: TableSchema, value_format: str = "debezium-json", **form: Any) -> LogCodec:
    return LogCodec(schema, NAME, LogForm(value_format=value_format, **form))


def to_json_value(value: Any, data_type: pa.DataType) -> Any:
    """What a plain reader of JSON sees of a value, by the rules of semantics 4.4, one value at a time."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: to_json_value(value[field.name], field.type) for field in data_type.fields}
    if pa.types.is_map(data_type):
        if pa.types.is_nested(data_type.key_type):
            both = (data_type.key_type, data_type.item_type)
            return [{"key": to_json_value(key, both[0]), "value": to_json_value(item, both[1])} for key, item in value]
        return {_to_name(key, data_type.key_type): to_json_value(item, data_type.item_type) for key, item in value}
    if pa.types.is_list(data_type):
        return [to_json_value(item, data_type.value_type) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if data_type.tz else "")
    return value.isoformat() if isinstance(value, date) else value


def _to_name(key: Any, data_type: pa.DataType) -> str:
    value = to_json_value(key, data_type)
    return value if isinstance(value, str) else json.dumps(value)
