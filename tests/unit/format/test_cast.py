from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument
from lakelog.format.types.cast import cast_batch, check_schema, show_value

INSTANT = pa.timestamp("us", "UTC")


def cast(values: pa.Array, data_type: pa.DataType, nullable: bool = True) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([values], ["c"])
    cast_to = cast_batch(batch, pa.schema([pa.field("c", data_type, nullable)]))
    cast_to.validate(full=True)
    return cast_to.column(0)


KEEP: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([-128, None, 127], pa.int64()), pa.int8()),
    (pa.array([255], pa.uint8()), pa.int16()),
    (pa.array([2**63 - 1], pa.uint64()), pa.int64()),
    (pa.array([1.0, None, -3.0]), pa.int32()),
    (pa.array([1, 2**53]), pa.float64()),
    (pa.array([0.5, math.inf, -0.0, None]), pa.float32()),
    (pa.array([0.1], pa.float32()), pa.float64()),
    (pa.array([1.5], pa.float16()), pa.float32()),
    (pa.array([999, -999, None]), pa.decimal128(5, 2)),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(38, 18)),
    (pa.array([Decimal("1.20")]), pa.decimal128(38, 1)),
    (pa.array([Decimal("12.00")]), pa.int8()),
    (pa.array([Decimal("1.5")], pa.decimal64(10, 1)), pa.decimal128(10, 1)),
    (pa.array(["a", None], pa.large_string()), pa.string()),
    (pa.array(["a", None], pa.string_view()), pa.string()),
    (pa.array(["a", "b", "a", None]).dictionary_encode(), pa.string()),
    (pa.array([5, 6]).dictionary_encode(), pa.int16()),
    (pa.DictionaryArray.from_arrays([0, None, 1], pa.array(["a", "ż"], pa.string_view())), pa.string()),
    (pa.DictionaryArray.from_arrays([0, None, 1], pa.array([b"a", b""], pa.binary_view())), pa.binary()),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    (pa.array([None, None]), pa.struct([("a", pa.int8())])),
    (pa.array([dt.date(2020, 1, 1)], pa.date64()), pa.date32()),
    (pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("s", "Europe/Warsaw")), INSTANT),
    (pa.array([[1, None], None, []], pa.large_list(pa.int64())), pa.list_(pa.int8())),
    (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), pa.list_(pa.int8())),
    (pa.array([[1, 2], None, [3]], pa.list_view(pa.int64())), pa.list_(pa.int8())),
    (pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int64())), pa.map_(pa.string(), pa.int8())),
]


@pytest.mark.parametrize(("array", "data_type"), KEEP, ids=lambda v: str(v.type if isinstance(v, pa.Array) else v)[:40])
def test_values_that_fit_are_kept(array: pa.Array, data_type: pa.DataType) -> None:
    expected = array.to_pylist()
    assert cast(array, data_type).type == data_type
    assert cast(array, data_type).to_pylist() == expected
    # Also behind an offset, and in no row at all.
    shifted = pa.concat_arrays([array, array]).slice(len(array)) if not pa.types.is_dictionary(array.type) else array
    assert cast(shifted, data_type).to_pylist() == expected
    assert len(cast(array[:0], data_type)) == 0


@pytest.mark.parametrize(
    ("values", "given_type", "data_type", "shown"),
    [
        ([1, 128], pa.int64(), pa.int8(), "128"),
        ([1, -1], pa.int8(), pa.int8(), None),
        ([1, 2**63], pa.uint64(), pa.int64(), str(2**63)),
        ([1.0, 1.5], pa.float64(), pa.int64(), "1.5"),
        ([1.0, math.nan], pa.float64(), pa.int64(), "nan"),
        ([1.0, math.inf], pa.float64(), pa.int32(), "inf"),
        ([0, 2**53 + 1], pa.int64(), pa.float64(), str(2**53 + 1)),
        ([0.5, 0.1], pa.float64(), pa.float32(), "0.1"),
        ([999, 1000], pa.int64(), pa.decimal128(5, 2), "1000"),
        ([Decimal("1.20"), Decimal("1.25")], pa.decimal128(5, 2), pa.decimal128(5, 1), "1.25"),
        ([Decimal("1.20"), Decimal("10.00")], pa.decimal128(5, 2), pa.decimal128(3, 2), "10.00"),
        ([Decimal("1.00"), Decimal("1.50")], pa.decimal128(5, 2), pa.int32(), "1.50"),
        ([Decimal("0.1"), Decimal("12345678901234567.8")], pa.decimal128(20, 1), pa.float64(), "567.8"),
        ([Decimal("0.1"), Decimal("0.123456789")], pa.decimal128(20, 9), pa.float32(), "0.123456789"),
        ([Decimal(1), Decimal(2**53 + 1)], pa.decimal128(38, 0), pa.float64(), str(2**53 + 1)),
        ([1000, 1001], pa.timestamp("ns"), pa.timestamp("us"), None),
        ([1, 2**60], pa.timestamp("s"), pa.timestamp("us"), str(2**60)),
        ([[1], [2, 300]], pa.list_(pa.int64()), pa.list_(pa.int8()), "[2, 300]"),
        ([{"a": 1}, {"a": 300}], pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int8())]), "{'a': 300}"),
    ],
    ids=str,
)
def test_a_value_that_would_change_is_named_with_its_row(
    values: list[Any], given_type: pa.DataType, data_type: pa.DataType, shown: str | None
) -> None:
    array = pa.array(values, given_type) if not pa.types.is_timestamp(given_type) else pa.array(values).cast(given_type)
    if given_type == data_type:
        assert cast(array, data_type) is array or cast(array, data_type) == array
        return
    table = pa.table({"c": pa.chunked_array([array[:1], array[:1], array])})
    with pytest.raises(InvalidArgument, match=r"^Column 'c' has .* in row 3: ") as caught:
        cast_batch(table, pa.schema([("c", data_type)]))
    assert shown is None or shown in str(caught.value)


