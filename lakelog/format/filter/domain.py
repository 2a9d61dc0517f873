"""Compares an operand of one type with a constant of another, without casting the operand.

Spark casts both to a common type. Casting keeps the order of the values, so each such comparison equals one with a
value of the operand's own type. This module finds that value, by bisection if the cast rounds. The result is exactly
what Spark returns, and unlike a cast it allows files and row groups to be excluded by their statistics.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Final, cast

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.filter.tree import AllOf, AnyOf, Compare, Constant, Node, Value, always_unless_null, never_or_null
from lakelog.time_parsing import DAY_US

_FLOAT32_INFINITY: Final = 0x7F800000


def compare_constant(operator: str, operand: Node, constant: Constant) -> Node:
    """Returns `operand operator constant`, where both are numbers, or both dates or timestamps. Pure.

    Args:
        operator: One of `= <> < <= > >=`.
        operand: Anything but a constant.
        constant: Not NULL.

    Returns:
        A condition that compares the operand with constants of its own type only.
    """
    data_type = operand.type
    if constant.type == data_type:
        return Compare(operator, operand, constant)
    if pt.is_float64(data_type):
        return Compare(operator, operand, Constant(_to_float(constant.value), data_type))
    if pt.is_timestamp(data_type):
        return Compare(operator, operand, Constant(_to_micros(constant), data_type))
    return _between(operator, operand, *_locate(data_type, constant))


def _locate(data_type: pa.DataType, constant: Constant) -> tuple[int, int]:
    """The places, among all values of the type in order, of the first that is not below and of the first above."""
    first, last = _places(data_type)
    if pt.is_date(data_type):
        return _around(Fraction(cast(int, constant.value), DAY_US), first, last)
    if not pt.is_floating(data_type) and not pt.is_floating(constant.type):
        unit = 10**data_type.scale if pt.is_decimal(data_type) else 1
        return _around(Fraction(cast(Decimal, constant.value)) * unit, first, last)
    target = _ordered(_to_float(constant.value))

    def key(place: int) -> tuple[bool, float]:
        return _ordered(_to_float(_value_at(data_type, place)))

    equal = _bisect(first, last + 1, lambda place: key(place) >= target)
    return equal, _bisect(equal, last + 1, lambda place: key(place) > target)


def _around(target: Fraction, first: int, last: int) -> tuple[int, int]:
    """The same for index-like values."""
    return max(first, min(ceil(target), last + 1)), max(first, min(floor(target) + 1, last + 1))


def _between(operator: str, operand: Node, equal: int, above: int) -> Node:
    """The condition in the operand's own values: equal are the places from `equal` to before `above`."""
    first, last = _places(operand.type)

    def compare(own: str, place: int) -> Node:
        return Compare(own, operand, Constant(_value_at(operand.type, place), operand.type))

    def below(end: int, own: str) -> Node:
        if end <= first:
            return never_or_null(operand)
        return always_unless_null(operand) if end > last else compare(own, end - (own == "<="))

    def not_below(start: int, own: str) -> Node:
        if start <= first:
            return always_unless_null(operand)
        return never_or_null(operand) if start > last else compare(own, start - (own == ">"))

    # Bounds follow the operator, if possible at the constant itself, so that key ranges are tight.
    if operator == "<":
        return below(equal, "<")
    if operator == "<=":
        return below(above, "<=")
    if operator == ">":
        return not_below(above, ">")
    if operator == ">=":
        return not_below(equal, ">=")
    if above - equal == 1:
        return compare(operator, equal)
    if operator == "=":
        return never_or_null(operand) if above == equal else AllOf((not_below(equal, ">="), below(above, "<=")))
    return always_unless_null(operand) if above == equal else AnyOf((below(equal, "<"), not_below(above, ">")))


def _places(data_type: pa.DataType) -> tuple[int, int]:
    if pt.is_boolean(data_type):
        return 0, 1
    if pt.is_decimal(data_type):
        return 1 - 10**data_type.precision, 10**data_type.precision - 1
    if pt.is_float32(data_type):
        # From minus infinity over 0, which stands for -0.0 too, to infinity, and NaN above it.
        return -_FLOAT32_INFINITY, _FLOAT32_INFINITY + 1
    limit = 1 << (data_type.bit_width - 1)
    return -limit, limit - 1


def _value_at(data_type: pa.DataType, place: int) -> Value:
    if pt.is_decimal(data_type):
        digits = tuple(int(digit) for digit in str(abs(place)))
        return Decimal((int(place < 0), digits, -data_type.scale))
    if pt.is_float32(data_type):
        value: float = struct.unpack("<f", struct.pack("<I", abs(place)))[0]
        return -value if place < 0 else value
    return place


def _bisect(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """The first place in [start, end) from which on it is true; `end` if it never is."""
    while start < end:
        middle = (start + end) // 2
        if holds(middle):
            end = middle
        else:
            start = middle + 1
    return start


def _ordered(value: float) -> tuple[bool, float]:
    return value != value, 0.0 if value != value else value


def _to_float(value: Value) -> float:
    assert isinstance(value, int | float | Decimal)
    return float(value)


def _to_micros(constant: Constant) -> Value:
    if not pt.is_date(constant.type):
        return constant.value
    assert isinstance(constant.value, int)
    return constant.value * DAY_US
