"""The types that a filter can combine, as in Spark's ANSI mode, and casts of values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.filter.literals import decimal_constant, fits, number_constant, to_float32
from lakelog.format.filter.tree import Call, Constant, Node
from lakelog.format.types.sql_types import to_sql_type
from lakelog.time_parsing import DAY_US, parse_date, parse_timestamp

_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NUMBER_SUFFIXES: Final = "BDLSYFbdlsyf"


def family(data_type: pa.DataType) -> str:
    """`number`, `time` (dates and timestamps), `text`, `binary`, `boolean`, `null` or `nested`: what compares."""
    if pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type):
        return "number"
    if pt.is_date(data_type) or pt.is_timestamp(data_type):
        return "time"
    for name, test in _FAMILIES:
        if test(data_type):
            return name
    return "nested"


_FAMILIES: Final[tuple[tuple[str, Callable[[pa.DataType], bool]], ...]] = (
    ("text", pt.is_string),
    ("binary", pt.is_binary),
    ("boolean", pt.is_boolean),
    ("null", pt.is_null),
)


def type_name(data_type: pa.DataType) -> str:
    """The type's SQL name for messages."""
    return "NULL" if pt.is_null(data_type) else to_sql_type(data_type)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both are compared, without loss except for floating-point numbers; None: none."""
    if left == right:
        return left
    if family(left) != family(right) or family(left) == "nested":
        return None
    if family(left) == "time":
        # Of a date, an instant and a wall-clock time all are compared as microseconds, since the zone is UTC.
        return pa.timestamp("us")
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float64()
    if pt.is_integer(left) and pt.is_integer(right):
        return max(left, right, key=lambda data_type: int(data_type.bit_width))
    left, right = as_decimal_type(left), as_decimal_type(right)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(precision, scale) if precision <= 38 else None


def as_decimal_type(data_type: pa.DataType) -> pa.DataType:
    """The decimal type that holds all values of an integer or decimal type."""
    return data_type if pt.is_decimal(data_type) else pa.decimal128(_INTEGER_DIGITS[data_type.bit_width], 0)


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast of a column never fails on single rows and returns the same as Spark's."""
    if source == target:
        return True
    if pt.is_integer(source):
        if pt.is_integer(target):
            return bool(target.bit_width >= source.bit_width)
        if pt.is_decimal(target):
            return bool(target.precision - target.scale >= _INTEGER_DIGITS[source.bit_width])
        return pt.is_floating(target) or pt.is_string(target)
    if pt.is_decimal(source):
        if pt.is_decimal(target):
            whole = target.precision - target.scale >= source.precision - source.scale
            return bool(whole and target.scale >= source.scale)
        return bool(pt.is_float64(target))
    if pt.is_float32(source):
        return bool(pt.is_float64(target))
    if family(source) == "time":
        return family(target) == "time" or (pt.is_date(source) and pt.is_string(target))
    return pt.is_boolean(source) and pt.is_string(target)


def cast_node(node: Node, target: pa.DataType) -> Node:
    """A cast to another type, or the node itself if it has it; the caller has checked whether the cast is allowed."""
    if node.type == target:
        return node
    return cast_constant(node, target) if isinstance(node, Constant) else Call("cast", (node,), target)


def cast_constant(constant: Constant, target: pa.DataType) -> Constant:
    """Returns a constant as a value of another type, as CAST does.

    Raises:
        ValueError: It is no value of that type, or such casts are not possible.
    """
    value, source = constant.value, constant.type
    if value is None or source == target:
        return Constant(value, target)
    if isinstance(value, str):
        return _from_text(value, target)
    if family(source) == "number" and family(target) == "number":
        assert isinstance(value, int | float | Decimal)
        return _to_number(value, target)
    if family(source) == "time" and family(target) == "time":
        assert isinstance(value, int)
        micros = value * DAY_US if pt.is_date(source) else value
        return Constant(micros // DAY_US if pt.is_date(target) else micros, target)
    if pt.is_string(target) and (pt.is_integer(source) or pt.is_boolean(source)):
        return Constant(str(value).lower(), target)
    raise ValueError(f"A value of type {type_name(source)} cannot be cast to {type_name(target)}")


def text_constant(text: str, target: pa.DataType) -> Constant:
    """Returns a text that is compared with a date or timestamp as a value of that type.

    Raises:
        ValueError: It is not such a value.
    """
    return Constant(parse_date(text) if pt.is_date(target) else parse_timestamp(text), target)


def _from_text(text: str, target: pa.DataType) -> Constant:
    if family(target) == "time":
        return text_constant(text, target)
    if pt.is_binary(target):
        return Constant(text.encode(), target)
    if pt.is_boolean(target) and text.strip().lower() in _BOOLEAN_WORDS:
        return Constant(_BOOLEAN_WORDS[text.strip().lower()], target)
    if pt.is_floating(target):
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"'{text[:50]}' is no value of type {type_name(target)}") from None
        return Constant(number if pt.is_float64(target) else to_float32(number), target)
    if family(target) == "number" and text.strip()[-1:] not in _NUMBER_SUFFIXES:
        number_value = number_constant(text.strip().lstrip("+")).value
        assert isinstance(number_value, int | float | Decimal)
        return _to_number(number_value, target)
    raise ValueError(f"'{text[:50]}' is no value of type {type_name(target)}")


def _to_number(value: int | float | Decimal, target: pa.DataType) -> Constant:
    if pt.is_float64(target):
        return Constant(float(value), target)
    if pt.is_float32(target):
        return Constant(to_float32(float(value)), target)
    if pt.is_integer(target):
        # As in Spark: digits after the point are cut off.
        whole = int(value) if value == value and abs(value) != float("inf") else None
        if whole is None or not fits(whole, target):
            raise ValueError(f"{value} does not fit the type {type_name(target)}")
        return Constant(whole, target)
    exact = Fraction(value)
    scaled = exact * 10**target.scale
    rounded = int(abs(scaled) + Fraction(1, 2)) * (-1 if scaled < 0 else 1)
    if abs(rounded) >= 10**target.precision:
        raise ValueError(f"{value} does not fit the type {type_name(target)}")
    return Constant(decimal_constant(f"{rounded}e-{target.scale}").value, target)
