"""Records of a topic become rows of the table; those that do not are told with their place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged, InvalidArgument, SnapshotExpired
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.avro.writer_schema import read_writer_schema
from lakelog.records.text_options import TextOptions
from writer.kafka.header_kinds import HeaderKinds
from writer.kafka.tasks import KafkaReadTask, TakenRange, read_range
from writer.kafka.values import read_json_values
from writer.pipeline.columns import ColumnSource
from writer.pipeline.kafka_spec import AvroForm, RecordFormat
from writer.pipeline.spec import Mode
from writer.records.coercion import Coercion

from .kafka_records import FIELDS, Case, change, show
from .topics import Topics, make_source


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


def test_bad_records_are_reported_with_partition_and_offset(topics: Topics, tmp_path: Path) -> None:
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


def test_avro_after_the_header_of_a_schema_registry(topics: Topics, tmp_path: Path) -> None:
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


def test_a_topic_that_was_recreated_is_not_read(topics: Topics, tmp_path: Path) -> None:
    topics.send(b'{"id": 1}')
    case = Case(topics, tmp_path)
    coercion = Coercion(
        TableSchema(0, assign_field_ids(pa.schema(FIELDS)), ("id",)),
        Mode.UPSERT,
        {},
        None,
        None,
        False,
        True,
        TextOptions(),
    )
    task = KafkaReadTask("p", 3, make_source(), coercion, False, None)
    with pytest.raises(HistoryDiverged, match="deleted and made anew"):
        list(read_range(task, TakenRange(3, 0, "orders", "another", 0, 0, 1)))
    topics.cluster.cut("orders", {0: 1})
    with pytest.raises(SnapshotExpired):
        case.read(0, 1)


def test_a_topic_that_is_recreated_while_it_is_read_gives_nothing(
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
