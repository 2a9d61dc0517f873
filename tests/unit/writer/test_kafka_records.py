"""Records of a topic become rows of the table; those that do not are told with their place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged, InvalidArgument, SnapshotExpired
from lakelog.format.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.writer_schema import read_writer_schema
from writer.kafka.header_kinds import KIND_COLUMN, HeaderKinds
from writer.kafka.tasks import KafkaReadTask, TakenRange, read_range
from writer.kafka.values import read_debezium_values, read_json_values
from writer.pipeline.kafka_spec import AvroForm, RecordFormat
from writer.pipeline.spec import ColumnSource, Mode, RowKindSource, TextOptions
from writer.records.bad_records import BadRecord
from writer.records.fitting import Fitting

from .topics import Topics, make_source

FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("item", pa.string()),
    pa.field("price", pa.decimal128(8, 2)),
    pa.field("at", pa.timestamp("us", "UTC")),
]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    for module in ("topic", "tasks"):
        monkeypatch.setattr(f"writer.kafka.{module}.open_log", lambda source: made.log)
    made.make()
    return made


@dataclass
class Case:
    """How records are read."""

    topics: Topics
    folder: Path
    format: RecordFormat = RecordFormat.JSON
    stop: bool = False
    old_rows: bool = False
    ignore_unknown: bool = False
    time_unit: str | None = None
    columns: dict[str, ColumnSource] = field(default_factory=dict)
    avro: AvroForm | None = None
    headers: bool = False
    fields: list[pa.Field] = field(default_factory=lambda: FIELDS)
    key: tuple[str, ...] = ("id",)

    def read(self, start: int = 0, end: int = 100) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows without their NULLs, and dead letters."""
        schema = TableSchema(0, assign_field_ids(pa.schema(self.fields)), self.key)
        says_kinds = self.headers or self.format is RecordFormat.DEBEZIUM_JSON
        kinds = RowKindSource(KIND_COLUMN) if says_kinds else None
        fitting = Fitting(schema, Mode.UPSERT, self.columns, kinds, None, self.ignore_unknown, TextOptions())
        letters = None if self.stop else self.folder / "letters"
        source = make_source(self.format, time_unit=self.time_unit, avro=self.avro)
        task = KafkaReadTask("p", 3, source, fitting, self.old_rows, letters, self.headers)
        topic = self.topics.log.open_admin().find_topic("orders")
        assert topic is not None
        end = min(end, self.topics.log.open_reader("orders").list_offsets()[0])
        rows = []
        for batch in read_range(task, TakenRange(3, 4, "orders", topic.topic_id, 0, start, end)):
            assert batch.schema == fitting.output
            rows += batch.to_pylist()
        bad = self.folder / "letters" / "p-0000000003-000004.jsonl"
        lines = bad.read_text().splitlines() if bad.exists() else []
        return [{k: v for k, v in row.items() if v is not None} for row in rows], [json.loads(line) for line in lines]


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, **more: Any) -> bytes:
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"lsn": 4}, **more}).encode()


def show(rows: list[dict[str, Any]]) -> list[tuple[str, int, str | None]]:
    return [(row["_row_kind"], row["id"], row.get("item")) for row in rows]


def test_json(topics: Topics, tmp_path: Path) -> None:
    topics.send(b'{"id": 1, "item": "tea", "price": "3.50"}', b'{\n  "id": 2,\n  "price": 8\n}')
    topics.send(b'{"id": 3}', end="abort")
    topics.send(b'{"id": 4, "at": "2026-01-31T12:00:00Z"}')
    rows, bad = Case(topics, tmp_path).read()
    assert [(row["id"], str(row.get("price"))) for row in rows] == [(1, "3.50"), (2, "8.00"), (4, "None")]
    assert rows[2]["at"].isoformat() == "2026-01-31T12:00:00+00:00"
    assert bad == []


