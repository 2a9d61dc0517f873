"""Which offsets a batch takes of each partition, and which of them each task. Pure.

Offsets count records, but also the marks that end transactions; so a number of offsets is a number of records at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

_LEAST_OF_TASK: Final = 20_000
"""Offsets: a task of fewer would cost more than it saves."""


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition.

    Args:
        topic: The topic.
        partition: The partition.
        start: The first.
        end: Behind the last.
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
    """What a batch takes of each partition: all that waits, or shares of the limit in proportion to what waits.

    Args:
        waiting: Of each partition of each topic what no batch has taken.
        limit: Of offsets in all; each partition of which something waits gives one at least.

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
    """Cuts ranges into at most about so many groups of neighbours, of equal size but for the last.

    The order stays: the offsets of a partition rise through its groups, as rows of one key demand.
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
