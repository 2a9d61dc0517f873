"""Dates and timestamps as text for people, JSON and messages, also those that Python or Arrow cannot write."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

_FIRST_DAY: Final = -12_687_428
"""The year -32767 begins, as days since 1970-01-01: before it, and after the last day, Arrow writes other years."""
_LAST_DAY: Final = 11_248_737
_DAY_S: Final = 86_400
_UNITS: Final = {"s": ("s", 1), "ms": ("ms", 10**3), "us": ("µs", 10**6), "ns": ("ns", 10**9)}


def to_time_texts(column: pa.Array) -> pa.Array:
    """Returns dates and timestamps in ISO 8601, like `2013-01-01T10:00:00.000000`, with a Z for instants. Pure.

    Beyond the years -32767 to 32767 the text is the stored number and its unit.

    Args:
        column: A date or timestamp array.

    Returns:
        Large strings of the same length; NULL stays NULL.
    """
    if pt.is_timestamp(column.type):
        unit, per_s = _UNITS[column.type.unit]
        numbers = column.view(pa.int64())
        limit = 2**63 - 1
        first, last = max(_FIRST_DAY * _DAY_S * per_s, -limit), min((_LAST_DAY + 1) * _DAY_S * per_s - 1, limit)
        written = pa.timestamp("us", tz=None if column.type.tz is None else "UTC")
    else:
        column = column.cast(pa.date32())
        numbers, first, last, unit = column.view(pa.int32()), _FIRST_DAY, _LAST_DAY, "days"
        written = pa.date32()
    is_known = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    # Nanoseconds are cut to microseconds.
    known = pc.if_else(is_known, column, pa.scalar(None, column.type)).cast(written, safe=False).cast(pa.large_string())
    # Arrow writes `2013-01-01 10:00:00.000000Z`: all but ISO's T.
    known = pc.replace_substring(known, " ", "T", max_replacements=1)
    if pc.all(is_known).as_py():
        return known
    since = pa.scalar(f" {unit} since 1970-01-01", pa.large_string())
    nothing = pa.scalar("", pa.large_string())
    other = pc.binary_join_element_wise(numbers.cast(pa.large_string()), since, nothing)
    return pc.if_else(is_known, known, other)