def test_white_space_around_an_object_is_no_part_of_it(topics: Topics, tmp_path: Path) -> None:
    """Many producers end each record as a line; it is read with the others, not record by record."""
    topics.send(
        b'{"id": 1}\n', b' {"id": 2} \r\n', b'\t{"id": 3, "item": "\xc3\xa4 "}\n\n', b"[4]\n", b'{"id": 5}\xff\n'
    )
    rows, bad = Case(topics, tmp_path).read()
    assert [(row["id"], row.get("item")) for row in rows] == [(1, None), (2, None), (3, "ä ")]
    assert [(letter["offset"], letter["reason"]) for letter in bad] == [
        (3, "it is not one JSON object"),
        (4, "it is not one JSON object"),
    ]


def test_only_the_range_is_read(topics: Topics, tmp_path: Path) -> None:
    topics.send(*(b'{"id": %d}' % number for number in range(10)))
    rows, _ = Case(topics, tmp_path).read(3, 7)
    assert [row["id"] for row in rows] == [3, 4, 5, 6]


def test_bad_records_are_told_with_partition_and_offset(topics: Topics, tmp_path: Path) -> None:
    topics.send(
        b'{"id": 0}', b"[1]", None, b'{"id": "x"}', b'{"id": 4} {"id": 5}', b'{"item": "no key"}',
        b'{"id": 6, "colour": "red"}', b"", b'{"id": 8, "item": "\xff"}', b'{"id": 9}',
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path).read()
    assert [row["id"] for row in rows] == [0, 9]
    assert sorted(letter["offset"] for letter in bad) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {(letter["topic"], letter["partition"]) for letter in bad} == {("orders", 0)}
    assert "line" not in bad[0]
    reasons = {letter["offset"]: letter["reason"] for letter in bad}
    assert "not one JSON object" in reasons[1]
    assert "tombstone" in reasons[2]
    assert "whole number" in reasons[3]
    assert "NOT NULL" in reasons[5]
    assert "no column for its field 'colour'" in reasons[6]
    assert bad[0]["raw"] == "[1]"


def test_the_first_bad_record_stops_the_pipeline(topics: Topics, tmp_path: Path) -> None:
    topics.send(b'{"id": 1}', b"nonsense", b"worse")
    with pytest.raises(InvalidArgument, match=r"offset 1 of partition 0 of topic 'orders'.*nonsense") as caught:
        Case(topics, tmp_path, stop=True).read()
    assert caught.value.reason == "BAD_RECORD"


def test_changes_of_debezium(topics: Topics, tmp_path: Path) -> None:
    row = {"id": 1, "item": "tea", "price": "3.50", "of_the_database": True}
    topics.send(
        change("c", None, row), change("u", row, {**row, "item": "cup"}), change("d", {**row, "item": "cup"}, None),
        None, change("r", None, {"id": 2, "item": "pot"}),
    )  # fmt: skip
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True)
    rows, bad = case.read()
    assert bad == []
    assert show(rows) == [("+I", 1, "tea"), ("+U", 1, "cup"), ("-D", 1, "cup"), ("+I", 2, "pot")]
    assert str(rows[0]["price"]) == "3.50"
    # A table whose changelog is its input takes the old row as well.
    case.old_rows = True
    assert show(case.read()[0]) == [
        ("+I", 1, "tea"), ("-U", 1, "tea"), ("+U", 1, "cup"), ("-D", 1, "cup"), ("+I", 2, "pot"),
    ]  # fmt: skip


@pytest.mark.parametrize("old_rows", [False, True])
def test_an_update_of_the_key_deletes_the_old_row(topics: Topics, tmp_path: Path, old_rows: bool) -> None:
    """The table's key need not be the source's, of which Debezium itself makes a delete and an insert."""
    topics.send(
        change("c", None, {"id": 1, "item": "tea"}), change("u", {"id": 1, "item": "tea"}, {"id": 2, "item": "tea"}),
        change("u", {"item": "tea"}, {"id": 2, "item": "cup"}), change("u", None, {"id": 2, "item": "pot"}),
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=old_rows, stop=True).read(end=2)
    assert show(rows) == [("+I", 1, "tea"), ("-D", 1, "tea"), ("+I", 2, "tea")]
    assert bad == []
    if not old_rows:  # An old row of which the key is not known is none.
        rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON).read(start=2)
        assert (show(rows), bad) == ([("+U", 2, "cup"), ("+U", 2, "pot")], [])


