"""Parses dates and times as Spark does with UTC as its zone; the only parser of such texts. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)
_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?(?:[T ].*)?", re.ASCII | re.DOTALL)
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?"
    r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?\s*(\S.*)?)?",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII)


def parse_date(text: str) -> int:
    """Days since 1970-01-01 of `yyyy[-m[-d]]`; a time after the date is ignored, as in Spark.

    Raises:
        ValueError: The text is no date.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text[:50]}' is no date. Write it as '2020-01-31'")
    year, month, day = (int(part or 1) for part in match.groups())
    return (_date(year, month, day, text) - _EPOCH).days


def parse_timestamp(text: str) -> int:
    """Microseconds since 1970-01-01 UTC of `yyyy[-m[-d[ h:m[:s[.fraction]][zone]]]]`; without a zone, UTC.

    Raises:
        ValueError: The text is no timestamp, or the zone is unknown.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text[:50]}' is no timestamp. Write it as '2020-01-31 13:45:00', or with a zone after it")
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
