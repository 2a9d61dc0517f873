"""Numbers in addresses and forms: what was typed stays, and what is wrong with it stands beside the field. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MOST: Final = 2**62
"""Numbers of snapshots and the like have 63 bits."""


@dataclass(frozen=True)
class NumberField:
    """What a number means.

    Args:
        name: Its name in a program.
        noun: Its name for people.
        least: The smallest one.
    """

    name: str
    noun: str
    least: int


@dataclass(frozen=True)
class Number:
    """A number as it was typed.

    Args:
        text: What was typed.
        value: The number; None: none was typed, or it is none.
        problem: What is wrong with it.
    """

    text: str = ""
    value: int | None = None
    problem: str = ""


def read_number(typed: str | None, field: NumberField) -> Number:
    """Reads a part of an address; None: it is not there."""
    text = (typed or "").strip()
    if not text:
        return Number()
    if text.isascii() and text.isdigit() and field.least <= int(text[:20]) < _MOST:
        return Number(text, int(text[:20]))
    return Number(text[:100], None, f"{text[:60]!r} is no {field.noun}: give a whole number from {field.least} on.")
