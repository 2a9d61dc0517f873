"""From bytes to rows: each format, and each kind of bad record with its line and reason."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.records import blocks
from lakelog.records.text_options import TextOptions
from writer.files.tasks import TakenFile
from writer.pipeline.columns import ColumnSource
from writer.pipeline.spec import Format, Mode, RowKindSource
from writer.records.coercion import Coercion, check_csv
from writer.records.tasks import ReadTask, read_file

from .cases import FIELDS, UTC, Case, places


def test_csv_values(tmp_path: Path) -> None:
    rows, bad = Case(tmp_path, Format.CSV).read(
        b"id,name,price,day,at,local,ok,ratio,small\n"
        b"1,a,1.50,2013-01-31,2013-01-31T10:00:00+01:00,2013-01-31 10:00:00.5,TRUE,1e3,-128\n"
        b' +2 ,"q ""x"", y", 2 ,,,,0,nan,\n'
        b'3,"",,,,,,-inf,\n'
    )
    assert bad == []
    assert rows[0] == {
        "id": 1,
        "name": "a",
        "price": decimal.Decimal("1.50"),
        "day": dt.date(2013, 1, 31),
        "at": dt.datetime(2013, 1, 31, 9, tzinfo=UTC),
        "local": dt.datetime(2013, 1, 31, 10, 0, 0, 500_000),  # noqa: DTZ001
        "ok": True,
        "ratio": 1000.0,
        "small": -128,
    }
    assert rows[1]["name"] == 'q "x", y'
    assert (rows[1]["id"], rows[1]["ok"]) == (2, False)
    assert rows[1]["ratio"] != rows[1]["ratio"]
    assert rows[2] == {"id": 3, "name": "", "ratio": float("-inf")}


@pytest.mark.parametrize(
    ("column", "text", "part"),
    [
        ("id", "12x", "'12x', but needs a whole number (BIGINT)"),
        ("id", "1.0", "'1.0'"),
        ("id", "0x1F", "'0x1F'"),
        ("id", "9223372036854775808", "BIGINT"),
        ("id", "", "no value, but needs one: it is NOT NULL"),
        ("small", "128", "'128', but needs a whole number (TINYINT)"),
        ("price", "1.555", "DECIMAL(8,2)"),
        ("price", "12345678", "DECIMAL(8,2)"),
        ("price", "nan", "DECIMAL(8,2)"),
        ("day", "2013-02-29", "2013-01-31"),
        ("day", "31.01.2013", "'31.01.2013'"),
        ("at", "2013-01-31T10:00:00", "source.options.timezone"),
        ("at", "2013-01-31T10:00:00.1234567Z", "'2013-01-31T10:00:00.1234567Z'"),
        ("local", "2013-01-31T10:00:00Z", "without zone"),
        ("ok", "perhaps", "true, 1, false, 0"),
        ("ratio", "1e999", "a number (DOUBLE)"),
        ("ratio", "one", "'one'"),
    ],
)
def test_csv_bad_values(tmp_path: Path, column: str, text: str, part: str) -> None:
    header = "id,name" if column == "id" else f"id,{column}"
    line = f"{text},x" if column == "id" else f"7,{text}"
    good = "5,x" if column == "id" else "5,"
    rows, bad = Case(tmp_path, Format.CSV).read(f"{header}\n{good}\n{line}\n{good}\n".encode())
    assert [row["id"] for row in rows] == [5, 5]
    assert places(bad) == [(3, column)]
    assert part in bad[0]["reason"]
    assert bad[0]["raw"] == line
    assert (bad[0]["pipeline"], bad[0]["batch_id"], bad[0]["file"]) == ("p", 3, "file")


def test_csv_bad_records_keep_their_lines(tmp_path: Path) -> None:
    rows, bad = Case(tmp_path, Format.CSV).read(
        b'\xef\xbb\xbfid,name\r\n1,a\r\n\r\n2\r\n3,b,c\r\n4,"d\r\n5,e\r\n6,\xff\r\n7,\xc5\xbc\r\nx,f\r\n8,g'
    )
    assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (5, "e"), (7, "ż"), (8, "g")]
    assert places(bad) == [(4, None), (5, None), (6, None), (8, None), (10, "id")]
    reasons = [letter["reason"] for letter in bad]
    assert "1 values, but there are 2 columns" in reasons[0]
    assert "3 values" in reasons[1]
    assert "not closed" in reasons[2]
    assert "UTF-8" in reasons[3]
    assert base64.b64decode(bad[3]["raw_base64"]) == b"6,\xff"


def test_quotes_that_do_not_pair_up_swallow_no_other_record(tmp_path: Path) -> None:
    rows, bad = Case(tmp_path, Format.CSV).read(b'id,name\n1,a\n"2"b","c\n3,d\n4,"e\n5,"f\n6,g\n')
    assert [row["id"] for row in rows] == [1, 3, 6]
    assert [line for line, _ in places(bad)] == [3, 5, 6]


def test_records_over_several_lines_and_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 16)
    text = TextOptions(multiline=True)
    lines = "".join(f'{i},"a\nb{i}"\n' for i in range(50))
    rows, bad = Case(tmp_path, Format.CSV, text).read(f"id,name\n{lines}x,z\n".encode())
    assert [(row["id"], row["name"]) for row in rows] == [(i, f"a\nb{i}") for i in range(50)]
    assert places(bad) == [(102, "id")]


def test_csv_dialects(tmp_path: Path) -> None:
    text = TextOptions(header=False, names=("id", "name", "ok"), delimiter=";", quote="'", null_values=("NA",))
    case = Case(tmp_path, Format.CSV, TextOptions(**{**vars(text), "true_values": ("ja",), "false_values": ("nein",)}))
    rows, bad = case.read(b"1;'a;b';ja\n2;NA;NEIN\n3;'NA';\n")
    assert bad == []
    assert rows == [{"id": 1, "name": "a;b", "ok": True}, {"id": 2, "ok": False}, {"id": 3, "name": "NA"}]


def test_formats_of_times(tmp_path: Path) -> None:
    columns = {
        "day": ColumnSource("d", ("%d/%m/%Y", "%Y%m%d")),
        "at": ColumnSource("at", ("epoch_ms", "%d.%m.%Y %H:%M %z")),
    }
    rows, bad = Case(tmp_path, Format.CSV, columns=columns).read(
        b"id,d,at\n1,1/3/2013,1359594600123\n2,20130228,31.01.2013 02:30 +0100\n"
        b"3,31/02/2013,\n4,,31.02.2013 02:30 +0100\n"
    )
    assert rows == [
        {"id": 1, "day": dt.date(2013, 3, 1), "at": dt.datetime(2013, 1, 31, 1, 10, 0, 123_000, tzinfo=UTC)},
        {"id": 2, "day": dt.date(2013, 2, 28), "at": dt.datetime(2013, 1, 31, 1, 30, tzinfo=UTC)},
    ]
    assert places(bad) == [(4, "day"), (5, "at")]


def test_a_zone_for_times_without_offset(tmp_path: Path) -> None:
    text = TextOptions(timezone="Europe/Berlin")
    rows, bad = Case(tmp_path, Format.CSV, text).read(
        b"id,at\n1,2013-03-31 03:30:00\n2,2013-03-31 03:30:00Z\n3,2013-03-31\n4,2013-03-31 02:30:00\n"
    )
    assert [row["at"] for row in rows] == [
        dt.datetime(2013, 3, 31, 1, 30, tzinfo=UTC),
        dt.datetime(2013, 3, 31, 3, 30, tzinfo=UTC),
        dt.datetime(2013, 3, 30, 23, tzinfo=UTC),
    ]
    assert places(bad) == [(5, "at")]
    assert "exists in Europe/Berlin" in bad[0]["reason"]


def test_json_values_in_order(tmp_path: Path) -> None:
    rows, bad = Case(tmp_path, Format.JSON).read(
        b'{"id":1,"name":"a","price":1.5,"day":"2013-01-31","at":"2013-01-31T10:00:00Z","ok":true,"ratio":1,"small":5}\n'
        b'{"id":"2","ratio":"1.5","price":"2.25","name":"\\u017c"}\n'
        b' {"id":3}\r\n'
        b"\n"
        b'{"name":null,"id":4}'
    )
    assert bad == []
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert rows[0]["price"] == decimal.Decimal("1.50")
    assert rows[1] == {"id": 2, "ratio": 1.5, "price": decimal.Decimal("2.25"), "name": "ż"}


@pytest.mark.parametrize(
    ("line", "column", "part"),
    [
        (b'{"id":1,"extra":1}', None, "no column for its field 'extra'"),
        (b'{"id":1.5}', "id", "'1.5'"),
        (b'{"id":9223372036854775808}', "id", "BIGINT"),
        (b'{"id":1,"small":300}', "small", "TINYINT"),
        (b'{"id":5}{"id":6}', None, "not JSON"),
        (b"[1]", None, "not one JSON object"),
        (b'{"id":', None, "not one JSON object"),
        (b'{"id":1,}', None, "not JSON"),
        (b'{"id":1,"id":2}', None, "twice"),
        (b'{"name":"x"}', "id", "NOT NULL"),
        (b'{"id":1,"name":7}', "name", "has 7, but needs a text"),
        (b'{"id":1,"name":["x"]}', "name", '["x"]'),
        (b'{"id":1,"ok":"maybe"}', "ok", "'maybe'"),
        (b'{"id":1,"price":1.555}', "price", "DECIMAL(8,2)"),
        (b'{"id":1,"at":"2013-02-30T00:00:00Z"}', "at", "2013-02-30"),
        (b'{"id":1,"day":17}', "day", "has '17', but needs a date"),
        (b'{"id":1,"name":"\xff"}', "name", "UTF-8"),
        (b'{"id":true}', "id", "has 'true', but needs a whole number"),
        (b"{" + b'"a":{' * 100_000 + b"}" * 100_001, None, "not JSON"),
    ],
)
def test_json_bad_records(tmp_path: Path, line: bytes, column: str | None, part: str) -> None:
    rows, bad = Case(tmp_path, Format.JSON).read(b'{"id":5}\n' + line + b'\n{"id":6}\n')
    assert [row["id"] for row in rows] == [5, 6]
    assert places(bad) == [(2, column)]
    assert part in bad[0]["reason"]


def test_nested_json(tmp_path: Path) -> None:
    nested = [FIELDS[0], pa.field("tags", pa.list_(pa.string())), pa.field("at", pa.struct([("x", pa.float64())]))]
    rows, bad = Case(tmp_path, Format.JSON, fields=nested).read(
        b'{"id":1,"tags":["a","b"],"at":{"x":1.5}}\n{"id":"2","tags":[],"at":{"x":2.5}}\n{"id":3,"tags":"a"}\n'
    )
    assert rows == [{"id": 1, "tags": ["a", "b"], "at": {"x": 1.5}}, {"id": 2, "tags": [], "at": {"x": 2.5}}]
    assert [line for line, _ in places(bad)] == [3]


def test_bytes_maps_and_nested_times_in_json(tmp_path: Path) -> None:
    fields = [
        FIELDS[0],
        pa.field("raw", pa.binary()),
        pa.field("m", pa.map_(pa.int32(), pa.decimal128(5, 2))),
        pa.field("times", pa.list_(pa.struct({"at": pa.timestamp("us", "UTC"), "ratio": pa.float64()}))),
    ]
    rows, bad = Case(tmp_path, Format.JSON, fields=fields).read(
        b'{"id":1,"raw":"dGVh","m":{"7":"1.50","8":null},"times":[{"at":"2013-01-31T10:00:00Z","ratio":"NaN"},null]}\n'
        b'{"id":2,"raw":"tea!"}\n'
        b'{"id":3,"m":[[7,1.5]],"times":[{"at":"2013-01-31 10+01","ratio":1}]}\n'
        b'{"id":4,"m":{"x":1}}\n'
        b'{"id":5,"times":[{"at":"2013-01-31T10:00:00"}]}\n'
        b'{"id":6,"times":[{"when":1}]}\n'
    )
    assert (rows[0]["raw"], rows[0]["m"]) == (b"tea", [(7, decimal.Decimal("1.50")), (8, None)])
    assert rows[0]["times"][0]["at"] == dt.datetime(2013, 1, 31, 10, tzinfo=UTC)
    assert (str(rows[0]["times"][0]["ratio"]), rows[0]["times"][1]) == ("nan", None)
    assert rows[1]["m"] == [(7, decimal.Decimal("1.50"))]
    assert places(bad) == [(2, "raw"), (4, "m"), (5, "times"), (6, "times")]
    assert bad[0]["reason"] == "column 'raw' has \"tea!\", but needs bytes in base64 (BINARY)"


def test_columns_that_csv_cannot_fill() -> None:
    schema = TableSchema(0, assign_field_ids(pa.schema([*FIELDS, pa.field("l", pa.list_(pa.int8()))])), ("id",))
    assert check_csv(schema) == [
        "column 'l' is ARRAY<TINYINT>, which cannot be read from CSV text; use JSON or Parquet files."
    ]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"id,id\n1,2\n", "'id' twice"),
        (b"id,foo\n1,2\n", "'foo', which the table does not have"),
        (b"name\nx\n", "no column 'id'"),
        (b"\xff\xfe\n1\n", "header is not text"),
    ],
)
def test_headers(tmp_path: Path, data: bytes, part: str) -> None:
    rows, bad = Case(tmp_path, Format.CSV).read(data)
    assert rows == []
    assert places(bad) == [(None, None)]
    assert part in bad[0]["reason"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_a_file_in_which_nothing_is_written_holds_no_rows(tmp_path: Path, data: bytes) -> None:
    name = "x.csv.gz" if data[:2] == b"\x1f\x8b" else "x.csv"
    assert Case(tmp_path, Format.CSV).read(data, name) == ([], [])


def test_columns_that_a_file_leaves_out_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV, fill_missing=False, fields=FIELDS[:3])
    rows, bad = case.read(b"id,name\n1,a\n")
    assert rows == []
    assert "its header leaves out 'price'; add it, or set source.missing_columns" in bad[0]["reason"]
    assert case.read(b"id,name,price\n1,a,\n")[0] == [{"id": 1, "name": "a"}]


def test_columns_that_a_record_leaves_out_are_refused(tmp_path: Path) -> None:
    """A field that is null is given; one that is not there is not, wherever else its name occurs."""
    fields = [*FIELDS[:3], pa.field("s", pa.struct({"name": pa.string()}))]
    case = Case(tmp_path, Format.JSON, fill_missing=False, fields=fields)
    rows, bad = case.read(
        b'{"id": 1, "name": null, "price": null, "s": null}\n'
        b'{"id": 2, "price": 1, "s": {"name": "x"}}\n'
        b'{"id": 3, "n\\u0061me": null, "price": "2.5", "s": {"name": null}}\n'
        b'{"id": 4, "name": "\\"price\\": 5,", "s": null}\n'
        b'{"id": "5", "price": 1, "s": null}\n'
    )
    assert [row["id"] for row in rows] == [1, 3]
    assert [(letter["line"], letter["column"]) for letter in bad] == [(2, "name"), (4, "price"), (5, "name")]
    assert 'its record leaves out: add it, or set source.missing_columns: "null"' in bad[0]["reason"]


def test_deletes_may_leave_columns_out(tmp_path: Path) -> None:
    kinds = RowKindSource("op")
    case = Case(tmp_path, Format.JSON, fill_missing=False, fields=FIELDS[:2], row_kind=kinds)
    rows, bad = case.read(b'{"id": 1, "op": "-D"}\n{"id": 2, "op": "+U"}\n')
    assert [row["id"] for row in rows] == [1]
    assert [letter["line"] for letter in bad] == [2]


@pytest.mark.parametrize("fill_missing", [False, True])
def test_a_delete_without_its_sequence_is_a_bad_record(tmp_path: Path, fill_missing: bool) -> None:
    """It would delete nothing; NULL is a value where a row says that it is a delete."""
    case = Case(tmp_path, Format.JSON, fill_missing=fill_missing, fields=FIELDS[:2], sequence=("name",))
    case.row_kind = RowKindSource("op")
    data = (
        b'{"id": 1, "op": "-D"}\n{"id": 2, "op": "-D", "name": "b"}\n{"id": 3, "op": "-D", "name": null}\n'
        b'{"id": 4, "op": "-U"}\n'
    )
    rows, bad = case.read(data)
    assert [row["id"] for row in rows] == [2, 3, 4]
    assert places(bad) == [(1, "name")]
    assert "it is of the table's sequence.field, without which a delete deletes nothing" in bad[0]["reason"]
    case.sequence = ()
    assert [row["id"] for row in case.read(data)[0]] == [1, 2, 3, 4]
    case = Case(tmp_path, Format.CSV, fields=FIELDS[:2], sequence=("name",), row_kind=RowKindSource("op"))
    rows, bad = case.read(b"id,op\n1,-D\n2,+I\n")
    assert ([row["id"] for row in rows], places(bad)) == ([2], [(2, "name")])
    keys = Case(tmp_path, Format.JSON, fields=FIELDS[:2], sequence=("name",), mode=Mode.DELETE)
    rows, bad = keys.read(b'{"id": 1}\n{"id": 2, "name": "b"}\n{"id": 3, "name": null}\n')
    assert ([row["id"] for row in rows], places(bad)) == ([2], [(1, "name"), (3, "name")])


def test_unknown_columns_may_be_passed_over(tmp_path: Path) -> None:
    assert Case(tmp_path, Format.CSV, ignore_unknown=True).read(b"id,foo\n1,2\n") == ([{"id": 1}], [])
    assert Case(tmp_path, Format.JSON, ignore_unknown=True).read(b'{"id":1,"foo":2}\n') == ([{"id": 1}], [])


def test_other_encodings_and_compression(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV, TextOptions(encoding="latin-1"))
    assert case.read("id,name\n1,é\n".encode("latin-1")) == ([{"id": 1, "name": "é"}], [])
    case = Case(tmp_path, Format.CSV, TextOptions(encoding="utf-16"))
    assert case.read("id,name\n1,é\n".encode("utf-16")) == ([{"id": 1, "name": "é"}], [])
    assert case.read("id,name\n1,é\n".encode("utf-16")[:-1])[1][0]["reason"].startswith("near byte")
    packed = gzip.compress(b"id,name\n1,a\n")
    case = Case(tmp_path, Format.CSV)
    assert case.read(packed, "x.csv.gz") == ([{"id": 1, "name": "a"}], [])
    assert "cannot be read" in case.read(packed[:-6], "x.csv.gz")[1][0]["reason"]


def test_a_bomb_without_line_ends_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV, TextOptions(max_record_bytes=1 << 20))
    _, bad = case.read(b"id,name\n1,a\n" + gzip.decompress(gzip.compress(b"x" * (20 << 20))))
    assert "line 3 is longer than 1048576 bytes" in bad[0]["reason"]
    packed = gzip.compress(b"id,name\n" + b"x" * (50 << 20))
    assert "longer than" in case.read(packed, "bomb.csv.gz")[1][0]["reason"]


def test_row_kinds(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV, row_kind=RowKindSource("op", {"I": "+I", "D": "-D"}), fields=[
        FIELDS[0], pa.field("name", pa.string(), nullable=False)])  # fmt: skip
    rows, bad = case.read(b"id,op,name\n1,I,a\n2,X,b\n3,D,\n4,I,\n")
    assert rows == [{"id": 1, "name": "a", "_row_kind": "+I"}, {"id": 3, "_row_kind": "-D"}]
    assert places(bad) == [(3, "op"), (5, "name")]
    assert "one of I, D" in bad[0]["reason"]


def test_deletes_need_only_their_key(tmp_path: Path) -> None:
    fields = [FIELDS[0], pa.field("name", pa.string(), nullable=False)]
    rows, bad = Case(tmp_path, Format.CSV, mode=Mode.DELETE, fields=fields).read(b"id\n1\n\nx\n")
    assert rows == [{"id": 1}]
    assert places(bad) == [(4, "id")]


def test_stop_names_file_line_and_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Case(tmp_path, Format.CSV, stop=True).read(b"id,name\n1,a\nx,b\n2\n")
    assert caught.value.reason == "BAD_RECORD"
    assert f"{tmp_path}/file, line 3: column 'id' has 'x'" in caught.value.message
    assert "x,b" in caught.value.message
    assert caught.value.metadata == {"file": "file", "line": "3"}


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV)
    schema = TableSchema(0, assign_field_ids(pa.schema(FIELDS)), ("id",))
    task = ReadTask(
        "p", 0, tmp_path, Format.CSV, Coercion(schema, Mode.UPSERT, {}, None, None, False, True, case.text), None
    )
    (tmp_path / "a").write_text("id\n1\n")
    with pytest.raises(DataCorrupted, match="it has 5 bytes instead of 6") as caught:
        list(read_file(task, TakenFile(0, 0, "a", 6, 0)))
    assert caught.value.reason == "FILE_CHANGED"
    with pytest.raises(DataCorrupted, match="No such file"):
        list(read_file(task, TakenFile(0, 0, "b", 6, 0)))


def test_a_repetition_replaces_its_letters(tmp_path: Path) -> None:
    case = Case(tmp_path, Format.CSV)
    assert len(case.read(b"id\nx\ny\n")[1]) == 2
    assert len(case.read(b"id\nx\ny\n")[1]) == 2
    assert case.read(b"id\n1\n") == ([{"id": 1}], [])
    assert list((tmp_path / "letters").iterdir()) == []
