"""Constants of filters: reads written numbers as Spark does."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import pyarrow as pa

from lakelog.format.filter.tree import Constant

_NUMBER: Final = re.compile(r"(-?)([0-9]*)(?:(\.)([0-9]*))?(?:[eE]([+-]?[0-9]+))?(BD|[LSYDF])?", re.IGNORECASE)
_SUFFIXES: Final[dict[str, pa.DataType]] = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64()}


def number_constant(text: str) -> Constant:
    """Returns a number with the type that Spark gives it: by its suffix, its exponent, its point or its size.

    Raises:
        ValueError: It does not fit its type.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no number")
    sign, whole, point, fraction, exponent, suffix = match.groups()
    plain = sign + (whole or "0") + ("." + fraction if fraction else "") + (f"e{exponent}" if exponent else "")
    suffix = (suffix or "").upper()
    if suffix == "F":
        return Constant(to_float32(float(plain)), pa.float32())
    if suffix == "D" or (exponent and suffix != "BD"):
        return Constant(float(plain), pa.float64())
    if suffix in _SUFFIXES:
        if point or not fits(int(plain), _SUFFIXES[suffix]):
            raise ValueError(f"{text} does not fit the type {_SUFFIXES[suffix]} that its suffix asks for")
        return Constant(int(plain), _SUFFIXES[suffix])
    if suffix != "BD" and not point:
        for data_type in (pa.int32(), pa.int64()):
            if fits(int(plain), data_type):
                return Constant(int(plain), data_type)
    return decimal_constant(plain)


def decimal_constant(text: str) -> Constant:
    """Returns a decimal with as many digits as are written.

    Raises:
        ValueError: More than 38 digits.
    """
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"'{text}' is no decimal number")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise ValueError(f"'{text[:50]}' has more than the 38 digits that a decimal can have")
    return Constant(value, pa.decimal128(precision, scale))


def fits(value: int, data_type: pa.DataType) -> bool:
    """Whether a whole number is one of an integer type."""
    limit = 1 << (data_type.bit_width - 1)
    return -limit <= value < limit


def to_float32(value: float) -> float:
    """The nearest number of 32 bits; infinite if there is none."""
    scalar: float = pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py()
    return scalar
