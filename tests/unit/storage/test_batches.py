"""Small batches are joined, large ones handed on as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.storage.parquet.batches import join_small_batches


def make(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": range(first, first + count), "t": ["x" * 10] * count})


@pytest.mark.parametrize("limit", ["rows", "bytes"])
def test_rows_stay_in_order_and_batches_within_bounds(limit: str) -> None:
    bounds = {"max_rows": 100} if limit == "rows" else {"max_bytes": 2200}
    sizes = [1] * 250 + [100, 99, 2, 400, 1, 1, 100]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    given = [make(start, size) for start, size in zip(starts, sizes, strict=True)]
    found = list(join_small_batches(given, **bounds))
    assert [row for each in found for row in each.column("n").to_pylist()] == list(range(sum(sizes)))
    assert len(found) < 15
    assert max(each.num_rows for each in found if each not in given) <= 100
    assert any(each is given[253] for each in found), "a large one is not copied"


def test_batches_of_other_schemas_are_not_joined() -> None:
    other = pa.record_batch({"n": [9]}, schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    given = [make(0, 1).select(["n"]), make(1, 1).select(["n"]), other, other]
    assert [each.column("n").to_pylist() for each in join_small_batches(given)] == [[0, 1], [9, 9]]


def test_nothing_of_nothing() -> None:
    assert list(join_small_batches([])) == []
