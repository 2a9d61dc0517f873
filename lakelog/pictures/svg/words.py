"""Texts of pictures: names that users gave, numbers, times, and how wide they are. Pure."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final

from lakelog.byte_sizes import format_size

_LONGEST: Final = 200
_BOLD: Final = 1.16
_NARROW: Final = frozenset("iljtfrI.,:;'|!()[]- ")
_BROAD: Final = frozenset("mwMW@%—…=+<>~")


def clean(text: str, longest: int = _LONGEST) -> str:
    """A name as one line: at most so many characters, and a dot for each that cannot be printed.

    That leaves out what XML forbids, and characters that turn the direction of the text around them.
    """
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(each if each.isprintable() else "·" for each in cut)


def measure(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is, in the units of the drawing; rather too wide than too narrow."""
    return size * (_BOLD if bold else 1) * sum(_width_of(each) for each in text)


def fit(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, cut with … to the room that there is."""
    if measure(text, size, bold=bold) <= room:
        return text
    left = room - measure("…", size, bold=bold)
    for place, each in enumerate(text):
        left -= measure(each, size, bold=bold)
        if left < 0:
            return f"{text[:place]}…" if place else ""
    return text


def wrap(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """The lines of a text, none wider than the room; a single word that is wider is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure(longer, size, bold=bold) <= room:
            lines[-1] = longer
        else:
            lines.append(fit(word, room, size, bold=bold))
    return lines


def count(number: int) -> str:
    """`336,776`."""
    return f"{number:,}"


def short_count(number: float) -> str:
    """`336.8 k`, for axes and narrow places."""
    for unit in ("", " k", " M", " G", " T"):
        if abs(number) < 999.95 or unit == " T":
            return f"{number:.1f}".removesuffix(".0") + unit
        number /= 1000
    raise AssertionError("the last unit takes all")


def plural(number: int, noun: str) -> str:
    """`1 row`, `3 rows`; for nouns that take an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(size_bytes: float) -> str:
    """`1.4 MiB`."""
    return format_size(round(size_bytes))


def age(milliseconds: int) -> str:
    """`0.3 s`, `12 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`."""
    if milliseconds < 10_000:
        return f"{max(milliseconds, 0) / 1000:.1f} s"
    seconds = milliseconds // 1000
    for unit, length, part, part_length in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part_length
            return f"{seconds // length:,} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{seconds} s"


def moment(time_ms: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)


def _width_of(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _BROAD:
        return 0.95
    if character.isascii():
        return 0.7 if character.isupper() else 0.64 if character.isdigit() else 0.6
    if unicodedata.combining(character):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.75
