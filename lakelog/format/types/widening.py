"""Which types may become which: every widening in which each value stays what it is."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.sql_types import to_sql_type
from lakelog.format.types.types import LOCAL_TIMESTAMP

_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_EXACT_BITS: Final = {pa.float32(): 24, pa.float64(): 53}
"""Whole numbers of so many bits are all there."""

_LONG_DECIMAL: Final = 19
"""Decimals of so many digits are hashed by their bytes, shorter ones as a long."""


def is_widening(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a type holds all values of another one unchanged, and is not the same. Both canonical and single. Pure.

    Integers become wider ones, decimals with room for all of their digits, and floats that hold all of them; FLOAT
    becomes DOUBLE; decimals get more digits before or behind the point; a DATE becomes the beginning of its day.
    """
    if old == new:
        return False
    if pt.is_integer(old):
        if pt.is_integer(new):
            return bool(old.bit_width < new.bit_width)
        if pt.is_decimal(new):
            return bool(new.precision - new.scale >= _DIGITS[old])
        return new in _EXACT_BITS and bool(old.bit_width <= _EXACT_BITS[new])
    if pt.is_decimal(old) and pt.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    return (old, new) in ((pa.float32(), pa.float64()), (pa.date32(), LOCAL_TIMESTAMP))


def keeps_encoding(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a widened value keeps its encoding (`lakelog.format.keys.encoding`), and so bounds of files. Pure.

    Integers have one encoding whatever their width, and so do floats; decimals if their scale stays.
    """
    if pt.is_decimal(old) and pt.is_decimal(new):
        return bool(old.scale == new.scale)
    return (pt.is_integer(old) and pt.is_integer(new)) or (pt.is_floating(old) and pt.is_floating(new)) or old == new


def keeps_bucket(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a widened value keeps its hash (`lakelog.format.keys.bucket`), and so its bucket. Pure."""
    if pt.is_integer(old) and pt.is_integer(new):
        return new != pa.int64() or old == new
    if pt.is_decimal(old) and pt.is_decimal(new):
        lengths = {old.precision >= _LONG_DECIMAL, new.precision >= _LONG_DECIMAL}
        return bool(old.scale == new.scale and len(lengths) == 1)
    return old == new


def explain_refusal(old: pa.DataType, new: pa.DataType) -> str:
    """Why a type may not become another one, and what to do, in a sentence without its full stop. Pure."""
    if pt.is_nested(old) or pt.is_nested(new):
        return "Change the fields of a nested type one by one, by their paths; its kind stays"
    if is_widening(new, old):
        return f"{to_sql_type(new)} is narrower, and values that it does not hold would be lost"
    wider = [to_sql_type(each) for each in _WIDER if is_widening(old, each)]
    if pt.is_decimal(old):
        return "A decimal may get more digits before the point, behind it, or both; none may get fewer"
    return f"It may become {', '.join(wider)}" if wider else f"A column of type {to_sql_type(old)} keeps its type"


_WIDER: Final = (
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.decimal128(38, 0),
    pa.decimal128(38, 18),
    LOCAL_TIMESTAMP,
)
