"""Which offsets of each partition a batch takes, and which of them each task. Pure.

Offsets count records, but also the markers that end transactions, so a range has at most as many records as offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

_LEAST_OF_TASK: Final = 20_000
"""Offsets: a smaller task would cost more than it saves."""


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition.

    Args:
        topic: The topic.
        partition: The partition.
        start: The first offset.
        end: The offset after the last.
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.end - self.start


def plan_ranges(waiting: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
    """The ranges that a batch takes: everything that waits, or shares of the limit in proportion to what waits.

    Args:
        waiting: For each partition of each topic, the offsets that no batch has taken.
        limit: Offsets in all; each partition with waiting records gives at least one.

    Returns:
        A range for each partition in the same order, empty ones too.
    """
    total = sum(part.size for part in waiting)
    if total <= limit:
        return tuple(waiting)
    return tuple(
        replace(part, end=part.start + max(1, part.size * limit // total)) if part.size else part for part in waiting
    )


def split_ranges(ranges: Sequence[OffsetRange], splits: int) -> list[list[OffsetRange]]:
    """Cuts ranges into at most about `splits` groups of neighbours, of equal size except the last.

    The order stays: the offsets of a partition rise through its groups, which rows with one key need.
    """
    total = sum(part.size for part in ranges)
    target = max(_LEAST_OF_TASK, -(-total // splits))
    groups: list[list[OffsetRange]] = []
    room = 0
    for whole in ranges:
        start = whole.start
        while start < whole.end:
            if room == 0:
                groups.append([])
                room = target
            end = min(whole.end, start + room)
            groups[-1].append(OffsetRange(whole.topic, whole.partition, start, end))
            room -= end - start
            start = end
    return groups