@given(st.lists(st.none() | st.decimals(places=4, min_value=-(10**11) + 1, max_value=10**11 - 1), min_size=1))
def test_decimals_of_few_digits_become_the_doubles_of_the_same_text(values: list[Decimal | None]) -> None:
    doubles = cast(pa.array(values, pa.decimal128(20, 4)), pa.float64()).to_pylist()
    assert doubles == [None if value is None else float(value) for value in values]


def test_decimals_that_a_float_holds_exactly() -> None:
    exact = [Decimal(2**100), Decimal("0"), None]
    assert cast(pa.array(exact, pa.decimal128(38, 0)), pa.float64()).to_pylist() == [2.0**100, 0.0, None]
    # Many digits that a scale asks for are none of the value's.
    wide = cast(pa.array([Decimal("0.1"), Decimal("6.5")], pa.decimal256(38, 20)), pa.float64())
    assert wide.to_pylist() == [0.1, 6.5]
    assert cast(pa.array([Decimal("0.1")]), pa.float32()) == pa.array([0.1], pa.float32())


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=200))
def test_the_first_offending_row_is_found(values: list[int]) -> None:
    wrong = [row for row, value in enumerate(values) if not -128 <= value <= 127]
    if not wrong:
        assert cast(pa.array(values), pa.int8()).to_pylist() == values
        return
    with pytest.raises(InvalidArgument, match=f"has {values[wrong[0]]} in row {wrong[0]}:"):
        cast(pa.array(values), pa.int8())


def test_null_in_a_column_that_is_not_null() -> None:
    with pytest.raises(InvalidArgument, match="'c' has None in row 2: the column is NOT NULL"):
        cast(pa.array([1, 2, None, None]), pa.int64(), nullable=False)
    strict = pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.int8())])
    loose = pa.struct([("a", pa.int8()), ("b", pa.int8())])
    assert cast(pa.array([None, {"a": 1, "b": None}], loose), strict).to_pylist() == [None, {"a": 1, "b": None}]
    with pytest.raises(InvalidArgument, match="row 1: its field 'a' is NOT NULL"):
        cast(pa.array([None, {"a": None, "b": 1}], loose), strict)
    with pytest.raises(InvalidArgument, match="row 1: its elements are NOT NULL"):
        cast(pa.array([[1], [None]]), pa.list_(pa.field("element", pa.int64(), nullable=False)))
    with pytest.raises(InvalidArgument, match="row 1: its map values are NOT NULL"):
        cast(
            pa.array([[], [("k", None)]], pa.map_(pa.string(), pa.int8())),
            pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False)),
        )


def test_struct_children_are_matched_by_name() -> None:
    given_type = pa.struct([("b", pa.large_string()), ("a", pa.int64())])
    expected = pa.struct([("a", pa.int8()), ("b", pa.string()), ("c", pa.date32())])
    array = pa.array([{"b": "x", "a": 1}, None, {"b": None, "a": 2}], given_type)
    assert cast(array.slice(1), expected).to_pylist() == [None, {"a": 2, "b": None, "c": None}]


def test_columns_are_matched_by_name_reordered_and_filled() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), ("x", pa.float64())])
    table = pa.table({"x": [1.0], "id": pa.array([7], pa.int32())})
    result = cast_batch(table, schema, fill_missing=True)
    assert result.schema.equals(schema)
    assert result.to_pylist() == [{"id": 7, "name": None, "x": 1.0}]
    assert isinstance(cast_batch(table.to_batches()[0], schema, fill_missing=True), pa.RecordBatch)
    with pytest.raises(
        InvalidArgument, match="name: expected string, got nothing: add the column, or set fill_missing"
    ):
        cast_batch(table, schema)


