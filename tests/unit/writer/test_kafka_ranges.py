"""Which offsets a batch takes, and which of them each task."""

from __future__ import annotations

import pytest

from writer.kafka.ranges import OffsetRange, plan_ranges, split_ranges

from .topics import spans


@pytest.mark.parametrize(
    ("starts", "ends", "limit", "taken"),
    [
        ((0, 5), (10, 5), 100, [(0, 0, 10), (1, 5, 5)]),
        # In proportion to what waits.
        ((0, 0), (300, 100), 40, [(0, 0, 30), (1, 0, 10)]),
        # A partition in which little waits is not kept waiting for ever.
        ((0, 7), (1_000_000, 8), 10, [(0, 0, 9), (1, 7, 8)]),
        ((), (), 10, []),
    ],
)
def test_what_a_batch_takes(
    starts: tuple[int, ...], ends: tuple[int, ...], limit: int, taken: list[tuple[int, int, int]]
) -> None:
    waiting = [OffsetRange("t", number, *pair) for number, pair in enumerate(zip(starts, ends, strict=True))]
    assert spans(plan_ranges(waiting, limit)) == taken


def test_topics_share_what_a_batch_takes() -> None:
    waiting = [OffsetRange("a", 0, 0, 300), OffsetRange("a", 1, 9, 9), OffsetRange("b", 0, 50, 150)]
    found = plan_ranges(waiting, 40)
    assert [(part.topic, part.start, part.end) for part in found] == [("a", 0, 30), ("a", 9, 9), ("b", 50, 60)]


def test_tasks_get_neighbours_of_equal_size() -> None:
    ranges = [OffsetRange("t", 0, 0, 100_000), OffsetRange("t", 1, 50, 50), OffsetRange("t", 2, 10, 60_010)]
    groups = split_ranges(ranges, 4)
    assert [spans(group) for group in groups] == [
        [(0, 0, 40_000)],
        [(0, 40_000, 80_000)],
        [(0, 80_000, 100_000), (2, 10, 20_010)],
        [(2, 20_010, 60_010)],
    ]


def test_few_records_are_not_worth_many_tasks() -> None:
    assert split_ranges([OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 3, 4)], 8) == [
        [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 3, 4)]
    ]
    assert split_ranges([OffsetRange("t", 0, 3, 3)], 8) == []
