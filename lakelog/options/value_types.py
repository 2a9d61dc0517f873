"""The types of option values: how each is read from text, written back and described.

A type's `parse` raises ValueError with a remedy ("Give ..."); `Option.parse` turns it into an InvalidArgument that
names the option and the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from lakelog.options.tag_name import find_tag_problem
from lakelog.time_parsing import parse_timestamp

T_co = TypeVar("T_co", covariant=True)

_MEMORY_UNITS: Final[dict[str, int]] = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 1 << 40),
}
_DURATION_UNITS: Final[dict[str, int]] = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_QUANTITY: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?\s*([A-Za-z]*)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?", re.ASCII)
_MILLISECONDS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class ValueType(Protocol[T_co]):
    """The form of an option's values."""

    @property
    def description(self) -> str:
        """What values look like, in a few words for the reference page."""
        ...

    def parse(self, text: str) -> T_co:
        """Reads a value; ValueError says what to give instead."""
        ...

    def format(self, value: Any) -> str:
        """Writes a value so that `parse` reads it back."""
        return str(value)


@dataclass(frozen=True)
class Time(ValueType[int]):
    """A point in time, in milliseconds since 1970-01-01 UTC.

    Args:
        last: The highest value.
    """

    last: int

    @property
    def description(self) -> str:
        return "milliseconds, or ISO 8601"

    def parse(self, text: str) -> int:
        if _MILLISECONDS.fullmatch(text.strip()):
            time_ms = int(text)
        else:
            try:
                time_ms = parse_timestamp(text) // 1000
            except ValueError as error:
                raise ValueError(
                    f"Give milliseconds since 1970-01-01 UTC, or a time such as 2024-05-01T12:00:00Z: {error}"
                ) from None
        if not 0 <= time_ms <= self.last:
            raise ValueError(f"Give a time from 1970 on, at most {self.last} milliseconds after it.")
        return time_ms


@dataclass(frozen=True)
class Whole(ValueType[int]):
    """A whole number between two inclusive bounds.

    Args:
        first: The lowest value.
        last: The highest value.
        special: Further values with a special meaning.
    """

    first: int
    last: int
    special: tuple[int, ...] = ()

    @property
    def description(self) -> str:
        return "whole number"

    def parse(self, text: str) -> int:
        number = int(text) if _WHOLE.fullmatch(text.strip()) else None
        if number is None or not (self.first <= number <= self.last or number in self.special):
            special = "".join(f", or {value}" for value in self.special)
            raise ValueError(f"Give a whole number from {self.first} to {self.last}{special}")
        return number