@pytest.mark.parametrize("old_rows", [False, True])
def test_an_update_of_the_key_whose_old_or_new_row_does_not_fit_is_bad_as_a_whole(
    topics: Topics, tmp_path: Path, old_rows: bool
) -> None:
    """Half of it would be a state that the source never had; and each record has one letter."""
    row = {"id": 1, "shop": "a", "item": "tea"}
    topics.send(
        change("u", {**row, "shop": None}, {**row, "id": 2}),
        change("u", row, {**row, "id": 3, "item": None}),
        change("u", {**row, "shop": None}, {**row, "id": 4, "item": None}),
        change("u", row, {**row, "id": 5}),
        change("u", {"id": 5, "item": "tea"}, {**row, "id": 5, "item": "cup"}),
    )
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=old_rows, key=("id", "shop"))
    case.fields = [
        FIELDS[0],
        pa.field("shop", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
    ]
    rows, bad = case.read()
    # The old row of the last one has not all of its key: nobody can say which row it is.
    assert show(rows) == [("-D", 1, "tea"), ("+I", 5, "tea"), ("+U", 5, "cup")]
    assert [(letter["offset"], letter["column"]) for letter in bad] == [(0, "shop"), (1, "item"), (2, "shop")]
    assert json.loads(bad[0]["raw"])["after"]["id"] == 2


def test_debezium_without_old_rows(topics: Topics, tmp_path: Path) -> None:
    """As Postgres sends it by default: no old row of an update, of a delete the key alone."""
    topics.send(change("u", None, {"id": 1, "item": "cup"}), change("d", {"id": 1, "item": None}, None))
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=True, ignore_unknown=True).read()
    assert show(rows) == [("+U", 1, "cup"), ("-D", 1, None)]
    assert bad == []


