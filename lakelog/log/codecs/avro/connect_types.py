"""How Debezium and Kafka Connect encode times and decimals as numbers and bytes, where their schema says so.

Source: Debezium's documentation of temporal values (`time.precision.mode` adaptive, adaptive_time_microseconds,
connect) and of `decimal.handling.mode`; `org.apache.kafka.connect.data`. A message with its schema looks like

    {"schema": {"fields": [{"field": "after", "fields": [{"field": "ts", "name": "io.debezium.time.MicroTimestamp"}]}]},
     "payload": {"before": null, "after": {"ts": 1700000000000000}, "op": "c"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.log.codecs.base64_text import from_base64
from lakelog.log.codecs.byte_columns import Mask, to_bytes
from lakelog.log.codecs.casts import cast_where_possible
from lakelog.log.codecs.json.values import NOTHING, TEXT, WORD, Values, read_column, read_numbers

MILLISECONDS: Final = "ms"
MICROSECONDS: Final = "us"
NANOSECONDS: Final = "ns"
_MOST_DIGITS: Final = 38
_NO_SCALE: Final = -1
"""All scales that no decimal has, so that no more encodings than there are useful ones need to be distinguished."""
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

_MALFORMED: Final = (ValueError, AttributeError, TypeError, KeyError, OverflowError, RecursionError)
"""What the description of a field that is none raises."""
_MOST_SHOWN: Final = 200

_UNITS: Final = {
    "io.debezium.time.Timestamp": MILLISECONDS,
    "io.debezium.time.MicroTimestamp": MICROSECONDS,
    "io.debezium.time.NanoTimestamp": NANOSECONDS,
    "org.apache.kafka.connect.data.Timestamp": MILLISECONDS,
}


_PRECISION: Final = "connect.decimal.precision"

_NAMED: Final = {
    "io.debezium.time.Date": pa.date32(),
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "io.debezium.time.ZonedTimestamp": pa.timestamp("us", "UTC"),
}

_KINDS: Final = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
}


@dataclass(frozen=True)
class ConnectType:
    """How a column is encoded besides what JSON says.

    Args:
        time_unit: Of timestamps that are numbers; None: a number is no timestamp.
        decimal_scale: Of decimals that are bytes in base64; None: they are not.
    """

    time_unit: str | None = None
    decimal_scale: int | None = None


PLAIN: Final = ConnectType()


@dataclass(frozen=True)
class ConnectColumns:
    """The columns of rows by the schema of a message.

    Args:
        arrow: Those whose type it says.
        unclear: What it says of the other ones, by name, cut off.
    """

    arrow: pa.Schema
    unclear: Mapping[str, str]


def read_connect_types(schema: bytes) -> dict[str, ConnectType]:
    """The columns that are encoded in a way of their own, from the JSON of the schema of a message or a key. Pure.

    What the schema does not tell is left out; of one that is no such schema that is everything.
    """
    fields = _read_fields(schema)
    rows = _find_rows(fields)
    found: dict[str, ConnectType] = {}
    # A key has no rows in it, but is one.
    for field in fields if rows is None else rows:
        if isinstance(field, dict) and "field" in field and (encoding := _read_type(field)):
            found[str(field["field"])] = encoding
    return found


def read_connect_schema(schema: bytes) -> ConnectColumns | None:
    """The columns of rows, by the JSON of the schema of a message; None: it has no schema of rows. Pure.

    Each field is judged for itself: one that makes no sense does not hide the other ones.
    """
    rows = _find_rows(_read_fields(schema))
    if rows is None:
        return None
    columns: list[tuple[str, pa.DataType]] = []
    unclear: dict[str, str] = {}
    for field in rows:
        try:
            columns.append((str(field["field"]), _to_arrow(field)))
        except _MALFORMED:
            name = field.get("field") if isinstance(field, dict) else None
            unclear[str(name)] = json.dumps(field)[:_MOST_SHOWN]
    return ConnectColumns(pa.schema(columns), unclear)


def _read_fields(schema: bytes) -> list[Any]:
    try:
        found = json.loads(schema)
    except (ValueError, RecursionError):
        return []
    return _fields_of(found) or []


def _find_rows(fields: Sequence[Any]) -> list[Any] | None:
    sides = (each for each in fields if isinstance(each, dict) and each.get("field") in ("after", "before"))
    return next((found for side in sides if (found := _fields_of(side)) is not None), None)


def _fields_of(node: Any) -> list[Any] | None:
    found = node.get("fields") if isinstance(node, dict) else None
    return found if isinstance(found, list) else None


def _read_type(field: Mapping[str, Any]) -> ConnectType | None:
    name = field.get("name")
    if name == _DECIMAL:
        try:
            return ConnectType(decimal_scale=_read_scale(field))
        except _MALFORMED:
            return ConnectType(decimal_scale=_NO_SCALE)
    return ConnectType(time_unit=_UNITS[name]) if isinstance(name, str) and name in _UNITS else None


def _read_scale(field: Mapping[str, Any]) -> int:
    """The scale of a decimal; raises what is `_MALFORMED` if no decimal has it."""
    scale = int((field.get("parameters") or {}).get("scale", 0))
    if not 0 <= scale <= _MOST_DIGITS:
        raise ValueError(f"scale {scale}")
    return scale


def _to_arrow(field: Mapping[str, Any]) -> pa.DataType:
    name, kind = field.get("name"), field.get("type")
    if name == _DECIMAL:
        scale = _read_scale(field)
        digits = int((field.get("parameters") or {}).get(_PRECISION, _MOST_DIGITS))
        return pa.decimal128(min(max(digits, scale, 1), _MOST_DIGITS), scale)
    if name in _UNITS:
        return pa.timestamp("us")
    if name in _NAMED:
        return _NAMED[name]
    if kind == "struct":
        return pa.struct([(str(each["field"]), _to_arrow(each)) for each in field.get("fields") or []])
    if kind == "array":
        return pa.list_(_to_arrow(field["items"]))
    if kind == "map":
        return pa.map_(_to_arrow(field["keys"]), _to_arrow(field["values"]))
    return _KINDS.get(str(kind), pa.string())


def read_connect_column(values: Values, data_type: pa.DataType, encoding: ConnectType) -> pa.Array:
    """As `read_column`, of a column of this encoding. A date may be its number of days always."""
    if pt.is_date(data_type) or (pt.is_timestamp(data_type) and encoding.time_unit):
        return _read_times(values, data_type, encoding.time_unit)
    if pt.is_decimal(data_type) and encoding.decimal_scale is not None:
        return _read_decimals(values, data_type, encoding.decimal_scale)
    return read_column(values, data_type)


def _read_times(values: Values, data_type: pa.DataType, unit: str | None) -> pa.Array:
    is_word = values.kinds == WORD
    if not is_word.any():
        return read_column(values, data_type)
    numbers, wrong = read_numbers(values.read_words(), pa.int32() if pt.is_date(data_type) else pa.int64())
    if pt.is_timestamp(data_type) and unit == MILLISECONDS:
        limit = (2**63 - 1) // 1000
        outside = np.asarray(pc.or_(pc.greater(numbers, limit), pc.less(numbers, -limit)).fill_null(False))
        wrong |= outside
        numbers = pc.multiply(pc.if_else(pa.array(outside), pa.scalar(None, pa.int64()), numbers), 1000)
    elif pt.is_timestamp(data_type) and unit == NANOSECONDS:
        micros = pc.divide(numbers, 1000)
        # What is finer than a microsecond would be lost.
        wrong |= np.asarray(pc.not_equal(pc.multiply(micros, 1000), numbers).fill_null(False))
        numbers = micros
    values.refuse(wrong)
    others = Values(values.scan, values.wrong, values.holders, np.where(is_word, NOTHING, values.kinds), values.texts)
    return pc.coalesce(numbers.view(data_type), read_column(others, data_type))


def _read_decimals(values: Values, data_type: pa.DataType, scale: int) -> pa.Array:
    values.refuse((values.kinds != TEXT) & (values.kinds != NOTHING))
    encoded, wrong = from_base64(values.read_texts())
    values.refuse(wrong)
    whole, wrong = from_big_endian(encoded)
    values.refuse(wrong)
    if scale == _NO_SCALE:
        values.refuse(np.asarray(whole.is_valid()))
        return pa.nulls(len(values), data_type)
    unscaled = pa.Array.from_buffers(pa.decimal128(38, scale), len(whole), whole.buffers())
    found, wrong = cast_where_possible(unscaled, data_type)
    values.refuse(wrong)
    return found


def from_big_endian(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Numbers of any length, most significant byte first, in two's complement; as decimals without a scale."""
    data, bounds = to_bytes(column)
    lengths = np.diff(bounds)
    wrong = (lengths > 16) | ((lengths == 0) & np.asarray(column.is_valid()))
    fits = ~wrong & (lengths > 0)
    data = np.append(data, np.uint8(0))
    first = data[np.where(fits, bounds[:-1], len(data) - 1)]
    digits = np.where(first >= 128, np.uint8(255), np.uint8(0))[:, None].repeat(16, axis=1)
    for place in range(int(min(16, lengths.max(initial=0)))):
        chosen = fits & (lengths > place)
        digits[chosen, place] = data[bounds[1:][chosen] - 1 - place]
    mask = pa.py_buffer(np.packbits(fits, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(column), [mask, pa.py_buffer(digits)]), wrong
