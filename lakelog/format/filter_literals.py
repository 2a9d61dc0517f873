"""Constants of filters: how numbers, dates and timestamps are written, as Spark reads them with UTC as its zone."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from lakelog.format.filter_tree import Constant

DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)
_NUMBER: Final = re.compile(r"(-?)([0-9]*)(?:(\.)([0-9]*))?(?:[eE]([+-]?[0-9]+))?(BD|[LSYDF])?", re.IGNORECASE)
_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?(?:[T ].*)?", re.ASCII | re.DOTALL)
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?"
    r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?\s*(\S.*)?)?",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII)
_SUFFIXES: Final[dict[str, pa.DataType]] = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64()}


def number_constant(text: str) -> Constant:
    """A number with the type that Spark gives it: by its suffix, its exponent, its point or its size.

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
    """A decimal with as many digits as are written.

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
    """The nearest number of 32 bits; infinite where there is none."""
    scalar: float = pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py()
    return scalar


def parse_date(text: str) -> int:
    """Days since 1970-01-01 of `yyyy[-m[-d]]`; a time behind it is left out, as Spark does.

    Raises:
        ValueError: No date.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text[:50]}' is no date. Write it as '2020-01-31'")
    year, month, day = (int(part or 1) for part in match.groups())
    return (_date(year, month, day, text) - _EPOCH).days


def parse_timestamp(text: str) -> int:
    """Microseconds since 1970-01-01 UTC of `yyyy[-m[-d[ h:m[:s[.fraction]][zone]]]]`; without a zone it is UTC.

    Raises:
        ValueError: No timestamp, or an unknown zone.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text[:50]}' is no timestamp. Write it as '2020-01-31 13:45:00', or with a zone behind it")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise ValueError(f"'{text[:50]}' has no such time of day. Write it as '2020-01-31 13:45:00'")
    days = (_date(int(year), int(month or 1), int(day or 1), text) - _EPOCH).days
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    local_us = days * DAY_US + seconds * 1_000_000 + micros
    return local_us - _offset_us(zone, local_us) if zone else local_us


def _date(year: int, month: int, day: int, text: str) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise ValueError(f"'{text[:50]}' is no day of the calendar. Write it as '2020-01-31'") from None


def _offset_us(zone: str, local_us: int) -> int:
    zone = zone.strip()
    if zone.upper() in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes > 18 * 60:
            raise ValueError(f"'{zone[:50]}' is no offset from UTC; they go from -18:00 to +18:00")
        return (-minutes if match[1] == "-" else minutes) * 60_000_000
    try:
        region = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"'{zone[:50]}' is no time zone. Write Z, an offset such as +02:00, or Europe/Paris") from None
    local = datetime(1970, 1, 1, tzinfo=region) + timedelta(microseconds=local_us)
    offset = local.utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)
