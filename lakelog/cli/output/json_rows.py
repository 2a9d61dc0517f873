"""Rows as JSON lines, made in columns: Arrow's kernels make a text for each value, and join the texts to rows.

The forms of values are those of the log's JSON: times ISO 8601 with microseconds, in UTC with `Z`; decimals as strings;
binary as base64; NaN and infinities as strings; maps as objects where the keys are strings, else as lists of pairs.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.types.time_text import to_time_texts


def to_json_lines(batch: pa.RecordBatch) -> str:
    """The rows of a batch as JSON objects, one a line, keys in the order of the columns. Pure."""
    if batch.num_rows == 0:
        return ""
    if batch.num_columns == 0:
        return "{}\n" * batch.num_rows
    parts: list[Any] = []
    for i, field in enumerate(batch.schema):
        prefix = ("{" if i == 0 else ", ") + json.dumps(field.name, ensure_ascii=False) + ": "
        parts += [pa.scalar(prefix, pa.large_string()), _json_values(batch.column(i))]
    parts += [pa.scalar("}\n", pa.large_string()), pa.scalar("", pa.large_string())]
    lines = pc.binary_join_element_wise(*parts)
    # The array's data holds the lines one after the other, so they need not be extracted singly.
    return lines.buffers()[2].to_pybytes().decode()


def to_json_value(value: Any, data_type: pa.DataType) -> Any:
    """A Python value from Arrow, as a value for JSON; its type distinguishes maps from lists of pairs. Pure."""
    if value is None or not pt.is_nested(data_type):
        return _plain_value(value)
    if pt.is_map(data_type):
        pairs = [(key, to_json_value(item, data_type.item_type)) for key, item in value]
        return dict(pairs) if pt.is_string(data_type.key_type) else [[_plain_value(key), item] for key, item in pairs]
    if pt.is_struct(data_type):
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return {field.name: to_json_value(value[field.name], field.type) for field in fields}
    return [to_json_value(item, data_type.value_type) for item in value]


def _plain_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _float_name(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return text.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case pa.MonthDayNano():
            return _to_duration(*value)
        case _:
            return str(value)


def _to_duration(months: int, days: int, nanoseconds: int) -> str:
    """An interval as a duration of ISO 8601, such as `P1M3DT0.5S`."""
    seconds = format(Decimal(nanoseconds).scaleb(-9).normalize(), "f")
    return f"P{months}M{days}DT{seconds}S"


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _json_values(column: pa.Array) -> pa.Array:
    """JSON texts of a column's values, `null` for missing ones."""
    return pc.fill_null(to_json_texts(column), pa.scalar("null", pa.large_string()))


def to_json_texts(column: pa.Array) -> pa.Array:
    """JSON texts of a column's values, NULL for missing ones; large strings, so that joining cannot overflow. Pure."""
    data_type = column.type
    if pt.is_integer(data_type) or pt.is_boolean(data_type):
        return column.cast(pa.large_string())
    if pt.is_floating(data_type):
        return _float_texts(column)
    if pt.is_decimal(data_type):
        plain = column.cast(pa.large_string())
        # Arrow writes numbers near zero as `1E-7`.
        has_exponent = pc.any(pc.match_substring(plain, "E")).as_py()
        return _distinct_texts(column) if has_exponent else _quoted(plain)
    if pt.is_date(data_type) or pt.is_timestamp(data_type):
        return _quoted(to_time_texts(column))
    return _distinct_texts(column)


def _float_texts(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.large_string())
    for mask, name in (
        (pc.is_nan(column), "NaN"),
        (pc.equal(column, math.inf), "Infinity"),
        (pc.equal(column, -math.inf), "-Infinity"),
    ):
        texts = pc.if_else(mask, pa.scalar(f'"{name}"', pa.large_string()), texts)
    # A JSON reader takes Arrow's `-0` as a whole number, which has no sign.
    minus_zero = pc.equal(texts, pa.scalar("-0", pa.large_string()))
    return pc.if_else(minus_zero, pa.scalar("-0.0", pa.large_string()), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, nothing)


def _distinct_texts(column: pa.Array) -> pa.Array:
    """For strings, binary and nested values: writes each distinct one once (except nested ones)."""
    if pt.is_nested(column.type):
        return pa.array([_text(value, column.type) for value in column.to_pylist()], pa.large_string())
    encoded = column if pt.is_dictionary(column.type) else column.dictionary_encode()
    distinct = encoded.dictionary
    return pa.array([_text(value, distinct.type) for value in distinct.to_pylist()], pa.large_string()).take(
        encoded.indices
    )


def _text(value: Any, data_type: pa.DataType) -> str | None:
    return None if value is None else json.dumps(to_json_value(value, data_type), ensure_ascii=False)
