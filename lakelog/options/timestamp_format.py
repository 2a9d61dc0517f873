"""Patterns of times as in Java (`yyyy-MM-dd HH:mm:ss`), for the partition values of a table."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakelog.options.value_types import ValueType

_PARTS: Final = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second",
                 "S": "fraction"}  # fmt: skip
_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']", re.DOTALL)
_COLUMN: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class TimestampFormat:
    """A pattern of Java's DateTimeFormatter: the letters y (or u), M, d, H, m, s and S, and text, perhaps in quotes.

    A single letter takes one or two digits; several take exactly as many. A missing part has its lowest value.

    Raises:
        ValueError: The pattern is not valid; the message says what to give instead.
    """

    pattern: str

    def __post_init__(self) -> None:
        self._regex  # noqa: B018

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        if not self.pattern.strip() or len(self.pattern) > 200:
            raise ValueError("Give a pattern such as 'yyyy-MM-dd', of at most 200 characters")
        parts: dict[str, None] = {}
        expression = "".join(_to_expression(token, parts) for token in _tokens(self.pattern))
        if "year" not in parts:
            raise ValueError("It has no year: give a pattern such as 'yyyy-MM-dd'")
        return re.compile(expression, re.ASCII)

    def read_ms(self, text: str) -> int | None:
        """The time of a text in UTC, in milliseconds since the epoch; None: the text does not fit the pattern."""
        found = self._regex.fullmatch(text)
        if found is None:
            return None
        fields = {name: int(value) for name, value in found.groupdict().items() if name != "fraction"}
        if len(found["year"]) == 2:
            fields["year"] += 2000
        fraction = found.groupdict().get("fraction") or "0"
        try:
            moment = dt.datetime(
                fields["year"],
                fields.get("month", 1),
                fields.get("day", 1),
                fields.get("hour", 0),
                fields.get("minute", 0),
                fields.get("second", 0),
                tzinfo=dt.UTC,
            )
        except ValueError:
            return None
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1) + int(fraction[:3].ljust(3, "0"))


@dataclass(frozen=True)
class TimestampFormatType(ValueType[str]):
    """The type of an option whose value is such a pattern, stored as text."""

    description: str = "pattern, as `yyyy-MM-dd HH:mm:ss`"

    def parse(self, text: str) -> str:
        return TimestampFormat(text).pattern


def find_columns(pattern: str) -> list[str]:
    """The columns that a `partition.timestamp-pattern` such as `$year-$month` names. Pure."""
    return _COLUMN.findall(pattern)


def rename_columns(pattern: str, new_names: Mapping[str, str]) -> str:
    """The pattern under the new names of columns, by the old ones. Pure."""
    return _COLUMN.sub(lambda found: f"${new_names.get(found[1], found[1])}", pattern)


def fill_in(pattern: str, values: dict[str, str]) -> str:
    """The pattern with the columns' values. Pure."""
    return _COLUMN.sub(lambda found: values[found[1]], pattern)


def _tokens(pattern: str) -> Iterator[str]:
    end = 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != end:
            break
        end = found.end()
        yield found[0]
    if end != len(pattern):
        raise ValueError("It has a quote without its end: put text into quotes, as in \"yyyy'T'HH\"")


def _to_expression(token: str, parts: dict[str, None]) -> str:
    letter = token[0]
    if letter == "'":
        return re.escape(token[1:-1].replace("''", "'") or "'")
    if not letter.isalpha():
        return re.escape(token)
    name = _PARTS.get(letter)
    if name is None:
        raise ValueError(f"'{letter}' is not in this version: use y, M, d, H, m, s and S, and put text into quotes")
    if name in parts:
        raise ValueError(f"It has the {name} twice: give each part once")
    parts[name] = None
    if name == "year":
        digits = {1: "{1,4}", 2: "{2}"}.get(len(token), "{4}")
    elif name == "fraction":
        digits = f"{{{len(token)}}}"
    else:
        digits = "{1,2}" if len(token) == 1 else "{2}"
    return f"(?P<{name}>[0-9]{digits})"
