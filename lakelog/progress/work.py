"""What a long call does, and how far it is, as a line for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lakelog.byte_sizes import format_size

BYTES: Final = "bytes"
"""The unit of amounts that are shown as KiB, MiB and so on."""

_BAR_WIDTH: Final = 20


@dataclass
class Work:
    """What a call does, and how far it is. Any thread may note it.

    Args:
        title: What is done, as `compacting shop.orders`.
        unit: What is counted, in the plural, or `BYTES`; empty: nothing is.
        total: How many there are in all; None: not known.
        done: How many are done.
        detail: More, for the end of the line.
    """

    title: str
    unit: str = ""
    total: int | None = None
    done: int = 0
    detail: str = ""
    began_s: float = field(default_factory=time.monotonic)

    def advance(self, count: int) -> None:
        """Counts what is done besides."""
        self.done += count

    def reach(self, done: int, total: int | None) -> None:
        """Notes what is done by now, and of how many."""
        self.done, self.total = done, total


Display: TypeAlias = Callable[[Work], Callable[[], None]]
"""Begins to show a work, from another thread; returns what ends that."""


def describe_work(work: Work, elapsed_s: float) -> str:
    """A line that says how far a work is: bar, share, amount, rate and the time that is left. Pure.

    A total that is passed was wrong: then it is left out, so that no share is above 100 %.
    """
    total = work.total if work.total and work.done <= work.total else None
    parts = [work.title]
    if total is not None:
        filled = _BAR_WIDTH * work.done // total
        parts.append(f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {100 * work.done // total:3} %")
    facts = [format_duration(elapsed_s)]
    if work.unit:
        rate = work.done / max(elapsed_s, 0.001)
        of_all = f" of {_format(total, work.unit)}" if total is not None else ""
        facts = [f"{_format(work.done, work.unit)}{of_all}{'' if work.unit == BYTES else f' {work.unit}'}"]
        if work.done:
            facts.append(f"{_format(round(rate), work.unit)}/s" if rate >= 1 else f"{rate:.2f}/s")
        if work.done and total is not None:
            facts.append(f"{format_duration((total - work.done) / rate)} left")
    return "  ".join([*parts, ", ".join([*facts, *filter(None, [work.detail])])])


def format_duration(seconds: float) -> str:
    """`7 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _format(amount: int, unit: str) -> str:
    return format_size(amount) if unit == BYTES else f"{amount:,}"
