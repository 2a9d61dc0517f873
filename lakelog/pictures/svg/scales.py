"""Scales and the ticks of their axes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lakelog.pictures.svg.words import moment, short_count, size

_SECOND: Final = 1000
_DAY: Final = 86_400 * _SECOND
_TIME_STEPS_MS: Final = tuple(
    step * _SECOND for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
) + tuple(step * _DAY for step in (1, 2, 7, 14, 30, 90, 180, 365, 730, 3650))


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places. An empty range of values is shown in the middle.

    Args:
        first: The lowest value.
        last: The highest one.
        start: The place of `first`.
        end: The place of `last`.
    """

    first: float
    last: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """The place of a value; values outside of the range are at its ends."""
        if self.last <= self.first:
            return (self.start + self.end) / 2
        share = (min(max(value, self.first), self.last) - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True)
class Tick:
    """A value of an axis, and its text."""

    value: float
    text: str


def count_ticks(highest: float, most: int = 4) -> list[Tick]:
    """Ticks from 0 for numbers, at most so many after 0; the last is not below the highest value."""
    if highest <= 0:
        return [Tick(0, "0"), Tick(1, "1")]
    step = max(10.0 ** math.floor(math.log10(highest / most)), 1)
    step *= next(
        factor for factor in (1, 2, 2.5, 5, 10) if step * factor * most >= highest and _is_whole(step * factor)
    )
    return [Tick(step * number, short_count(step * number)) for number in range(math.ceil(highest / step) + 1)]


def size_ticks(highest: float, most: int = 4) -> list[Tick]:
    """As `count_ticks`, for bytes: steps are whole in their unit."""
    if highest <= 0:
        return [Tick(0, "0 B"), Tick(1024, "1 KiB")]
    unit = 1024.0 ** max(math.floor(math.log(max(highest, 1), 1024)), 0)
    ticks = count_ticks(max(highest / unit, 1e-9), most)
    return [Tick(each.value * unit, size(each.value * unit).replace(".0 ", " ")) for each in ticks]


def time_ticks(first_ms: int, last_ms: int, most: int) -> list[Tick]:
    """Whole times in UTC between two moments."""
    length = max(last_ms - first_ms, 1)
    step = next((each for each in _TIME_STEPS_MS if length / each <= most), _TIME_STEPS_MS[-1])
    form = "%H:%M:%S" if step < 60 * _SECOND else "%H:%M" if step < _DAY else "%Y-%m-%d"
    begin = -(-first_ms // step) * step
    return [Tick(each, moment(each, form)) for each in range(begin, last_ms + 1, step)]


def _is_whole(number: float) -> bool:
    return number == int(number)
