from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.keys.encoding import encode_key, encode_values
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.statistics import BOUND_LENGTH, MAX_STATISTICS_COLUMNS, StatisticsCollector


def collect(fields: dict[str, int], *batches: pa.Table | pa.RecordBatch) -> tuple[ColumnStatistics, ...]:
    collector = StatisticsCollector(fields)
    for batch in batches:
        collector.update(batch)
    return collector.finish()


def one(values: list[Any], data_type: pa.DataType) -> ColumnStatistics:
    (statistics,) = collect({"c": 7}, pa.table({"c": pa.array(values, data_type)}))
    return statistics


def code(value: Any, data_type: pa.DataType) -> bytes:
    return encode_key([pa.scalar(value, data_type)])


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([3, None, -1, 2], pa.int16()),
        ([True, None, True], pa.bool_()),
        ([dt.date(2020, 1, 1), None, dt.date(1969, 1, 1)], pa.date32()),
        ([Decimal("-9.5"), None, Decimal("10.00")], pa.decimal128(38, 2)),
        (["b", None, "a\0", "a"], pa.string()),
        ([b"\xff", None, b""], pa.binary()),
    ],
    ids=str,
)
def test_bounds_and_nulls(values: list[Any], data_type: pa.DataType) -> None:
    present = [value for value in values if value is not None]
    assert one(values, data_type) == ColumnStatistics(
        7, 1, code(min(present), data_type), code(max(present), data_type)
    )


def test_no_values() -> None:
    assert one([None, None], pa.string()) == ColumnStatistics(7, 2, None, None)
    assert one([], pa.float64()) == ColumnStatistics(7, 0, None, None)
    assert collect({"c": 1}) == ()


def test_nan_lies_above_all_numbers() -> None:
    nan, double = math.nan, pa.float64()
    assert one([1.0, nan, math.inf], double) == ColumnStatistics(7, 0, code(1.0, double), code(nan, double))
    assert one([nan, None], double) == ColumnStatistics(7, 1, code(nan, double), code(nan, double))
    assert one([-0.0], double).min_value == one([0.0], double).max_value
    assert code(nan, double) > code(math.inf, double)


@given(st.lists(st.text(st.sampled_from("a\0ż😀\U0010ffff"), max_size=30), min_size=1))
def test_cut_bounds_hold_all_values(texts: list[str]) -> None:
    statistics = one(texts, pa.string())
    assert statistics.min_value is not None
    assert statistics.max_value is not None
    assert len(statistics.min_value) <= BOUND_LENGTH
    assert len(statistics.max_value) <= BOUND_LENGTH
    for encoded in encode_values(pa.array(texts)).to_pylist():
        assert statistics.min_value <= encoded <= statistics.max_value


@given(st.lists(st.lists(st.none() | st.floats(), max_size=4), max_size=4))
def test_batches_give_what_the_whole_gives(parts: list[list[float | None]]) -> None:
    batches = [pa.record_batch({"c": pa.array(part, pa.float64())}) for part in parts]
    whole = one([value for part in parts for value in part], pa.float64())
    assert collect({"c": 7}, *batches) == ((whole,) if parts else ())


def test_nested_columns_are_passed_over_and_the_number_is_bounded() -> None:
    columns = {"n": pa.array([[1]])} | {f"c{i}": pa.array([i]) for i in range(80)}
    found = collect({name: i for i, name in enumerate(columns)}, pa.table(columns))
    assert [s.field_id for s in found] == list(range(1, MAX_STATISTICS_COLUMNS + 1))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidArgument, match="lack the columns y"):
        collect({"x": 1, "y": 2}, pa.table({"x": [1]}))
