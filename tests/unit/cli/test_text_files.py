"""Files of text for `lakelog insert`: every type comes back from our own JSON, errors name line and column."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.cli.input import text_blocks
from lakelog.cli.input.csv_file import open_csv
from lakelog.cli.input.json_file import open_json
from lakelog.cli.output.json_rows import to_json_lines
from lakelog.errors import InvalidArgument

LOCAL = datetime(2013, 1, 1, 10, 0, 0, 5, UTC).replace(tzinfo=None)
INSTANT = pa.timestamp("us", tz="UTC")
Open = Callable[..., pa.RecordBatchReader]


def read(open_file: Open, text: str | bytes, schema: pa.Schema) -> pa.Table:
    return open_file(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "f", schema).read_all()


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.int8(), [-128, 127]),
        (pa.int64(), [-(2**63), 2**63 - 1, 9_007_199_254_740_993]),
        (pa.float32(), [1.5, 0.1, 3.4e38, float("-inf")]),
        (pa.float64(), [0.1, -0.0, 1e300, 5e-324, float("inf")]),
        (pa.decimal128(38, 3), [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.001")]),
        (pa.decimal128(10, 7), [Decimal("0.0000001")]),
        (pa.string(), ["tea", "", 'a "b"\n\\', "\u00e9\U0001f600"]),
        (pa.binary(), [b"", b"\x00\xff", b"tea!"]),
        (pa.date32(), [date(2013, 1, 31), date(1, 1, 1), pa.scalar(3_000_000, pa.date32())]),
        (INSTANT, [datetime(2013, 1, 1, 10, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]),
        (INSTANT, [pa.scalar(260_000_000_000_000_000, INSTANT)]),
        (pa.date32(), [pa.scalar(days, pa.date32()) for days in (5_000_000, -719_529, 2**31 - 1)]),
        (pa.timestamp("us"), [pa.scalar(us, pa.timestamp("us")) for us in (-62_167_219_200_000_001, 2**63 - 1)]),
        (pa.timestamp("us"), [LOCAL]),
        (pa.list_(pa.date32()), [[date(2013, 1, 1), None], []]),
        (pa.map_(pa.string(), pa.binary()), [[("x", b"\xff"), ("y", None)], []]),
        (pa.map_(pa.int32(), pa.decimal128(3, 1)), [[(1, Decimal("0.5"))]]),
        (pa.struct({"x": pa.float64(), "at": pa.timestamp("us")}), [{"x": -0.0, "at": LOCAL}, {"x": None, "at": None}]),
    ],
)
def test_every_type_comes_back_from_our_own_json(data_type: pa.DataType, values: list[object]) -> None:
    column = pa.concat_arrays([pa.array([value], data_type) for value in (None, *values)])
    table = pa.table({"id": pa.array(range(len(column)), pa.int64()), "v": column})
    text = "".join(to_json_lines(batch) for batch in table.to_batches())
    back = read(open_json, text, table.schema)
    assert back.equals(table)
    # Also the sign of zero, which compares as equal.
    assert "".join(to_json_lines(batch) for batch in back.combine_chunks().to_batches()) == text


def test_not_a_number_comes_back() -> None:
    back = read(open_json, '{"v": "NaN"}\n', pa.schema({"v": pa.float64()}))
    assert str(back["v"][0]) == "nan"


def test_times_may_have_an_offset_and_decimals_be_numbers() -> None:
    schema = pa.schema({"t": INSTANT, "d": pa.decimal128(5, 2), "i": pa.int32(), "b": pa.binary()})
    text = (
        '{"t": "2013-01-01T12:00:00+02:00", "d": 1.5, "i": 3e2, "b": null}\n\n'
        '{"t": "2013-01-01 10:00Z", "d": "2", "i": null, "b": null}'
    )
    moment = datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert read(open_json, text, schema).to_pylist() == [
        {"t": moment, "d": Decimal("1.50"), "i": 300, "b": None},
        {"t": moment, "d": Decimal("2.00"), "i": None, "b": None},
    ]


@pytest.mark.parametrize(
    ("data_type", "value", "needed"),
    [
        (pa.date32(), "5", 'has 5, but needs a date as "2013-01-31" (DATE)'),
        (pa.date32(), '"2013-02-30"', "needs a date"),
        (pa.int8(), "128", "has 128, but needs a whole number (TINYINT)"),
        (pa.int32(), "1.5", "needs a whole number"),
        (pa.int32(), "1e999999999", "needs a whole number"),
        (pa.int32(), '"1"', "needs a whole number"),
        (pa.float32(), "1e39", "needs a number"),
        (pa.float64(), "1e999", "needs a number"),
        (pa.decimal128(4, 2), "1.125", "needs a number that fits DECIMAL(4,2)"),
        (pa.string(), "7", "needs a text"),
        (pa.binary(), '"tea!"', "needs bytes in base64 (BINARY)"),
        (INSTANT, '"2013-01-01T10:00:00"', "needs a time as"),
        (pa.timestamp("us"), '"2013-01-01T10:00:00Z"', "needs a time as"),
        (pa.timestamp("us"), '"300000-01-01T10:00:00"', "needs a time as"),
        (pa.list_(pa.int32()), '"12"', "needs a list"),
        (pa.struct({"x": pa.int32()}), '{"y": 1}', "without a field 'y'"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_line_and_column(
    data_type: pa.DataType, value: str, needed: str
) -> None:
    text = f'{{"v": null}}\n\n{{"v": null}}\n{{"v": {value}}}\n{{"v": null}}\n'
    with pytest.raises(InvalidArgument) as refused:
        read(open_json, text, pa.schema({"v": data_type}))
    assert refused.value.message.startswith("f, line 4: column 'v' has ")
    assert needed in refused.value.message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"w": 1}', "the table has no column 'w'; it has v"),
        ("[1]", "it is no JSON object"),
        ('{"v": 1', "it is no JSON object in one line"),
        ('{"v": NaN}', 'NaN is no JSON; write it as "NaN"'),
        ('{"v": 1, "v": 2}', "the key 'v' stands in it twice"),
    ],
)
def test_a_line_that_is_no_row_is_reported(line: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(open_json, f'{{"v": 1}}\n{line}\n', pa.schema({"v": pa.int64()}))
    assert refused.value.message.startswith(f"f, line 2: {reason}")


SHOP = pa.schema({"id": pa.int64(), "item": pa.string()})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id,item\n1,"two\nlines"\n\nx,tea\n', "f, line 5: column 'id' has 'x', but needs a value of BIGINT."),
        ("id,item\n1,tea\n2,cup,3\n", "f, line 3: it has 3 values, but the header names 2 columns."),
        ("\n\nitem,id\ntea,1\ntea,1.5\n", "f, line 5: column 'id' has '1.5', but needs a value of BIGINT."),
        ("\n", "f is empty: a CSV file begins with a line that names its columns."),
    ],
)
def test_what_does_not_fit_in_a_csv_file_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(open_csv, text, SHOP)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("zone", "value", "reason"),
    [
        (
            "UTC",
            "2024-05-01",
            "'2024-05-01', but needs a value of TIMESTAMP: add its offset, as in 2024-05-01T12:00:00Z",
        ),
        (None, "2024-05-01T12:00Z", "'2024-05-01T12:00Z', but needs a value of TIMESTAMP_NTZ: leave its offset out."),
    ],
)
def test_a_time_with_an_offset_too_few_or_too_many_is_refused_with_the_remedy(
    zone: str | None, value: str, reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=r"f, line 2: column 'at' has ") as refused:
        read(open_csv, f"at\n{value}\n", pa.schema({"at": pa.timestamp("us", zone)}))
    assert reason in refused.value.message


@pytest.mark.parametrize("value", ["x", "1.234", "123.45"])
def test_a_decimal_that_does_not_fit_is_reported_with_its_column(value: str) -> None:
    schema = pa.schema({"id": pa.int64(), "price": pa.decimal128(4, 2)})
    with pytest.raises(InvalidArgument) as refused:
        read(open_csv, f"id,price\n1,{value}\n", schema)
    assert refused.value.message.startswith("f, line 2: column 'price' needs a value of DECIMAL(4,2): ")


@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_blocks_of_any_size_give_the_same_rows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", size)
    csv = 'id,item\r\n1,"a ""b""\nc, d"\r\n2,\n\n3,""\n4,plain'
    assert read(open_csv, csv, SHOP).to_pylist() == [
        {"id": 1, "item": 'a "b"\nc, d'},
        {"id": 2, "item": None},
        {"id": 3, "item": ""},
        {"id": 4, "item": "plain"},
    ]
    lines = "".join(f'{{"id": {i}, "item": "é"}}\n' for i in range(20))
    assert read(open_json, lines, SHOP).to_pylist() == [{"id": i, "item": "é"} for i in range(20)]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert read(open_csv, b"\xef\xbb\xbfid,item\n1,tea\n", SHOP).to_pylist() == [{"id": 1, "item": "tea"}]
    assert read(open_json, b'\xef\xbb\xbf{"id": 1, "item": null}\n', SHOP)["id"].to_pylist() == [1]


def test_a_quote_within_a_value_takes_no_other_lines_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 16)
    monkeypatch.setattr(text_blocks, "MAX_RECORD_BYTES", 32)
    text = "id,item\n" + "".join(f'{i},{i}" pipe\n' for i in range(9))
    assert read(open_csv, text, SHOP)["id"].to_pylist() == list(range(9))
