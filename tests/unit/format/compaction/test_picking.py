"""Which runs are picked. A run is written `level:size`; the newest stands first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.format.compaction.picking import (
    Pick,
    find_highest_level,
    pick_by_size_amplification,
    pick_by_size_ratio,
    pick_due,
    pick_full,
    pick_level_0,
)
from lakelog.format.compaction.plan import Finding, NoPlan, Rule
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import CompactionSettings

TIGHT = CompactionSettings(100, compaction_trigger=3, level_count=4, max_size_amplification_percent=25)


def runs(text: str) -> list[SortedRun]:
    return [SortedRun(int(level), int(size)) for level, size in (run.split(":") for run in text.split())]


def picked(text: str, settings: CompactionSettings) -> tuple[int, int, Rule] | None:
    found = pick_due(runs(text), settings, now_ms=0, last_full_ms=0)
    return None if isinstance(found, NoPlan) else (found.run_count, found.output_level, found.rule)


@pytest.mark.parametrize(
    ("text", "levels", "expected"),
    [
        ("0:1 0:2 0:3 0:3", 3, (4, 2, Rule.SIZE_AMPLIFICATION)),
        ("0:1 1:1 2:1 3:50", 4, (3, 2, Rule.SIZE_RATIO)),
        ("0:1 1:2 2:3 3:50", 4, (3, 2, Rule.RUN_COUNT)),
        # Nothing is written to level 0, so level 1 goes along.
        ("0:1 0:1 1:1 2:50", 3, (3, 1, Rule.SIZE_RATIO)),
        ("0:1 0:2 1:3 2:50", 3, (3, 1, Rule.RUN_COUNT)),
        # An empty level in between is used.
        ("0:1 0:1 0:1 3:50", 4, (3, 2, Rule.SIZE_RATIO)),
        # Fewer runs than the trigger, exactly as many that do not fit, and one more.
        ("0:1 3:50", 4, None),
        ("0:1 1:2 3:50", 4, None),
        ("0:1 1:2 2:4 3:50", 4, (2, 1, Rule.RUN_COUNT)),
    ],
)
def test_the_rules_are_looked_at_one_after_the_other(
    text: str, levels: int, expected: tuple[int, int, Rule] | None
) -> None:
    assert picked(text, replace(TIGHT, level_count=levels)) == expected


def test_level_0_is_never_split_even_if_its_oldest_file_is_huge() -> None:
    assert picked("0:1 0:1 0:1 0:1024 0:1048576", CompactionSettings(100)) == (5, 5, Rule.SIZE_RATIO)


@pytest.mark.parametrize(("count", "level"), [(2, 2), (3, 2), (4, 3), (5, 5)])
def test_the_output_is_one_level_above_the_next_older_run(count: int, level: int) -> None:
    # The runs behind the first `count` are too large for the ratio.
    sizes = [1] * count + [1000**power for power in range(1, 6 - count)]
    text = " ".join(f"{level}:{size}" for level, size in zip((0, 0, 1, 3, 4), sizes, strict=True))
    settings = replace(TIGHT, compaction_trigger=5, level_count=6, max_size_amplification_percent=10**9)
    found = picked(text, settings)
    assert found is not None
    # Level 1 has to go along.
    assert found[:2] == (max(count, 3), level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 0 and 1 together are as large as 2, level 0 alone is not.
        ("0:1 0:1 0:1 1:97 2:101 3:1000", (5, 2)),
        ("0:1 0:1 0:1 1:97 2:102 3:1000", (4, 1)),
        # So is a large file of level 0 counted.
        ("0:1 0:1 0:98 2:101 3:1000", (4, 2)),
        ("0:1 0:1 0:98 2:102 3:1000", (3, 1)),
    ],
)
def test_what_lies_after_level_1_is_compared_with_it(text: str, expected: tuple[int, int]) -> None:
    found = picked(text, replace(TIGHT, max_size_amplification_percent=10**9))
    assert found is not None
    assert found[:2] == expected
    found_at_level_0 = pick_level_0(runs(text), TIGHT)
    assert isinstance(found_at_level_0, Pick)
    assert (found_at_level_0.run_count, found_at_level_0.output_level) == expected


@pytest.mark.parametrize(("trigger", "level_count"), [(8, 6), (5, 6), (8, 9)])
def test_bytes_are_not_written_again_and_again(trigger: int, level_count: int) -> None:
    settings = CompactionSettings(100, compaction_trigger=trigger, level_count=level_count)
    levels: list[SortedRun] = []
    written = 0
    for _ in range(1000):
        levels.insert(0, SortedRun(0, 100))
        while isinstance(found := pick_due(levels, settings, now_ms=0, last_full_ms=0), Pick):
            size = sum(run.size_bytes for run in levels[: found.run_count])
            levels = [SortedRun(found.output_level, size), *levels[found.run_count :]]
            written += size
        assert len(levels) <= trigger
    assert written / (1000 * 100) < 15


def grow(sizes: list[int], settings: CompactionSettings, rule: object) -> list[int]:
    """A run of size 1 is added on top; then what the rule picks becomes one."""
    sizes = [1, *sizes]
    if rule is pick_by_size_amplification:
        found = pick_by_size_amplification([SortedRun(0, size) for size in sizes], settings)
    else:
        found = pick_by_size_ratio([SortedRun(level, size) for level, size in enumerate(sizes)], settings)
    count = 0 if isinstance(found, Finding) else found.run_count
    return [sum(sizes[:count]), *sizes[count:]] if count else sizes


def test_size_amplification_lets_the_oldest_run_grow_ever_more_rarely() -> None:
    settings = replace(TIGHT, compaction_trigger=1, size_ratio_percent=0)
    sizes, history = [1], []
    for _ in range(17):
        sizes = grow(sizes, settings, pick_by_size_amplification)
        history.append(" ".join(map(str, sizes)))
    expected = "2|3|4|1 4|6|1 6|8|1 8|1 1 8|11|1 11|1 1 11|14|1 14|1 1 14|1 1 1 14|18"
    assert history == expected.split("|")


def test_the_size_ratio_makes_a_staircase() -> None:
    settings = replace(TIGHT, compaction_trigger=5)
    sizes, history = [1, 1, 1, 1], []
    for _ in range(23):
        sizes = grow(sizes, settings, pick_by_size_ratio)
        history.append(" ".join(map(str, sizes)))
    expected = (
        "5|1 5|1 1 5|1 1 1 5|4 5|1 4 5|1 1 4 5|3 4 5|1 3 4 5|2 3 4 5|1 2 3 4 5|16|1 16|1 1 16|1 1 1 16|4 16|1 4 16|"
        "1 1 4 16|3 4 16|1 3 4 16|2 3 4 16|1 2 3 4 16|11 16"
    )
    assert history == expected.split("|")


@pytest.mark.parametrize(
    ("percent", "sizes", "count"),
    [
        (10, "8 9 10", None),
        (20, "8 9 10", 3),
        # 100 + 1 is still in, 102 is out: the bound belongs to it.
        (1, "100 101 1000", 2),
        (1, "100 102 1000", None),
        (0, "100 100 201", 2),
        (0, "100 100 200", 3),
        # Far beyond what a float tells apart.
        (1, f"{100 * 10**17} {101 * 10**17} {10**30}", 2),
        (1, f"{100 * 10**17} {101 * 10**17 + 1} {10**30}", None),
    ],
)
def test_the_bound_of_the_size_ratio(percent: int, sizes: str, count: int | None) -> None:
    settings = replace(TIGHT, compaction_trigger=2, size_ratio_percent=percent)
    levelled = [SortedRun(level, int(size)) for level, size in enumerate(sizes.split())]
    found = pick_by_size_ratio(levelled, settings)
    assert (found.run_count if isinstance(found, Pick) else None) == count


@pytest.mark.parametrize(("newer", "is_due"), [(200, False), (201, True)])
def test_the_bound_of_size_amplification(newer: int, is_due: bool) -> None:
    settings = CompactionSettings(100, compaction_trigger=2)
    found = pick_by_size_amplification(runs(f"0:{newer} 5:100"), settings)
    assert isinstance(found, Pick) is is_due


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:1 0:1", (2, 2)),
        ("0:1 1:10", (2, 2)),
        ("0:1 0:5 2:10", (2, 1)),
        ("2:10", None),
        ("0:1 0:5 0:10 0:20", (4, 2)),
        ("0:1 1:2 2:2", (3, 2)),
        ("0:2 1:2 2:2", (3, 2)),
        ("0:1 2:2", (1, 1)),
    ],
)
def test_level_0_is_taken_where_it_is_asked_for(text: str, expected: tuple[int, int] | None) -> None:
    found = pick_level_0(runs(text), CompactionSettings(100, level_count=3))
    assert (None if isinstance(found, NoPlan) else (found.run_count, found.output_level)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("0:1 0:2 0:2 0:2", (4, 2)), ("0:1 1:2 2:2", (3, 2)), ("0:1 2:2", (1, 1))]
)
def test_what_is_due_comes_before_level_0(text: str, expected: tuple[int, int]) -> None:
    settings = replace(TIGHT, level_count=3)
    found = pick_due(runs(text), settings, now_ms=0, last_full_ms=0)
    if isinstance(found, NoPlan):
        found = pick_level_0(runs(text), settings)
    assert isinstance(found, Pick)
    assert (found.run_count, found.output_level) == expected


def test_the_optimization_interval_counts_from_the_last_full_compaction() -> None:
    settings = CompactionSettings(
        100, compaction_trigger=3, max_size_amplification_percent=100, level_count=3, optimization_interval_ms=1000
    )
    three = runs("0:1 1:3 2:5")

    def due(text: str, now_ms: int, last_full_ms: int | None) -> Rule | None:
        found = pick_due(runs(text), settings, now_ms=now_ms, last_full_ms=last_full_ms)
        return found.rule if isinstance(found, Pick) and found.is_full and found.output_level == 2 else None

    assert due("0:1 1:3 2:5", 0, None) is Rule.INTERVAL
    assert due("0:1 1:3 2:5", 1001, 0) is Rule.INTERVAL
    assert due("0:1 1:3 2:5", 1000, 0) is None
    assert due("0:1 1:3 2:5", 1001, 1001) is None
    assert due("0:3 1:3 2:5", 1500, 1001) is Rule.SIZE_AMPLIFICATION
    # That was a full compaction, too.
    assert due("0:1 1:3 2:5", 2001, 1500) is None
    # One run is as whole as can be.
    assert due("0:1", 9999, None) is None
    none = pick_due(three, settings, now_ms=600, last_full_ms=0)
    assert isinstance(none, NoPlan)
    assert none.findings[0] == Finding(Rule.INTERVAL, "the last full compaction was 600 ms ago, not more than 1000")


@pytest.mark.parametrize(
    ("sizes", "is_due"), [("0:100 0:200", True), ("0:500 0:500", False), ("0:500 0:1000", False), ("0:10", False)]
)
def test_a_bucket_smaller_than_the_total_threshold_is_kept_whole(sizes: str, is_due: bool) -> None:
    settings = CompactionSettings(100, level_count=5, total_size_threshold_bytes=1000)
    assert picked(sizes, settings) == ((2, 4, Rule.TOTAL_SIZE) if is_due else None)


@pytest.mark.parametrize(
    ("sizes", "is_due"),
    [
        ("0:400 0:200", True),
        ("0:100 0:200", False),
        ("0:100 0:300 4:500", False),
        ("0:200 0:300 4:500", False),
        ("0:100 0:300 0:300 4:500", True),
    ],
)
def test_what_lies_above_the_highest_level_is_bounded(sizes: str, is_due: bool) -> None:
    settings = CompactionSettings(100, level_count=5, incremental_size_threshold_bytes=500)
    assert picked(sizes, settings) == ((len(sizes.split()), 4, Rule.INCREMENTAL_SIZE) if is_due else None)


def test_the_interval_comes_before_the_thresholds() -> None:
    settings = CompactionSettings(100, optimization_interval_ms=1000, total_size_threshold_bytes=500)

    def rule(text: str, now_ms: int, last_full_ms: int | None) -> Rule | None:
        found = pick_due(runs(text), settings, now_ms=now_ms, last_full_ms=last_full_ms)
        return found.rule if isinstance(found, Pick) else None

    assert rule("0:300 0:300", 10_000, None) is Rule.INTERVAL
    assert rule("0:30 0:30", 10_500, 10_000) is Rule.TOTAL_SIZE
    assert rule("0:300 0:300", 10_500, 10_000) is None


def test_a_full_compaction_takes_all_runs() -> None:
    assert pick_full(runs("0:1 5:1000"), CompactionSettings(100), why="Asked.") == Pick(
        2, 5, True, Rule.REQUESTED, "Asked."
    )
    assert pick_full(runs("4:1000"), CompactionSettings(100), why="Asked.") == Pick(
        1, 5, True, Rule.REQUESTED, "Asked."
    )


def test_none_says_why() -> None:
    assert pick_full(runs("5:9"), CompactionSettings(100), why="") == NoPlan(
        "The bucket is compacted as a whole: all its files are at its highest level, 5."
    )
    assert pick_full([], CompactionSettings(100), why="") == NoPlan("The bucket has no files.")
    assert pick_due([], CompactionSettings(100), now_ms=0, last_full_ms=None) == NoPlan("The bucket has no files.")
    found = pick_due(runs("0:1 5:9"), CompactionSettings(100), now_ms=0, last_full_ms=None)
    assert isinstance(found, NoPlan)
    assert [finding.rule for finding in found.findings] == [
        Rule.SIZE_AMPLIFICATION,
        Rule.SIZE_RATIO,
        Rule.RUN_COUNT,
    ]
    assert found.reason == (
        "Nothing is due: there are 2 sorted runs, fewer than 5; there are 2 sorted runs, not more than 5."
    )


def test_levels_of_earlier_settings_are_not_lost() -> None:
    settings = CompactionSettings(100, level_count=3)
    assert find_highest_level(runs("0:1 5:9"), settings) == 5
    assert find_highest_level(runs("0:1 1:9"), settings) == 2
    assert find_highest_level([], settings) == 2
