"""Which files of append tables are rewritten because many of their rows were removed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.format.compaction.removed_rows import plan_removed_rows
from lakelog.format.tables.files import FILE_SCHEMA


def files(*removed: int, places: tuple[int, ...] = ()) -> pa.Table:
    """Files of 100 rows, with ids from 1 on."""
    entries = [
        {
            "file_id": number,
            "path": f"f{number}",
            "partition": b"",
            "bucket": 0,
            "level": 0,
            "row_count": 100,
            "delete_count": count,
            "size_bytes": 1000,
            "schema_id": 0,
            "added_snapshot": number,
            "order_snapshot": places[number - 1] if places else number,
            "order_ordinal": 0,
            "order_time_ms": 0,
        }
        for number, count in enumerate(removed, 1)
    ]
    return pa.Table.from_pylist(entries, FILE_SCHEMA)


@pytest.mark.parametrize(
    ("removed", "full", "taken", "expected"),
    [
        ((0, 19, 20, 99), False, (), [(3,), (4,)]),
        ((0, 1, 0, 100), True, (), [(2,), (4,)]),
        ((50, 50), False, (1,), [(2,)]),
        ((0, 0), True, (), []),
    ],
)
def test_each_file_by_itself(
    removed: tuple[int, ...], full: bool, taken: tuple[int, ...], expected: list[tuple[int, ...]]
) -> None:
    plans = plan_removed_rows(files(*removed), taken, full=full, ordered=False)
    assert [plan.file_ids for plan in plans] == expected


@pytest.mark.parametrize(
    ("removed", "places", "expected"),
    [
        # The output comes after all files of its place, so the files from the first one on are taken.
        ((0, 30, 0, 30), (1, 1, 1, 2), [(2, 3), (4,)]),
        ((30, 30, 0), (1, 1, 2), [(1, 2)]),
        ((0, 0, 30), (1, 1, 1), [(3,)]),
    ],
)
def test_files_of_one_place_keep_their_order(
    removed: tuple[int, ...], places: tuple[int, ...], expected: list[tuple[int, ...]]
) -> None:
    plans = plan_removed_rows(files(*removed, places=places), (), full=False, ordered=True)
    assert [plan.file_ids for plan in plans] == expected
    assert all(plan.why for plan in plans)