@dataclass(frozen=True)
class Flag(ValueType[bool]):
    """True or false."""

    description: str = "`true` or `false`"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError("Give true or false")
        return word == "true"

    def format(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class MemorySize(ValueType[int]):
    """A number of bytes, written as in Flink and Paimon: `128 mb`; powers of 1024, bytes if there is no unit."""

    first: int = 0
    last: int = 1 << 50
    description: str = "memory size, as `128 mb`"

    def parse(self, text: str) -> int:
        """Reads a value in bytes; ValueError says what to give instead."""
        size = _parse_quantity(text, _MEMORY_UNITS)
        if size is None:
            raise ValueError("Give a size such as '128 mb'; the units are b, kb, mb, gb and tb")
        if not self.first <= size <= self.last:
            raise ValueError(f"Give a size from {self.format(self.first)} to {self.format(self.last)}")
        return size

    def format(self, value: Any) -> str:
        return _format_quantity(value, (("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)), "b")


@dataclass(frozen=True)
class Duration(ValueType[int]):
    """A span of time in milliseconds, written as in Flink and Paimon: `1 h`."""

    description: str = "duration with a unit, as `1 h`"
    last: int = 36_500 * 86_400_000

    def parse(self, text: str) -> int:
        """Reads a value in milliseconds; ValueError says what to give instead.

        A whole number without a unit means milliseconds: older tables may hold one. `check_new` refuses it.
        """
        bare = _MILLISECONDS.fullmatch(text.strip())
        duration = int(text) if bare else _parse_quantity(text, _DURATION_UNITS)
        if duration is None or duration > self.last:
            raise ValueError("Give a duration such as '1 h', at most 100 years; the units are ms, s, min, h and d")
        return duration

    def check_new(self, text: str) -> None:
        """Raises ValueError for a number without a unit, which could mean seconds or milliseconds."""
        number = text.strip()
        if _NUMBER.fullmatch(number):
            raise ValueError(f"A duration has a unit: give '{number} s' for seconds or '{number} ms' for milliseconds")

    def parse_new(self, text: str) -> int:
        """Reads a value that is given now, in milliseconds; ValueError as in `check_new` and `parse`."""
        self.check_new(text)
        return self.parse(text)

    def format(self, value: Any) -> str:
        return _format_quantity(value, (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)), "ms")


@dataclass(frozen=True)
class Choice(ValueType[str]):
    """One of several words.

    Args:
        values: The allowed words.
        synonyms: Other ways to write them.
        refused: Words that users of similar systems know and this version does not have, each with the reason.
    """

    values: tuple[str, ...]
    synonyms: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def description(self) -> str:
        return ", ".join(f"`{value}`" for value in self.values)

    @property
    def remedy(self) -> str:
        """What to give instead of another value; no whole sentence."""
        quoted = ", ".join(f"'{value}'" for value in self.values)
        return f"Give one of {quoted}" if len(self.values) > 1 else f"Give {quoted}"

    def parse(self, text: str) -> str:
        word = text.strip().lower()
        word = self.synonyms.get(word, word)
        if word in self.refused:
            raise ValueError(f"'{word}' is not in this version: {self.refused[word]}. {self.remedy}")
        if word not in self.values:
            raise ValueError(self.remedy)
        return word


@dataclass(frozen=True)
class ColumnNames(ValueType[tuple[str, ...]]):
    """Names of columns, separated by commas; each once, in an order that matters."""

    description: str = "column names, separated by commas"

    def parse(self, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(","))
        if "" in names:
            raise ValueError("Give names of columns, separated by commas, none of them empty")
        if len(set(names)) < len(names):
            raise ValueError("Give each column once")
        return names

    def format(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class Text(ValueType[str]):
    """Any text that is not empty."""

    description: str = "text"
    last_length: int = 1024

    def parse(self, text: str) -> str:
        if not text.strip() or len(text) > self.last_length or "\0" in text:
            raise ValueError(f"Give a text of 1 to {self.last_length} characters")
        return text


@dataclass(frozen=True)
class TagName(ValueType[str]):
    """The name of a tag."""

    description: str = "the name of a tag"

    def parse(self, text: str) -> str:
        problem = find_tag_problem(text)
        if problem is not None:
            raise ValueError(problem.removesuffix("."))
        return text


@dataclass(frozen=True)
class SnapshotRange(ValueType[tuple[int | str, int | str]]):
    """Two snapshots `a,b`, by their ids or tags: what the snapshots after a, up to and with b, added."""

    description: str = "two snapshot ids or tags, as `3,7`"

    def parse(self, text: str) -> tuple[int | str, int | str]:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 2 or not all(
            re.fullmatch(r"[0-9]{1,18}", part) or not find_tag_problem(part) for part in parts
        ):
            raise ValueError(
                "Give two snapshot ids such as '3,7', or the names of two tags: the first is excluded, the second "
                "included"
            )
        after, until = [int(part) if part.isdigit() else part for part in parts]
        if isinstance(after, int) and isinstance(until, int) and after > until:
            raise ValueError(f"Give the lower snapshot id first: '{until},{after}'")
        return after, until

    def format(self, value: Any) -> str:
        return f"{value[0]},{value[1]}"


def _parse_quantity(text: str, units: Mapping[str, int]) -> int | None:
    """The number times its unit; None: the unit is unknown, or the result is no whole number."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[3].lower() not in units:
        return None
    fraction = match[2] or ""
    value, rest = divmod(int(match[1] + fraction) * units[match[3].lower()], 10 ** len(fraction))
    return None if rest else value


def _format_quantity(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for name, size in units:
        if value and value % size == 0:
            return f"{value // size} {name}"
    return f"{value} {smallest}"
