"""Deep equality against a slow one, value by value."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.merge.equality import equal_rows, equal_values

NESTED = pa.struct(
    [("a", pa.list_(pa.field("element", pa.float64()))), ("b", pa.map_(pa.string(), pa.list_(pa.int32())))]
)


def same(left: Any, right: Any) -> bool:
    """The rule, one value at a time."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(left[name], right[name]) for name in left)
    return bool(left == right)


FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf])
VALUES = st.none() | st.fixed_dictionaries(
    {
        "a": st.none() | st.lists(FLOATS, max_size=2),
        "b": st.none()
        | st.lists(
            st.tuples(st.sampled_from(["", "x"]), st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2)),
            max_size=2,
        ),
    }
)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=12), st.integers(0, 3))
def test_nested_values_are_compared_deeply(pairs: list[tuple[Any, Any]], skipped: int) -> None:
    left, right = (pa.array([pair[side] for pair in pairs], NESTED) for side in (0, 1))
    # A slice has its own offsets, into children that are longer.
    found = equal_values(left.slice(skipped), right.slice(skipped))
    assert list(found) == [same(a, b) for a, b in pairs[skipped:]]


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=20))
@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
def test_nan_equals_nan_and_zeros_of_two_signs_differ(
    data_type: pa.DataType, pairs: list[tuple[float | None, float | None]]
) -> None:
    left, right = (pa.array([pair[side] for pair in pairs], data_type) for side in (0, 1))
    assert list(equal_values(left, right)) == [same(a, b) for a, b in pairs]


def test_all_bits_of_a_nan_count_as_one() -> None:
    bits = pa.array([0x7FF8000000000001, 0x7FF8000000000000], pa.int64()).view(pa.float64())
    assert list(equal_values(bits.slice(0, 1), bits.slice(1))) == [True]


def test_rows_are_equal_when_all_columns_are() -> None:
    left = pa.table({"a": [1, 2, None, 4], "b": ["x", "y", None, None], "c": [b"", b"1", b"2", b"3"]})
    right = pa.table({"a": [1, 3, None, 4], "b": ["x", "y", None, "z"], "c": [b"", b"1", b"9", b"3"]})
    assert list(equal_rows(left, right, ["a", "b"])) == [True, False, True, False]
    assert list(equal_rows(left, right, ["a", "b", "c"])) == [True, False, False, False]
    assert list(equal_rows(left, right, [])) == [True] * 4


def test_an_empty_list_is_no_null() -> None:
    lists = pa.list_(pa.int64())
    left, right = pa.array([[], None, [None]], lists), pa.array([None, None, [None]], lists)
    assert list(equal_values(left, right)) == [False, True, True]


def test_columns_of_different_types_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"type int64 was compared with one of type string\. Read both"):
        equal_values(pa.array([1]), pa.array(["1"]))
