"""Files of text for `lakelog insert`: every type comes back from our own JSON, errors name line and column."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.cli.input import text_file
from lakelog.cli.input.text_file import open_csv, open_json
from lakelog.cli.output.json_rows import to_json_lines
from lakelog.errors import InvalidArgument
from lakelog.records import blocks

LOCAL = datetime(2013, 1, 1, 10, 0, 0, 5, UTC).replace(tzinfo=None)
INSTANT = pa.timestamp("us", tz="UTC")
Open = Callable[..., pa.RecordBatchReader]


def read(open_file: Open, text: str | bytes, schema: pa.Schema) -> pa.Table:
    return open_file(
        io.BytesIO(text if isinstance(text, bytes) else text.encode(errors="surrogateescape")), "f", schema
    ).read_all()


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
        (pa.date32(), "5", "has '5', but needs a date as 2013-01-31 (DATE)"),
        (pa.date32(), '"2013-02-30"', "needs a date"),
        (pa.int8(), "128", "has '128', but needs a whole number (TINYINT)"),
        (pa.int32(), "1.5", "needs a whole number"),
        (pa.int32(), "1e999999999", "needs a whole number"),
        (pa.int32(), '"1.5"', "needs a whole number"),
        (pa.int32(), "true", "has 'true', but needs a whole number"),
        (pa.bool_(), "1", "has 1, but needs true or false (BOOLEAN)"),
        (pa.int32(), "[1]", "has [1], but needs a single value (INT)"),
        (pa.map_(pa.int32(), pa.int8()), "[[1]]", "needs an object, or a list of [key, value]"),
        (pa.map_(pa.int32(), pa.int8()), "[[null, 1]]", "needs an object, or a list of [key, value]"),
        (pa.map_(pa.string(), pa.int8()), '{"a": 1, "a": 2}', "needs an object, or a list of [key, value]"),
        (pa.list_(pa.float32()), "[1e39]", "needs a list (ARRAY<FLOAT>)"),
        (pa.float32(), "1e39", "needs a number"),
        (pa.float64(), "1e999", "needs a number"),
        (pa.decimal128(4, 2), "1.125", "needs a number that fits DECIMAL(4,2)"),
        (pa.string(), "7", "needs a text"),
        (pa.string(), '"\\ud800x"', 'has "\\ud800x", but needs a text'),
        (pa.binary(), '"tea!"', "needs bytes in base64 (BINARY)"),
        (INSTANT, '"2013-01-01T10:00:00"', "needs a time with its offset, as"),
        (pa.timestamp("us"), '"2013-01-01T10:00:00Z"', "needs a time without zone or offset, as"),
        (pa.timestamp("us"), '"300000-01-01T10:00:00"', "needs a time without zone or offset, as"),
        (pa.list_(pa.int32()), '"12"', "needs a list"),
        (pa.struct({"x": pa.int32()}), '{"y": 1}', "needs an object (STRUCT<x: INT>)"),
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
        ('{"\\ud800": 1}', "the table has no column for its field '\\ud800'; it has v"),
        ('{"w": 1}', "the table has no column for its field 'w'; it has v"),
        ("[1]", 'it is not one JSON object in one line, such as {"id": 1}'),
        ('{"v": 1', "it is not one JSON object in one line"),
        ('{"v": 1,}', "it is not JSON: "),
        ('{"v": nul}', "it is not JSON: "),
        ('{"v": "\udcff"}', "it is not valid UTF-8 text"),
        ('{"v": NaN}', "column 'v' has 'NaN', but needs a whole number (BIGINT)"),
        ('{"v": 1, "v": 2}', "it is not JSON: the field 'v' stands there twice"),
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
        ('id,item\n1,"two\nlines"\n\nx,tea\n', "f, line 5: column 'id' has 'x', but needs a whole number (BIGINT)."),
        ("id,item\n1,tea\n2,cup,3\n", "f, line 3: it has 3 values, but there are 2 columns."),
        ("\n\nitem,id\ntea,1\ntea,1.5\n", "f, line 5: column 'id' has '1.5', but needs a whole number (BIGINT)."),
        ("id,item\n1,tea\n2,\udcff\n", "f, line 3: it is not valid UTF-8 text."),
        ("\udcff,item\n", "f: its header is not text in utf-8."),
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
            "'2024-05-01', but needs a time with its offset, as 2013-01-31T23:59:59Z or +02:00 (TIMESTAMP).",
        ),
        (
            None,
            "2024-05-01T12:00Z",
            "'2024-05-01T12:00Z', but needs a time without zone or offset, as 2013-01-31 23:59:59.123456 (TIMESTAMP_",
        ),
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
    reason = f"column 'price' has '{value}', but needs a number that fits DECIMAL(4,2)."
    assert refused.value.message == f"f, line 2: {reason}"


@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_blocks_of_any_size_give_the_same_rows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
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
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 16)
    monkeypatch.setattr(text_file, "_OPTIONS", replace(text_file._OPTIONS, max_record_bytes=32))
    text = "id,item\n" + "".join(f'{i},{i}" pipe\n' for i in range(9))
    assert read(open_csv, text, SHOP)["id"].to_pylist() == list(range(9))


def test_a_fault_beside_quotes_within_values_is_reported_with_its_line() -> None:
    lines = [f'{i},{i}" pipe' for i in range(1, 9)]
    lines[5] = 'x,6" pipe'
    with pytest.raises(InvalidArgument, match=r"^f, line 7: column 'id' has 'x', but needs a whole number"):
        read(open_csv, "id,item\n" + "\n".join(lines), SHOP)


def test_text_in_csv_is_taken_as_pipelines_take_it() -> None:
    schema = pa.schema(
        {
            "i": pa.int64(),
            "f": pa.float64(),
            "d": pa.decimal128(5, 2),
            "b": pa.bool_(),
            "day": pa.date32(),
            "at": INSTANT,
        }
    )
    text = (
        'i,f,d,b,day,at\n+5, 1.5 ,+1.5,tRUE," 2013-01-01","2013-01-01 10+02 "\n"","","","","",""\n0x1F,-inf,1e2,0,,\n'
    )
    rows = read(open_csv, text, schema).to_pylist()
    assert rows[0] == {
        "i": 5,
        "f": 1.5,
        "d": Decimal("1.50"),
        "b": True,
        "day": date(2013, 1, 1),
        "at": datetime(2013, 1, 1, 8, tzinfo=UTC),
    }
    assert set(rows[1].values()) == {None}
    assert (rows[2]["i"], rows[2]["f"], rows[2]["d"], rows[2]["b"]) == (31, float("-inf"), Decimal(100), False)


def test_bytes_in_csv_are_taken_as_they_are() -> None:
    schema = pa.schema({"id": pa.int64(), "raw": pa.binary()})
    for first in (b"1", b"+1"):
        text = b"id,raw\n" + first + b',a\xff\n2,"b,"\n3,\n'
        assert read(open_csv, text, schema)["raw"].to_pylist() == [b"a\xff", b"b,", None]


@pytest.mark.parametrize(("data_type", "value"), [(pa.float64(), "1e999"), (pa.float32(), "1e39")])
def test_a_number_in_csv_beyond_its_type_is_not_taken_for_infinity(data_type: pa.DataType, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"line 3: column 'v' has '{value}', but needs a number"):
        read(open_csv, f"v\ninf\n{value}\n", pa.schema({"v": data_type}))


def test_text_in_json_is_taken_as_pipelines_take_it() -> None:
    schema = pa.schema({"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "l": pa.list_(pa.int8())})
    text = (
        '{"i": "1", "f": NaN, "b": "1", "l": ["2", 3.0]}\n{"i": " +2 ", "f": -Infinity, "b": true, "l": []}\n'
        '{"i": 3.0, "f": "1.5", "b": null, "l": null}\n'
    )
    rows = read(open_json, text, schema).to_pylist()
    assert str(rows[0].pop("f")) == "nan"
    assert rows == [
        {"i": 1, "b": True, "l": [2, 3]},
        {"i": 2, "f": float("-inf"), "b": True, "l": []},
        {"i": 3, "f": 1.5, "b": None, "l": None},
    ]


def test_maps_are_objects_or_lists_of_entries() -> None:
    schema = pa.schema({"m": pa.map_(pa.date32(), pa.int8())})
    text = (
        '{"m": [["2013-01-01", 1], {"key": "2013-01-02", "value": 2}]}\n{"m": null}\n'
        '{"m": {"2013-01-03": 3}}\n{"m": {}}\n{"m": []}\n'
    )
    assert read(open_json, text, schema)["m"].to_pylist() == [
        [(date(2013, 1, 1), 1), (date(2013, 1, 2), 2)],
        None,
        [(date(2013, 1, 3), 3)],
        [],
        [],
    ]


def test_records_that_are_read_in_different_ways_keep_their_order() -> None:
    ids = list(range(10_000))
    lines = "".join(f'{{"id": {f"{i}.0" if i % 2_500 == 7 else i}, "item": "é"}}\n' for i in ids)
    assert read(open_json, lines, SHOP)["id"].to_pylist() == ids


def test_a_name_that_comes_twice_in_a_header_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^f: its header names the column 'id' twice\.$"):
        read(open_csv, "id,id\n1,2\n", SHOP)