def test_all_schema_problems_are_shown_together() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("price", pa.decimal128(10, 2)),
            ("at", INSTANT),
            ("local", pa.timestamp("us")),
            ("who", pa.struct([("name", pa.string())])),
            ("twice", pa.int8()),
        ]
    )
    given_schema = pa.schema(
        [
            ("price", pa.string()),
            ("at", pa.timestamp("us")),
            ("local", INSTANT),
            ("who", pa.struct([("nick", pa.string())])),
            ("twice", pa.int8()),
            ("twice", pa.int8()),
            ("extra", pa.int8()),
        ]
    )
    with pytest.raises(InvalidArgument) as caught:
        check_schema(given_schema, schema)
    lines = str(caught.value).splitlines()
    assert lines[0] == "The input does not fit the table's schema in 7 columns:"
    for part in (
        "  id: expected int64 NOT NULL, got nothing: add the column; it is NOT NULL",
        "  price: expected decimal128(10, 2), got string: text is not parsed; cast it yourself",
        "  at: expected timestamp[us, tz=UTC], got timestamp[us]: "
        "say which zone it is in with pyarrow.compute.assume_timezone",
        "  local: expected timestamp[us], got timestamp[us, tz=UTC]: "
        "drop the zone with pyarrow.compute.local_timestamp",
        "  twice: expected one column, got 2 columns of this name: rename or drop all but one",
        "  extra: expected no such column, got int8: drop it, or add it to the table",
    ):
        assert part in lines
    assert any(line.endswith("drop the field 'nick', which the table does not have") for line in lines)


@pytest.mark.parametrize(
    ("given_type", "data_type"),
    [
        (pa.string(), pa.int64()),
        (pa.string(), pa.date32()),
        (pa.string(), pa.binary()),
        (pa.binary(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.int8(), pa.bool_()),
        (pa.int64(), pa.timestamp("us")),
        (pa.date32(), pa.timestamp("us")),
        (pa.time64("us"), pa.int64()),
        (pa.list_(pa.string()), pa.list_(pa.int8())),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.int8(), pa.int8())),
        (pa.struct([("a", pa.int8())]), pa.list_(pa.int8())),
        (pa.bool8(), pa.int8()),
    ],
    ids=str,
)
def test_types_that_mean_something_else_are_refused(given_type: pa.DataType, data_type: pa.DataType) -> None:
    with pytest.raises(InvalidArgument, match="c: expected"):
        check_schema(pa.schema([("c", given_type)]), pa.schema([("c", data_type)]))


def test_an_unknown_column_names_the_nearest_one() -> None:
    table = pa.schema([("id", pa.int64()), ("price", pa.int64()), ("prices", pa.int64())])
    with pytest.raises(InvalidArgument) as caught:
        check_schema(pa.schema([("id", pa.int64()), ("pricee", pa.int64()), ("zz", pa.int64())]), table)
    assert str(caught.value).splitlines()[1:] == [
        "  pricee: expected no such column, got int64: drop it, or add it to the table; or is 'price' meant?",
        "  zz: expected no such column, got int64: drop it, or add it to the table",
        "  prices: expected int64, got nothing: add the column, or set fill_missing for NULL",
    ]
    # A column that is there under its own name is not the one that was meant.
    with pytest.raises(InvalidArgument) as caught:
        check_schema(pa.schema([("price", pa.int64()), ("pricee", pa.int64())]), table)
    assert "or is 'prices' meant?" in str(caught.value)


def test_long_differences_are_cut() -> None:
    many = pa.schema([(f"c{i}", pa.int8()) for i in range(5000)])
    with pytest.raises(InvalidArgument) as caught:
        check_schema(many, pa.schema([("x", pa.int8())]))
    assert str(caught.value).endswith("and 4951 more columns")


@pytest.mark.parametrize("in_list", [False, True])
def test_text_that_is_not_utf8_is_refused(in_list: bool) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2, 4], np.int32))
    bad: pa.Array = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab\xc3\x28")])
    data_type = pa.string()
    if in_list:
        bad = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), bad)
        data_type = pa.list_(pa.string())
    with pytest.raises(InvalidArgument, match="in row 2: the text is not valid UTF-8"):
        cast(bad, data_type)


