"""Windows of neighbours in buckets of append tables (semantics 6.3). Files are told by their sizes, oldest first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.format.commit.facts import OrderKey
from lakelog.format.compaction.plan import AppendPlan, NoPlan
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.compaction.windows import WaitingWindow, plan_whole_bucket, plan_window

SETTINGS = CompactionSettings(1024, min_file_count=4)


@dataclass(frozen=True)
class Shelved:
    """A file of an append bucket with its rows, numbered as they were committed."""

    file_id: int
    order_key: tuple[int, int]
    rows: tuple[int, ...]
    size_bytes: int


def shelved(sizes: list[int]) -> list[Shelved]:
    return [Shelved(number, (number, 0), (number,), size) for number, size in enumerate(sizes, 1)]


def to_table(files: list[Shelved]) -> pa.Table:
    return pa.table(
        {
            "file_id": pa.array([file.file_id for file in files], pa.int64()),
            "partition": pa.array([b"p"] * len(files), pa.binary()),
            "bucket": pa.array([3] * len(files), pa.int32()),
            "size_bytes": pa.array([file.size_bytes for file in files], pa.int64()),
            "order_snapshot": pa.array([file.order_key[0] for file in files], pa.int64()),
            "order_ordinal": pa.array([file.order_key[1] for file in files], pa.int32()),
            "order_time_ms": pa.array([1000 * file.order_key[0] for file in files], pa.int64()),
        }
    )


def ranges(text: str) -> list[int]:
    """Sizes of files given as first and last sequence number, `1-50 51-80`."""
    return [int(last) - int(first) + 1 for first, last in (part.split("-") for part in text.split())]


@pytest.mark.parametrize(
    ("text", "waiting"),
    [
        ("1-50", 1),
        ("1-1024", 0),
        ("1-1024 1025-2049 2050-2100", 1),
        ("1-1024 1025-2049 2050-2100 2101-2110", 2),
        ("1-1024 1025-2049 2050-2500", 1),
        ("1-1024 1025-2049 2050-2500 2501-4096 4097-6000 6001-7000 7001-7600", 1),
        ("1-1024 1025-2049 2050-2500 2501-4096", 1),
        ("1-1024 1025-2049 2050-2500 2501-4096 4097-6000", 1),
        ("1-500 501-1000", 2),
        ("1-500 501-1000 1001-2026", 2),
        ("1-2000 2001-2005 2006-2010", 2),
    ],
)
def test_too_few_neighbours_wait(text: str, waiting: int) -> None:
    sizes = ranges(text)
    found = plan_window(to_table(shelved(sizes)), SETTINGS)
    assert isinstance(found, WaitingWindow)
    assert len(found.file_ids) == waiting
    let_go = len(sizes) - waiting
    assert found.file_ids == tuple(range(let_go + 1, len(sizes) + 1))
    assert found.after == ((let_go, 0) if let_go else None)


@pytest.mark.parametrize(
    ("sizes", "first", "last"),
    [
        ([10] * 13, 1, 4),
        ([2, 498, 500, 25, 25], 1, 4),
        ([1022, 2, 1026, 460, *[10] * 12], 4, 7),
    ],
)
def test_enough_neighbours_are_planned(sizes: list[int], first: int, last: int) -> None:
    plan = plan_window(to_table(shelved(sizes)), SETTINGS)
    assert isinstance(plan, AppendPlan)
    assert plan.file_ids == tuple(range(first, last + 1))
    assert (plan.partition, plan.bucket) == (b"p", 3)
    assert plan.order_key == OrderKey(last, 0, 1000 * last)
    assert plan.size_bytes == sum(sizes[first - 1 : last])


def test_a_window_that_would_not_make_fewer_files_is_passed_over() -> None:
    sizes = [5, 5, 10_000, 5, 5, 5, 5]
    plan = plan_window(to_table(shelved(sizes)), SETTINGS)
    assert isinstance(plan, AppendPlan)
    assert plan.file_ids == (4, 5, 6, 7)


def test_an_empty_bucket_waits() -> None:
    assert plan_window(to_table([]), SETTINGS) == WaitingWindow(
        (), None, "0 small files at the end of the bucket wait for others; 4 are enough."
    )


def test_files_of_one_place_are_not_parted() -> None:
    # Files 4 to 6 were written by one compaction: what replaced 4 alone would be read behind 6.
    files = [replace(file, order_key=(5, 0)) if 4 <= file.file_id <= 6 else file for file in shelved([10] * 9)]
    plan = plan_window(to_table([*files[:3], *files[6:], *files[3:6]]), SETTINGS)
    assert isinstance(plan, AppendPlan)
    assert plan.file_ids == (1, 2, 3, 4, 5, 6)


FULL = CompactionSettings(1024)


@pytest.mark.parametrize(
    ("text", "planned"),
    [
        ("", None),
        ("1-10", None),
        ("1-1024", None),
        ("1-1024 1025-2048 2049-3200", None),
        ("1-1024 1025-2048 2049-3200 3201-3220 3221-3280", None),
        ("1-816", None),
        ("1-500 501-1000 1001-1010 1011-1024 1025-3000", (1, 5)),
        ("1-1025 1026-1080 1090-1500 1600-1900", (2, 4)),
    ],
)
def test_a_bucket_as_a_whole(text: str, planned: tuple[int, int] | None) -> None:
    found = plan_whole_bucket(to_table(shelved(ranges(text))), FULL)
    if planned is None:
        assert isinstance(found, NoPlan)
    else:
        assert isinstance(found, AppendPlan)
        assert found.file_ids == tuple(range(planned[0], planned[1] + 1))


def test_from_which_size_on_a_first_file_is_large() -> None:
    for size, first in ((FULL.small_file_bytes, 2), (FULL.small_file_bytes - 1, 1)):
        found = plan_whole_bucket(to_table(shelved([size, 5, 5, 5])), FULL)
        assert isinstance(found, AppendPlan)
        assert found.file_ids == tuple(range(first, 5))


def test_why_a_bucket_is_left_as_it_is() -> None:
    def why(sizes: list[int]) -> str:
        found = plan_whole_bucket(to_table(shelved(sizes)), FULL)
        assert isinstance(found, NoPlan)
        return found.reason

    assert why([5, 5]) == "The bucket has 2 files; 3 are needed."
    assert why([900, 5, 5]) == "Behind the bucket's first 1 large files are 2; 3 are needed."
    assert why([5, 900, 900, 5]) == "Of the bucket's last 4 files 2 are small, no more than there are large ones."
    assert why([700, 700, 700, 990]) == "The bucket's last 4 files have 3090 bytes and would be as many again."


def compact(files: list[Shelved], plan: AppendPlan, target: int, next_id: int) -> list[Shelved]:
    """What a plan leaves: outputs of about the target, all with the plan's place, their ids in order."""
    by_id = {file.file_id: file for file in files}
    inputs = [by_id[file_id] for file_id in plan.file_ids]
    rows = [row for file in inputs for row in file.rows]
    count = min(len(rows), -(-plan.size_bytes // target)) or 1
    assert plan.order_key is not None
    order_key = (plan.order_key.snapshot_id, plan.order_key.ordinal)
    written = [
        Shelved(next_id + part, order_key, tuple(rows[len(rows) * part // count : len(rows) * (part + 1) // count]), 0)
        for part in range(count)
    ]
    sizes = [min(target, max(plan.size_bytes - target * part, 0)) for part in range(count)]
    return [
        *(file for file in files if file.file_id not in plan.file_ids),
        *(replace(file, size_bytes=size) for file, size in zip(written, sizes, strict=True)),
    ]


def in_order(files: list[Shelved]) -> list[int]:
    return [row for file in sorted(files, key=lambda file: (file.order_key, file.file_id)) for row in file.rows]


@given(st.lists(st.integers(0, 250), min_size=1, max_size=40), st.integers(2, 6), st.data())
def test_the_order_survives_and_planning_ends(sizes: list[int], min_files: int, data: st.DataObject) -> None:
    chosen = CompactionSettings(100, min_file_count=min_files)
    files: list[Shelved] = []
    next_id, coming = 1, list(enumerate(sizes, 1))
    for _ in range(4 * (len(sizes) + 1)):
        arriving = data.draw(st.integers(1, len(coming))) if coming else 0
        for row, size in coming[:arriving]:
            # Ids of files rise with each commit, compactions included.
            files.append(Shelved(next_id, (1000 * row, 0), (row,), size))
            next_id += 1
        coming = coming[arriving:]
        whole = bool(coming) and data.draw(st.booleans())
        plan = plan_whole_bucket(to_table(files), chosen) if whole and files else plan_window(to_table(files), chosen)
        if isinstance(plan, AppendPlan):
            before = len(files)
            files = compact(files, plan, 100, next_id)
            next_id += len(sizes)
            assert len(files) < before
        elif not coming and not whole:
            break
        assert in_order(files) == list(range(1, len(sizes) - len(coming) + 1))
    else:
        raise AssertionError("there is always something to do")
    found = plan_window(to_table(files), chosen)
    assert isinstance(found, WaitingWindow)
    # Whoever looks only behind the place where it stopped sees what waits.
    behind = [file for file in files if found.after is None or file.order_key > found.after]
    assert {file.file_id for file in behind} <= set(found.file_ids)