def test_a_delete_without_its_old_row_is_of_the_row_that_its_key_names(topics: Topics, tmp_path: Path) -> None:
    """As with REPLICA IDENTITY NOTHING, or where an SMT drops the old row."""
    said = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    delete = change("d", None, None)
    topics.send(
        change("c", None, {"id": 1, "item": "tea"}), delete, delete, None, delete, delete, delete, delete,
        change("c", None, {"id": 7, "item": "pot"}),
        keys=[
            b'{"id": 1}', b'{"id": 1}', json.dumps({"schema": said, "payload": {"id": 2}}).encode(), b'{"id": 2}',
            b'{"item": "x"}', b'{"id": "x"}', b"nonsense", b"", b'{"id": 7}',
        ],
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert show(rows) == [("+I", 1, "tea"), ("-D", 1, None), ("-D", 2, None), ("+I", 7, "pot")]
    assert [letter["offset"] for letter in bad] == [4, 5, 6, 7]
    assert all("neither an old row nor a key" in letter["reason"] for letter in bad)


def test_a_delete_of_a_table_without_a_key_needs_its_old_row() -> None:
    bad: list[BadRecord] = []
    found = read_debezium_values(
        pa.array([change("d", None, None)], pa.binary()),
        pa.array([b'{"id": 1}'], pa.binary()),
        np.array([5]),
        pa.schema([("id", pa.int64())]),
        key=pa.schema([]),
        deletes=np.zeros(1, np.bool_),
        time_unit=None,
        with_old_rows=False,
        report=bad.append,
    )
    assert found is None
    assert [each.line for each in bad] == [5]


def test_debezium_with_its_schema(topics: Topics, tmp_path: Path) -> None:
    fields = [{"field": "id", "type": "int64"}, {"field": "at", "name": "io.debezium.time.Timestamp", "type": "int64"}]
    schema = {"fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]}
    payload = {"before": None, "after": {"id": 1, "at": 1_767_225_600_000}, "op": "c"}
    topics.send(json.dumps({"schema": schema, "payload": payload}).encode())
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert bad == []
    assert rows[0]["at"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_numbers_of_time_without_a_schema_need_their_unit(topics: Topics, tmp_path: Path) -> None:
    topics.send(change("c", None, {"id": 1, "at": 1_767_225_600_000}))
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True)
    bad = case.read()[1]
    assert [letter["offset"] for letter in bad] == [0]
    assert "has 1767225600000, but needs TIMESTAMP" in bad[0]["reason"]
    assert "source.time_unit" in bad[0]["reason"]
    case.time_unit = "ms"
    rows, _ = case.read()
    assert rows[0]["at"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_messages_that_are_none_of_debezium(topics: Topics, tmp_path: Path) -> None:
    topics.send(
        b"nonsense", change("x", None, {"id": 1}), change("d", None, None), change("c", None, {"id": "x"}),
        change("c", None, {"item": "no key"}), change("c", None, {"id": 5}),
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert show(rows) == [("+I", 5, None)]
    assert [letter["offset"] for letter in bad] == [0, 1, 2, 3, 4]
    assert "REPLICA IDENTITY" in bad[2]["reason"]
    assert bad[0]["raw"] == "nonsense"
    assert [letter["column"] for letter in bad[:4]] == [None, None, None, "id"]
    assert all("no message of Debezium" in letter["reason"] for letter in bad[:2])
    assert bad[3]["reason"] == "column 'id' has \"x\", but needs BIGINT"


def test_of_a_message_that_does_not_fit_the_column_is_told(topics: Topics, tmp_path: Path) -> None:
    wrapped = json.dumps({"payload": {"op": "u", "before": None, "after": {"id": 1, "item": 7}}}).encode()
    deep = b'{"op":"c","after":{"id":' + b"[" * 5000 + b"]" * 5000 + b"}}"
    topics.send(
        wrapped, change("u", {"id": "y" * 200}, {"id": 1}), b'{"op":"c","after":{"id":1,"item":"\xff"}}', deep,
        b'{"op":"c","after":{"id":2.5}}', b"", b"[]",
    )  # fmt: skip
    _, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    told = {letter["offset"]: (letter["column"], letter["reason"]) for letter in bad}
    assert told[0] == ("item", "column 'item' has 7, but needs STRING")
    assert told[2][0] is None
    assert told[3][0] in (None, "id")
    assert told[4] == ("id", "column 'id' has 2.5, but needs BIGINT")
    assert {told[offset][0] for offset in (5, 6)} == {None}


AVRO = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "item", "type": ["null", "string"]},
            {"name": "price", "type": "string"},
        ],
    }
)


def avro(id_: int, item: bytes, price: bytes = b"3.50") -> bytes:
    return bytes([2 * id_, 2, 2 * len(item)]) + item + bytes([2 * len(price)]) + price


def test_avro(topics: Topics, tmp_path: Path) -> None:
    topics.send(
        avro(1, b"tea"), avro(2, b"cup")[:-1], None, avro(3, b"pot", b"cheap"), b"", b"\0\0\0\0\7" + avro(4, b"x")
    )
    topics.send(avro(5, b"jug"))
    case = Case(topics, tmp_path, RecordFormat.AVRO, avro=AvroForm(read_writer_schema(AVRO)))
    rows, bad = case.read()
    assert [(row["id"], row["item"], str(row["price"])) for row in rows] == [(1, "tea", "3.50"), (5, "jug", "3.50")]
    reasons = {letter["offset"]: letter["reason"] for letter in bad}
    assert sorted(reasons) == [1, 2, 3, 4, 5]
    assert "no record of the schema" in reasons[1]
    assert "tombstone" in reasons[2]
    assert "column 'price' has 'cheap'" in reasons[3]
    assert "source.schema_id" in reasons[5]


def test_avro_behind_the_header_of_a_schema_registry(topics: Topics, tmp_path: Path) -> None:
    topics.send(b"\0\0\0\0\7" + avro(1, b"tea"), b"\0\0\0\0\10" + avro(2, b"cup"), avro(3, b"pot"), b"\0\0")
    case = Case(topics, tmp_path, RecordFormat.AVRO, avro=AvroForm(read_writer_schema(AVRO), 7))
    rows, bad = case.read()
    assert [row["id"] for row in rows] == [1]
    assert [letter["offset"] for letter in bad] == [1, 2, 3]
    assert all("another schema than 7" in letter["reason"] for letter in bad)