def test_a_null_inside_of_a_dictionary_is_null() -> None:
    # The array itself counts no NULL: its indices are all there.
    given = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    assert given.null_count == 0
    assert cast(given, pa.string()).to_pylist() == ["a", None]
    with pytest.raises(InvalidArgument, match="Column 'c' has None in row 1: the column is NOT NULL"):
        cast(given, pa.string(), nullable=False)
    required = pa.field("x", pa.string(), nullable=False)
    for array, data_type, what in (
        (pa.StructArray.from_arrays([given], ["x"]), pa.struct([required]), "its field 'x' is NOT NULL"),
        (
            pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), given),
            pa.list_(required),
            "its elements are NOT NULL",
        ),
        (
            pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["k", "l"]), given),
            pa.map_(pa.string(), required.with_name("value")),
            "its map values are NOT NULL",
        ),
    ):
        with pytest.raises(InvalidArgument, match=what):
            cast(array, data_type)


def test_columns_that_fit_are_not_copied() -> None:
    array = pa.array(["a", "b"])
    assert cast(array, pa.string()).buffers()[2].address == array.buffers()[2].address


def test_a_column_of_kinds_is_for_write() -> None:
    with pytest.raises(
        InvalidArgument, match=r"_row_kind: expected no such column, .* give rows with kinds to write\(\)"
    ):
        cast_batch(pa.table({"id": [1], "_row_kind": ["-D"]}), pa.schema([("id", pa.int64())]))


def test_a_column_in_other_case_is_recognized() -> None:
    with pytest.raises(InvalidArgument, match=r"ID: expected no such column, .* or is 'id' meant\?"):
        cast_batch(pa.table({"ID": [1]}), pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (dt.date(2024, 5, 1), "'2024-05-01'"),
        (dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC), "'2024-05-01 12:00:00+00:00'"),
        (Decimal("1.50"), "1.50"),
        ("a'b", '"a\'b"'),
        (None, "None"),
    ],
)
def test_values_are_shown_as_people_write_them(value: object, shown: str) -> None:
    assert show_value(pa.scalar(value)) == shown


@pytest.mark.parametrize(
    ("value", "data_type", "kept"),
    [
        (1.25, pa.decimal128(10, 2), "1.25"),
        (0.1, pa.decimal128(3, 1), "0.1"),
        (-0.0, pa.decimal128(3, 1), "0.0"),
        (1e-7, pa.decimal128(10, 7), "0.0000001"),
        (1e16, pa.decimal128(19, 2), "10000000000000000.00"),
        (9.999e37, pa.decimal128(38, 0), "99990000000000000000000000000000000000"),
        (123456789.12, pa.decimal128(11, 2), "123456789.12"),
        (None, pa.decimal128(10, 2), None),
    ],
)
def test_a_float_becomes_the_decimal_that_it_is_written_as(
    value: float | None, data_type: pa.DataType, kept: str | None
) -> None:
    wanted = pa.array([None if kept is None else Decimal(kept)], data_type)
    assert cast(pa.array([value], pa.float64()), data_type).equals(wanted)


def test_a_short_float_becomes_the_decimal_that_it_is_written_as() -> None:
    assert cast(pa.array([0.1, 1.5], pa.float32()), pa.decimal128(3, 1)).to_pylist() == [Decimal("0.1"), Decimal("1.5")]
    nested = cast(pa.array([[1.25, None]]), pa.list_(pa.decimal128(4, 2)))
    assert nested.to_pylist() == [[Decimal("1.25"), None]]


@pytest.mark.parametrize(
    ("value", "data_type", "why"),
    [
        (
            1.255,
            pa.decimal128(10, 2),
            r"1\.255 in row 1: decimal128\(10, 2\) keeps 8 digits before the point and 2 behind it; round it",
        ),
        (0.1 + 0.2, pa.decimal128(10, 2), "2 behind it; round it"),
        (1e-7, pa.decimal128(10, 6), "6 behind it; round it"),
        (100.5, pa.decimal128(3, 1), "100.5 in row 1"),
        (1e16, pa.decimal128(17, 2), "1e\\+16 in row 1"),
        (1e38, pa.decimal128(38, 0), "has no such number"),
        (1e308, pa.decimal128(38, 0), "has no such number"),
        (math.inf, pa.decimal128(10, 2), "inf in row 1: .*has no such number; write NULL"),
        (-math.inf, pa.decimal128(10, 2), "has no such number"),
        (math.nan, pa.decimal128(10, 2), "nan in row 1: .*write NULL"),
    ],
)
def test_a_float_that_would_lose_digits_is_refused(value: float, data_type: pa.DataType, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as error:
        cast(pa.array([1.0, value]), data_type)
    assert error.value.metadata == {"column": "c", "row": "1"}


@given(st.decimals(min_value=-(10**8), max_value=10**8, places=6))
def test_decimals_of_fifteen_digits_come_back_from_floats(value: Decimal) -> None:
    data_type = pa.decimal128(20, 6)
    assert cast(pa.array([float(value)]), data_type).to_pylist() == [value]
