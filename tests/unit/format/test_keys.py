"""The encoding against Python's own comparison of tuples."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.keys.encoding import (
    decode_key,
    decode_partition,
    decode_values,
    encode_key,
    encode_partition,
    encode_rows,
    encode_value,
    encode_values,
    lower_bound,
    upper_bound,
)

EXACT = decimal.Context(prec=60)


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: decimal.Decimal(n).scaleb(-scale, EXACT))


TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.decimal128(5, 2), decimals(5, 2)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(st.sampled_from("\0\x01aż\uffff😀"), max_size=6)),
    (pa.binary(), st.binary(max_size=6) | st.text("\0\x01\xfe\xff", max_size=5).map(lambda t: t.encode("latin1"))),
]


def order(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


@st.composite
def tuples(draw: st.DrawFn, count: int) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    chosen = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | values for _, values in chosen))
    return [data_type for data_type, _ in chosen], draw(st.lists(row, min_size=count, max_size=count))


def encode(types: list[pa.DataType], row: tuple[Any, ...]) -> bytes:
    return encode_key([pa.scalar(value, data_type) for value, data_type in zip(row, types, strict=True)])


@given(tuples(1))
def test_one_value_is_encoded_as_many_are(case: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, [row] = case
    for data_type, value in zip(types, row, strict=True):
        assert encode_value(pa.scalar(value, data_type)) == encode_values(pa.array([value], data_type))[0].as_py()


@given(tuples(2))
def test_bytes_compare_as_the_tuples(case: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, (left, right) = case
    left_order, right_order = tuple(map(order, left)), tuple(map(order, right))
    left_bytes, right_bytes = encode(types, left), encode(types, right)
    assert (left_bytes < right_bytes) == (left_order < right_order)
    assert (left_bytes == right_bytes) == (left_order == right_order)
    if left_bytes != right_bytes:
        assert not right_bytes.startswith(left_bytes)


@given(tuples(1))
def test_round_trip(case: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, (row,) = case
    decoded = decode_key(encode(types, row), types)
    assert [value.type for value in decoded] == types
    assert [order(value.as_py()) for value in decoded] == [order(value) for value in row]
    scalars = [pa.scalar(value, data_type) for value, data_type in zip(row, types, strict=True)]
    assert decode_partition(encode_partition(scalars), types) == decoded or any(v != v for v in row)


@given(tuples(5))
def test_columns_encode_as_their_values(case: tuple[list[pa.DataType], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    columns = [pa.array([row[i] for row in rows], data_type) for i, data_type in enumerate(types)]
    expected = [encode(types, row) for row in rows]
    assert encode_rows(columns).to_pylist() == expected
    assert encode_rows([column.slice(2, 2) for column in columns]).to_pylist() == expected[2:4]
    encode_rows(columns).validate(full=True)


@given(st.binary(max_size=12), st.binary(max_size=12), st.integers(1, 8))
def test_cut_bounds_stay_bounds(encoded: bytes, other: bytes, limit: int) -> None:
    lower, upper = lower_bound(encoded, limit), upper_bound(encoded, limit)
    assert len(lower) <= limit
    assert lower <= encoded
    assert upper is None or (len(upper) <= limit and upper >= encoded)
    # Whatever the bounds exclude, is really lower or higher.
    if other < lower:
        assert other < encoded
    if upper is not None and other > upper:
        assert other > encoded


def test_cut_upper_bounds() -> None:
    assert upper_bound(b"abc", 3) == b"abc"
    assert upper_bound(b"abcd", 3) == b"abd"
    assert upper_bound(b"a\xff\xffd", 3) == b"b"
    assert upper_bound(b"\xff\xff\xffd", 3) is None


def test_integers_and_floats_of_all_widths_share_one_encoding() -> None:
    widths = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    assert len({encode_values(pa.array([-5], t))[0].as_py() for t in widths}) == 1
    assert encode_values(pa.array([1.5], pa.float32())) == encode_values(pa.array([1.5], pa.float64()))
    assert encode_values(pa.array([-0.0])) == encode_values(pa.array([0.0]))


def test_timestamps_beyond_pythons_years() -> None:
    last = pa.scalar(2**63 - 1, pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert decode_key(encode_key([last]), [last.type])[0] == last


def test_stored_form_does_not_change() -> None:
    row = [pa.scalar(1, pa.int32()), pa.scalar("a\0", pa.string()), pa.scalar(None, pa.date32()), pa.scalar(True)]
    assert encode_key(row).hex() == "018000000000000001016100ff0000000101"
    assert encode_key([pa.scalar(decimal.Decimal("-0.01"), pa.decimal128(5, 2))]).hex() == "017f" + "ff" * 15
    assert encode_key([pa.scalar(1.0)]).hex() == "01bff0000000000000"
    assert encode_key([pa.scalar(-1.0)]).hex() == "01400fffffffffffff"


@pytest.mark.parametrize(
    ("encoded", "types"),
    [
        (b"", [pa.int8()]),
        (b"\x02", [pa.int8()]),
        (b"\x01\x80", [pa.int64()]),
        (b"\x01a", [pa.string()]),
        (b"\x01\xff\x00\x00", [pa.string()]),
        (b"\x01a\x00\x00x", [pa.string()]),
        (encode_key([pa.scalar(300)]), [pa.int8()]),
    ],
)
def test_damaged_keys(encoded: bytes, types: list[pa.DataType]) -> None:
    with pytest.raises(DataCorrupted, match="truncated or damaged"):
        decode_key(encoded, types)


def test_nested_types_have_no_encoding() -> None:
    with pytest.raises(InvalidArgument, match="list"):
        encode_values(pa.array([[1]]))


columns = st.one_of([st.tuples(st.just(type_), st.lists(values, max_size=6)) for type_, values in TYPES])


@given(columns)
def test_values_of_a_column_are_decoded_together(column: tuple[pa.DataType, list[Any]]) -> None:
    data_type, values = column
    array = pa.array(values, data_type)
    decoded = decode_values(encode_values(array).to_pylist(), data_type)
    assert decoded.type == data_type
    for index, value in enumerate(array):
        (alone,) = decode_key(encode_value(value), [data_type])
        assert decoded[index] == alone or (math.isnan(decoded[index].as_py()) and math.isnan(alone.as_py()))


def test_numbers_of_another_length_are_not_decoded() -> None:
    with pytest.raises(DataCorrupted, match="truncated or damaged"):
        decode_values([encode_value(pa.scalar(1)), b"\x00"], pa.int64())
