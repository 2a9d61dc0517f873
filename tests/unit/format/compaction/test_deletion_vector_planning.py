"""Which buckets are worth marking: what a read would save, against what finding it once costs."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.format.compaction.deletion_vectors import MIN_BUCKET_BYTES, QUIET_MS, RunSums, plan_deletion_vectors
from lakelog.format.compaction.due import READ_COST_BYTES, Due
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.merge.sections import KeyRange

ROWS = 1_000_000
KEY_BYTES = 8
ALL = KeyRange(None, None)


def run(level: int, size_bytes: int = MIN_BUCKET_BYTES, keys: KeyRange = ALL, **fields: Any) -> RunSums:
    known: dict[str, Any] = {"file_count": 1, "row_count": ROWS, "delete_count": 0, "uncovered_count": 1} | fields
    return RunSums(level, size_bytes, keys=keys, **known)


def plan(*runs: RunSums, has_sequence: bool = False) -> Due | NoPlan:
    return plan_deletion_vectors(runs, KEY_BYTES, has_sequence=has_sequence)


def span(first: int, last: int) -> KeyRange:
    return KeyRange(bytes([first]), bytes([last]))


def test_a_large_bucket_of_two_runs_is_due_once_it_is_quiet() -> None:
    found = plan(run(0), run(5))
    assert isinstance(found, Due)
    assert (found.delay_ms, found.why) == (
        QUIET_MS,
        "Each read merges 16000000 bytes of keys, which finding them once would spare it.",
    )
    assert 0 < found.priority < 32, "it saves a read less than it costs to find"


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ((run(0, 1000), run(5, MIN_BUCKET_BYTES - 1001)), "reads gain too little"),
        ((run(5),), "Nothing is to be merged"),
        # No key in common.
        ((run(0, keys=span(1, 3)), run(5, keys=span(4, 9))), "Nothing is to be merged"),
        # All but the oldest are known.
        ((run(0, uncovered_count=0), run(4, uncovered_count=0), run(5, uncovered_count=9)), "Nothing is to be merged"),
        ((run(0, row_count=500_000), run(5, row_count=500_000)), "a read would save too little"),
    ],
    ids=["small", "one run", "apart", "known", "few keys"],
)
def test_where_reads_gain_too_little_nothing_is_due(runs: tuple[RunSums, ...], why: str) -> None:
    found = plan(*runs)
    assert isinstance(found, NoPlan)
    assert why in found.reason


def test_it_is_worth_it_from_some_bytes_of_keys_on() -> None:
    rows = 2 * READ_COST_BYTES // KEY_BYTES // 2
    assert isinstance(plan(run(0, row_count=rows), run(5, row_count=rows)), Due)
    assert isinstance(plan(run(0, row_count=rows), run(5, row_count=rows - 1)), NoPlan)


def test_only_what_is_merged_counts() -> None:
    apart = run(0, keys=span(1, 1))
    both = run(0, keys=span(4, 5)), run(5, keys=span(4, 9))
    found = plan(apart, *both)
    assert isinstance(found, Due)
    assert "merges 16000000 bytes" in found.why
    # One file of a run in between is not known.
    assert isinstance(plan(run(0, uncovered_count=0), run(4, file_count=3), run(5)), Due)


def test_what_saves_more_comes_first() -> None:
    priorities = []
    for rows in (600_000, 1_000_000, 10_000_000, 1_000_000_000):
        found = plan(run(0), run(5, row_count=rows))
        assert isinstance(found, Due)
        priorities.append(found.priority)
    assert priorities == sorted(priorities)
    assert priorities[0] < priorities[-1]


@pytest.mark.parametrize("level", [0, 5])
def test_deletes_that_beat_late_rows_for_a_while_get_no_deletion_vectors(level: int) -> None:
    runs = [run(0, delete_count=level == 0), run(5, delete_count=level == 5)]
    assert isinstance(plan(*runs, has_sequence=True), NoPlan)
    assert isinstance(plan(*runs), Due)
    assert isinstance(plan(run(0), run(5), has_sequence=True), Due)
