"""Columns of bytes, and what stands where nobody looks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.log.codecs.byte_columns import fill_with_any


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1, None], pa.int64()),
        (["a", None], pa.string()),
        ([b"a", None], pa.binary()),
        ([None, True], pa.bool_()),
        ([None, 7], pa.timestamp("us", "UTC")),
        ([{"a": 1, "b": None}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ([None, [1, None]], pa.list_(pa.int64())),
        ([None, [("k", 1)]], pa.map_(pa.string(), pa.int64())),
        ([None, None], pa.struct([("a", pa.list_(pa.int64()))])),
        ([], pa.struct([("a", pa.int64())])),
    ],
    ids=str,
)
def test_there_is_a_value_for_each_null_of_any_type(values: list[Any], data_type: pa.DataType) -> None:
    given = pa.array(values, data_type)
    found = fill_with_any(given)
    found.validate(full=True)
    assert (found.type, len(found), found.null_count) == (data_type, len(values), 0)
    kept = [place for place, value in enumerate(values) if value is not None]
    assert found.take(pa.array(kept, pa.int64())).to_pylist() == given.take(pa.array(kept, pa.int64())).to_pylist()
