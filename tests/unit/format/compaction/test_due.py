"""What is due by itself, by sums alone: the same as compactors find by listing files, and what comes first."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.compaction.due import (
    COMPACT_AFTER_MS,
    HIGHEST_PRIORITY,
    Due,
    count_needed_runs,
    find_priority,
    plan_due_backlog,
    plan_due_runs,
)
from lakelog.format.compaction.picking import Pick, pick_due
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.compaction.small_files import SmallFileState, add_files, plan_all_small_files, plan_small_files
from lakelog.format.jobs.job import REQUEST_PRIORITY

MB = 1 << 20
TARGET = 256 * MB
APPEND = CompactionSettings(TARGET, min_file_count=3)
KEYED = CompactionSettings(128 * MB)


def to_runs(sizes: list[int], levels: list[int]) -> list[SortedRun]:
    return [
        SortedRun(level, size, order_key=(-number, 0) if level == 0 else (0, 0))
        for number, (size, level) in enumerate(zip(sizes, levels, strict=True))
    ]


@pytest.mark.parametrize(
    ("count", "size", "is_due", "delay_ms"),
    [
        (0, 0, False, 0),
        (1, 0, False, 0),
        (1, 170 * MB, False, 0),
        (2, 0, True, COMPACT_AFTER_MS),
        (3, 0, True, 0),
        (200, 0, True, 0),
        (2, 252 * MB, True, 0),
        (2, 251 * MB, True, COMPACT_AFTER_MS),
    ],
)
def test_small_files_are_due_when_they_fill_a_file_or_are_enough_and_else_when_they_have_waited(
    count: int, size: int, is_due: bool, delay_ms: int
) -> None:
    found = plan_due_backlog(count, count * size, APPEND)
    assert isinstance(found, Due) is is_due
    if isinstance(found, Due):
        assert found.delay_ms == delay_ms


@given(st.lists(st.integers(0, 179 * MB), max_size=12), st.integers(2, 8))
def test_a_backlog_is_due_exactly_when_there_is_a_task(sizes: list[int], min_files: int) -> None:
    settings = replace(APPEND, min_file_count=min_files)
    files = pa.table(
        {
            "file_id": pa.array(range(len(sizes)), pa.int64()),
            "partition": pa.array([b""] * len(sizes), pa.binary()),
            "size_bytes": pa.array(sizes, pa.int64()),
        }
    )
    small = [size for size in sizes if size < settings.small_file_bytes]
    found = plan_due_backlog(len(small), sum(small), settings)
    now = plan_small_files(add_files(SmallFileState(), files, settings), settings).plans
    assert (isinstance(found, Due) and found.delay_ms == 0) is bool(now)
    assert isinstance(found, Due) is bool(plan_all_small_files(files, settings))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(0, 12), st.integers(1, 8), st.booleans())
def test_a_bucket_is_due_exactly_when_something_is_picked_and_never_with_fewer_runs(
    sizes: list[int], level_0: int, trigger: int, has_threshold: bool
) -> None:
    levels = [0 if number < level_0 else number - level_0 + 1 for number in range(len(sizes))]
    settings = replace(KEYED, compaction_trigger=trigger, total_size_threshold_bytes=500 if has_threshold else None)
    runs = to_runs(sizes, levels)
    picked = pick_due(runs, settings, now_ms=5, last_full_ms=5)
    found = plan_due_runs(runs, settings)
    assert isinstance(found, Due) is isinstance(picked, Pick)
    if isinstance(found, Due):
        assert len(runs) >= count_needed_runs(settings)
        assert 0 <= found.priority <= HIGHEST_PRIORITY


def test_the_reason_is_that_of_the_rule() -> None:
    found = plan_due_runs(to_runs([1] * 6, [0] * 6), KEYED)
    assert isinstance(found, Due)
    assert found.why == "The newer sorted runs have 5 bytes, more than 200 % of the oldest one's 1."
    none = plan_due_runs(to_runs([1], [5]), KEYED)
    assert isinstance(none, NoPlan)
    assert none.reason.startswith("Nothing is due")


def test_what_saves_reads_much_for_little_writing_comes_first() -> None:
    cheap, dear = find_priority(5, 5 * MB), find_priority(5, 5000 * MB)
    assert cheap > dear > 0
    assert find_priority(50, 5 * MB) > cheap
    # As much saved by each read as rewritten once.
    assert find_priority(2, 4 * MB) == 32
    assert find_priority(4, 4 * MB) == 34
    assert find_priority(1, 1 << 60) == find_priority(0, 0) == 0
    # Whoever asks for something waits for it.
    assert find_priority(1 << 40, 0) == HIGHEST_PRIORITY < REQUEST_PRIORITY
