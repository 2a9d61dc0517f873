"""Packing of small files of append tables without buckets (semantics 6.2)."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.compaction.plan import AppendPlan
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.compaction.small_files import (
    COMPACT_AGE,
    FORGET_AGE,
    SmallFileState,
    add_files,
    plan_all_small_files,
    plan_small_files,
    remove_files,
)

MB = 1 << 20
TARGET = 256 * MB
SETTINGS = CompactionSettings(TARGET, min_file_count=3)
TINY = CompactionSettings(100, min_file_count=3, open_file_cost_bytes=10)


def listed(sizes: list[int], first_id: int = 1, partition: bytes = b"p") -> pa.Table:
    return pa.table(
        {
            "file_id": pa.array(range(first_id, first_id + len(sizes)), pa.int64()),
            "partition": pa.array([partition] * len(sizes), pa.binary()),
            "size_bytes": pa.array(sizes, pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("count", "size_bytes", "tasks"),
    [
        (200, 0, [128, 72]),
        (100, 2**62, []),
        (100, TARGET // 3 + 1, [6] * 16 + [4]),
        (100, TARGET // 10 * 8, []),
        (1000, TARGET // 10, [18] * 55 + [10]),
        (1050, TARGET // 5, [10] * 105),
        (1089, TARGET // 5, [10] * 108 + [9]),
        # The first size that is not small any more, and the last one that is.
        (4, TARGET // 10 * 7, []),
        (4, TARGET // 10 * 7 - 1, [3]),
    ],
)
def test_how_many_tasks_files_of_one_size_make(count: int, size_bytes: int, tasks: list[int]) -> None:
    scan = plan_small_files(add_files(SmallFileState(), listed([size_bytes] * count), SETTINGS), SETTINGS)
    assert [len(plan.file_ids) for plan in scan.plans] == tasks
    assert scan.state.file_count == (0 if size_bytes >= SETTINGS.small_file_bytes else count - sum(tasks))


def packed(sizes: list[int], settings: CompactionSettings = TINY) -> list[list[int]]:
    scan = plan_small_files(add_files(SmallFileState(), listed(sizes), settings), settings)
    return [sorted(sizes[file_id - 1] for file_id in plan.file_ids) for plan in scan.plans]


def test_bins_are_filled_from_the_smallest_file_on() -> None:
    # Each counts 10 more; 200 fill a bin.
    assert packed([60, 5, 40, 55, 15, 50]) == [[5, 15, 40, 50, 55]]
    assert packed([60, 5, 40, 55, 15, 50, 1, 2, 3]) == [[1, 2, 3, 5, 15, 40, 50, 55]]
    assert packed([40, 40, 40, 40]) == [[40, 40, 40, 40]]
    assert packed([40, 40, 40, 39]) == [[39, 40, 40, 40]]


def test_a_bin_has_two_files_at_least() -> None:
    costly = CompactionSettings(100, min_file_count=3, open_file_cost_bytes=500)
    assert packed([1, 2, 3, 4, 5], costly) == [[1, 2], [3, 4]]


def test_a_task_writes_its_files_in_the_order_in_which_they_came() -> None:
    scan = plan_small_files(add_files(SmallFileState(), listed([30, 20, 10]), TINY), TINY)
    assert scan.plans == (AppendPlan(b"p", 0, (1, 2, 3), 60, None, scan.plans[0].why),)


def test_partitions_are_never_mixed() -> None:
    state = add_files(SmallFileState(), listed([1, 1], partition=b"a"), TINY)
    state = add_files(
        state, pa.concat_tables([listed([1, 1], 3, b"b"), listed([1], 5, b"a"), listed([1], 6, b"c")]), TINY
    )
    scan = plan_small_files(state, TINY)
    assert [(plan.partition, plan.file_ids) for plan in scan.plans] == [(b"a", (1, 2, 5))]
    assert {partition: known.file_ids.tolist() for partition, known in scan.state.partitions.items()} == {
        b"b": [3, 4],
        b"c": [6],
    }
    assert scan.reason == "3 small files in 2 partitions wait for others."


def test_two_files_wait_for_others_and_go_together_when_none_come() -> None:
    state = add_files(SmallFileState(), listed([0, 0]), TINY)
    for age in range(1, COMPACT_AGE + 1):
        scan = plan_small_files(state, TINY)
        assert scan.plans == ()
        state = scan.state
        assert state.partitions[b"p"].age == age
    scan = plan_small_files(state, TINY)
    assert [plan.file_ids for plan in scan.plans] == [(1, 2)]
    assert scan.plans[0].why == "2 small files have waited for others for 6 scans."
    assert scan.reason == "No small file waits."
    assert scan.state.partitions == {}


def test_one_file_is_forgotten_after_a_while() -> None:
    state = add_files(SmallFileState(), listed([0]), TINY)
    for age in range(1, FORGET_AGE + 1):
        state = plan_small_files(state, TINY).state
        assert state.partitions[b"p"].age == age
    # A new one makes it young again.
    young = add_files(state, listed([0], 2), TINY)
    assert young.partitions[b"p"].age == 0
    assert young.partitions[b"p"].file_ids.tolist() == [1, 2]
    # So does a large one, of which nothing else is remembered.
    assert add_files(state, listed([100], 2), TINY).partitions[b"p"].age == 0
    scan = plan_small_files(state, TINY)
    assert scan.plans == ()
    assert scan.state.partitions == {}


def test_what_is_left_of_a_scan_with_tasks_does_not_age() -> None:
    state = add_files(SmallFileState(), listed([60] * 4), TINY)
    scan = plan_small_files(state, TINY)
    assert [len(plan.file_ids) for plan in scan.plans] == [3]
    assert scan.state.partitions[b"p"].age == 0


def test_a_file_that_is_listed_twice_is_there_once() -> None:
    state = add_files(add_files(SmallFileState(), listed([1, 2]), TINY), listed([1, 2, 3]), TINY)
    assert state.partitions[b"p"].file_ids.tolist() == [1, 2, 3]
    assert state.partitions[b"p"].sizes_bytes.tolist() == [1, 2, 3]


def test_files_that_are_gone_are_forgotten() -> None:
    state = add_files(SmallFileState(), listed([1, 2]), TINY)
    state = add_files(plan_small_files(state, TINY).state, listed([5, 6, 7, 8], 10, b"q"), TINY)
    left = remove_files(state, [1, 2, 11, 99])
    assert {partition: known.file_ids.tolist() for partition, known in left.partitions.items()} == {b"q": [10, 12, 13]}
    assert remove_files(state, [2]).partitions[b"p"].age == 1
    assert add_files(left, listed([]), TINY) is left


def test_all_small_files_go_at_once_where_that_is_asked_for() -> None:
    files = pa.concat_tables([listed([1, 2, 99], 1, b"a"), listed([3], 4, b"b")])
    assert [(plan.partition, plan.file_ids) for plan in plan_all_small_files(files, SETTINGS)] == [(b"a", (1, 2, 3))]
    assert [(plan.partition, plan.file_ids) for plan in plan_all_small_files(files, TINY)] == [(b"a", (1, 2))]


@given(
    st.lists(st.lists(st.integers(0, 120), max_size=20), min_size=1, max_size=6),
    st.integers(2, 5),
    st.integers(0, 60),
)
def test_each_small_file_is_in_one_task_or_waits(scans: list[list[int]], min_files: int, cost: int) -> None:
    chosen = CompactionSettings(100, min_file_count=min_files, open_file_cost_bytes=cost)
    state, sizes = SmallFileState(), dict[int, int]()
    taken: list[int] = []
    for scan in scans:
        first = len(sizes) + 1
        sizes.update(enumerate(scan, first))
        state = add_files(state, listed(scan, first), chosen)
        found = plan_small_files(state, chosen)
        for plan in found.plans:
            assert len(plan.file_ids) > 1
            assert plan.size_bytes == sum(sizes[file_id] for file_id in plan.file_ids)
            largest = max(sizes[file_id] for file_id in plan.file_ids)
            counted = plan.size_bytes + cost * len(plan.file_ids)
            # Full with its largest file only, and not before, but for two files.
            assert len(plan.file_ids) == 2 or counted - largest - cost < 200
            taken.extend(plan.file_ids)
        state = found.state
    waiting = [file_id for known in state.partitions.values() for file_id in known.file_ids.tolist()]
    small = sorted(file_id for file_id, size in sizes.items() if size < 70)
    assert sorted(taken + waiting) == small


@given(st.lists(st.integers(0, 69), max_size=40))
def test_scanning_what_was_written_again_and_again_ends(sizes: list[int]) -> None:
    state = add_files(SmallFileState(), listed(sizes), TINY)
    next_id = len(sizes) + 1
    for _ in range(20 * (len(sizes) + 1)):
        if not state.partitions:
            return
        scan = plan_small_files(state, TINY)
        state = scan.state
        for plan in scan.plans:
            total = plan.size_bytes
            written = [100] * (total // 100) + [total % 100]
            state = add_files(state, listed(written, next_id), TINY)
            next_id += len(written)
    raise AssertionError("small files are compacted for ever")


def test_many_files_of_one_partition_are_packed_at_once() -> None:
    sizes = np.random.default_rng(7).integers(0, TARGET, 100_000)
    table = listed(sizes.tolist())
    began = time.perf_counter()
    scan = plan_small_files(add_files(SmallFileState(), table, SETTINGS), SETTINGS)
    took_s = time.perf_counter() - began
    planned = sum(len(plan.file_ids) for plan in scan.plans)
    assert planned + scan.state.file_count == int((sizes < SETTINGS.small_file_bytes).sum())
    # About 0.1 s on an idle core.
    assert took_s < 2


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        # As many as are enough, of one size: all of them.
        ([1, 1, 1], [1, 1, 1]),
        # What was put together before waits until as much has come.
        ([1, 1, 10], [1, 1]),
        ([1, 1, 2, 10], [1, 1, 2]),
        ([1, 1, 2, 4, 8], [1, 1, 2, 4, 8]),
        # Two of the smallest in any case: with each plan there are fewer.
        ([1, 3, 10], [1, 3]),
        ([1, 3, 4], [1, 3, 4]),
        ([0, 0, 5], [0, 0]),
        ([0, 0, 0, 1], [0, 0, 0]),
    ],
)
def test_of_those_that_fill_no_file_the_smaller_ones_go_together(sizes: list[int], taken: list[int]) -> None:
    scan = plan_small_files(add_files(SmallFileState(), listed(sizes), TINY), TINY)
    (plan,) = scan.plans
    assert [sizes[file_id - 1] for file_id in plan.file_ids] == taken


def test_a_byte_is_rewritten_a_few_times_and_not_with_each_few_files_that_follow() -> None:
    settings = CompactionSettings(TARGET, min_file_count=5)
    commits, state, written, most = 1000, SmallFileState(), 0, 0
    next_id = 1
    for _ in range(commits):
        state = add_files(state, listed([1000], next_id), settings)
        next_id += 1
        while (scan := plan_small_files(state, settings)).plans:
            state = scan.state
            for plan in scan.plans:
                written += plan.size_bytes
                state = add_files(state, listed([plan.size_bytes], next_id), settings)
                next_id += 1
        most = max(most, state.file_count)
    assert most < 5
    # Were all that is there put together each time, it would be 125.
    assert written < 20 * 1000 * commits


@pytest.mark.parametrize(("sizes", "count"), [([5, 5], 2), ([1, 100], 0), ([50, 50, 90], 3)])
def test_what_has_only_waited_is_not_rewritten_for_a_little_more(sizes: list[int], count: int) -> None:
    settings = CompactionSettings(1000, open_file_cost_bytes=1)
    plans = plan_all_small_files(listed(sizes), settings, only_alike=True)
    assert sum(len(plan.file_ids) for plan in plans) == count