@pytest.mark.parametrize("format_", list(RecordFormat))
def test_a_log_of_lakelogs_own_says_by_its_headers_what_rows_do(
    topics: Topics, tmp_path: Path, format_: RecordFormat
) -> None:
    """In the changelog mode `upsert`: a delete is a tombstone, in the order of all others."""

    def row(id_: int, item: str) -> bytes:
        if format_ is RecordFormat.AVRO:
            return avro(id_, item.encode())
        fields = {"id": id_, "item": item, "price": "3.50"}
        return json.dumps(fields).encode() if format_ is RecordFormat.JSON else change("u", None, fields)

    topics.send(
        row(1, "tea"), None, row(1, "cup"), None, row(2, "pot"), None, None,
        keys=[b'{"id": %d}' % id_ for id_ in (1, 1, 1, 2, 2, 2)] + [b'{"k": 9}'],
        kinds=["+U", "-D", "+U", "-D", "+U", "-U", "-D"],
    )  # fmt: skip
    case = Case(topics, tmp_path, format_, ignore_unknown=True, headers=True)
    case.avro = AvroForm(read_writer_schema(AVRO)) if format_ is RecordFormat.AVRO else None
    rows, bad = case.read()
    second = "-D" if format_ is RecordFormat.DEBEZIUM_JSON else "-U"
    assert show(rows) == [
        ("+U", 1, "tea"), ("-D", 1, None), ("+U", 1, "cup"), ("-D", 2, None), ("+U", 2, "pot"), (second, 2, None),
    ]  # fmt: skip
    assert [letter["offset"] for letter in bad] == [6]
    # Where nothing may be deleted, as by `mode: append`, headers say nothing.
    case.headers = False
    assert [row["id"] for row in case.read()[0]] == [1, 1, 2]


def test_headers_of_others_say_nothing(topics: Topics) -> None:
    topics.send(None, None, b"x", None, keys=[b"a", b"b", b"c", b"d"], kinds=["-D"] * 4)
    reader = topics.log.open_reader("orders")
    reader.assign({0: 0})
    records = replace(
        reader.fetch(10, 0),
        kinds=pa.array([None, b"of others", b"-D", b"-D"], pa.binary()),
        keys=pa.array([b"a", b"b", b"c", None], pa.binary()),
    )
    said = HeaderKinds.of(records)
    assert said.kinds.to_pylist() == ["+I", "+I", "-D", "-D"]
    assert said.deletes.tolist() == [False] * 4, "the last names no row"


def test_columns_have_the_names_of_the_source(topics: Topics, tmp_path: Path) -> None:
    topics.send(change("c", None, {"id": 1, "name": "tea"}))
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True)
    case.columns = {"item": ColumnSource("name")}
    assert show(case.read()[0]) == [("+I", 1, "tea")]


def test_a_topic_that_was_made_anew_is_not_read(topics: Topics, tmp_path: Path) -> None:
    topics.send(b'{"id": 1}')
    case = Case(topics, tmp_path)
    fitting = Fitting(
        TableSchema(0, assign_field_ids(pa.schema(FIELDS)), ("id",)), Mode.UPSERT, {}, None, None, False, TextOptions()
    )
    task = KafkaReadTask("p", 3, make_source(), fitting, False, None)
    with pytest.raises(HistoryDiverged, match="deleted and made anew"):
        list(read_range(task, TakenRange(3, 0, "orders", "another", 0, 0, 1)))
    topics.cluster.cut("orders", {0: 1})
    with pytest.raises(SnapshotExpired):
        case.read(0, 1)


def test_a_topic_that_is_made_anew_while_it_is_read_gives_nothing(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.send(b'{"id": 1}', b"bad")

    def remake(*arguments: Any) -> Any:
        yield from read_json_values(*arguments)
        topics.remake()

    monkeypatch.setattr("writer.kafka.tasks.read_json_values", remake)
    with pytest.raises(HistoryDiverged):
        Case(topics, tmp_path).read(0, 2)
    # Not even its dead letters.
    assert not list((tmp_path / "letters").iterdir())
