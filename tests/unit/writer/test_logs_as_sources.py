"""What lakelog's own logs hold, read by a pipeline in each of their forms: the same rows, the same kinds."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.avro.schema import to_avro_schema
from lakelog.log.codecs.avro.writer_schema import read_writer_schema
from lakelog.log.records import EncodedRecords, FetchedRecords, LogPosition, LogSnapshot
from lakelog.log.table_codec import make_codec
from lakelog.serving.streams.mismatches import Mismatches
from writer.checking import heeds_headers, make_coercion
from writer.kafka.header_kinds import find_uncommitted
from writer.kafka.tasks import KafkaReadTask, TakenRange, read_range
from writer.pipeline.kafka_spec import AvroForm, RecordFormat
from writer.pipeline.spec import BadRecords, Mode, Pipeline

from .topics import Topics, make_source

SCHEMA = TableSchema(
    0,
    assign_field_ids(
        pa.schema(
            [
                pa.field("day", pa.date32(), nullable=False),
                pa.field("id", pa.int64(), nullable=False),
                pa.field("price", pa.decimal128(8, 2), nullable=False),
                pa.field("at", pa.timestamp("us", "UTC")),
                pa.field("tags", pa.list_(pa.string())),
            ]
        )
    ),
    ("day", "id"),
)
DAY = dt.date(2026, 1, 31)
NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 5, dt.UTC)
ROWS = pa.table(
    {
        "day": [DAY] * 5,
        "id": [1, 2, 1, 2, 1],
        "price": [Decimal("1.50"), Decimal("2.00"), Decimal("3.50"), Decimal("2.00"), Decimal("4.00")],
        "at": [NOON, None, NOON, NOON, None],
        "tags": [["a", None], [], None, [], ["b"]],
    },
    SCHEMA.arrow,
)
INSERT, UPDATE, DELETE = 0, 2, 3
KINDS = np.array([INSERT, INSERT, UPDATE, DELETE, UPDATE], np.int8)


@pytest.mark.parametrize("mode", ["upsert", "all"])
@pytest.mark.parametrize("format_", list(RecordFormat))
def test_rows_and_deletes_arrive_as_they_were_written(
    topics: Topics, tmp_path: Path, format_: RecordFormat, mode: str
) -> None:
    send(topics, format_, {"log.changelog-mode": mode})
    found, _ = read(topics, tmp_path, format_)
    assert found.column("_row_kind").to_pylist() == ["+I", "+I", "+U", "-D", "+U"]
    wanted = ROWS.to_pylist()
    if mode == "upsert":
        # A tombstone has the key alone.
        wanted[3] |= {"price": None, "at": None, "tags": None}
    assert found.drop_columns(["_row_kind"]).to_pylist() == wanted


@pytest.mark.parametrize("fields", [("at",), ("price",), ("price", "at")])
@pytest.mark.parametrize("format_", list(RecordFormat))
def test_tombstones_have_their_sequence(
    topics: Topics, tmp_path: Path, format_: RecordFormat, fields: tuple[str, ...]
) -> None:
    """Without it the delete would lose against the row that it deletes."""
    send(topics, format_, {"sequence.field": ",".join(fields)})
    found, letters = read(topics, tmp_path, format_, fields)
    assert letters == []
    (deleted,) = [row for row in found.to_pylist() if row["_row_kind"] == "-D"]
    row = ROWS.to_pylist()[3]
    assert deleted == {"_row_kind": "-D", "day": DAY, "id": 2, "tags": None, "price": None, "at": None} | {
        name: row[name] for name in fields
    }
    assert [row["price"] for row in found.to_pylist() if row["_row_kind"] != "-D"] == [
        Decimal("1.50"), Decimal("2.00"), Decimal("3.50"), Decimal("4.00"),
    ]  # fmt: skip


@pytest.mark.parametrize("format_", list(RecordFormat))
def test_a_sequence_that_is_null_is_one(topics: Topics, tmp_path: Path, format_: RecordFormat) -> None:
    """It is not left out: the delete beats rows whose value is NULL."""
    place = ROWS.schema.get_field_index("price")
    prices = [None if number == 3 else price for number, price in enumerate(ROWS.column(place).to_pylist())]
    rows = ROWS.set_column(place, ROWS.schema.field(place), pa.array(prices, ROWS.schema.field(place).type))
    send(topics, format_, {"sequence.field": "price"}, rows)
    found, letters = read(topics, tmp_path, format_, ("price",))
    assert letters == []
    assert [row["price"] for row in found.to_pylist() if row["_row_kind"] == "-D"] == [None]


@pytest.mark.parametrize("options", [{"sequence.field": "price,at"}, {}])
def test_a_tombstone_whose_sequence_is_none_of_the_tables_is_bad(
    topics: Topics, tmp_path: Path, options: dict[str, str]
) -> None:
    send(topics, RecordFormat.JSON, options)
    found, letters = read(topics, tmp_path, RecordFormat.JSON, ("at",))
    assert "-D" not in found.column("_row_kind").to_pylist()
    assert found.num_rows == 4
    (letter,) = letters
    assert (letter["offset"], letter["raw"]) == (3, '{"day":"2026-01-31","id":2}')
    assert "header 'sequence'" in letter["reason"]


def test_records_that_were_sent_before_their_commit_are_taken_where_that_is_said(
    topics: Topics, tmp_path: Path
) -> None:
    """Some are never committed, some come twice: nobody can make the table's rows of them record by record."""
    send(topics, RecordFormat.JSON, {})
    sender = topics.log.open_uncommitted_sender("orders")
    key, value = b'{"day":"2026-01-31","id":7}', b'{"day":"2026-01-31","id":7,"price":"1.00","at":null,"tags":null}'
    kinds = np.array([INSERT], np.int8)
    records = EncodedRecords(0, pa.array([key]), pa.array([value]), kinds, np.array([0], np.int64))
    sender.send(records, "f" * 32)
    assert sender.flush(10) is not None
    with pytest.raises(InvalidArgument, match=r"offset 6 .* before its commit.*before_commit: take") as caught:
        read(topics, tmp_path, RecordFormat.JSON)
    assert caught.value.reason == "SENT_EARLY"
    found, letters = read(topics, tmp_path, RecordFormat.JSON, takes_uncommitted=True)
    assert (found.num_rows, letters) == (6, [])


def test_headers_of_others_are_no_attempts() -> None:
    """Programs that try again may well count their attempts in a header."""
    nothing = pa.nulls(4, pa.binary())
    count = np.arange(4)
    records = FetchedRecords(
        count.astype(np.int32), count, count, nothing, nothing,
        kinds=pa.array([None, b"+I", b"mine", b"+I"]), snapshot_ids=pa.nulls(4, pa.int64()), uuids=nothing,
        attempts=pa.array([b"3", b"3", b"3", b"3"]), indexes=pa.array([None, None, 1, 1]), sequences=nothing,
    )  # fmt: skip
    assert find_uncommitted(records).tolist() == [False, False, False, True]


def send(topics: Topics, format_: RecordFormat, options: dict[str, str], rows: pa.Table = ROWS) -> None:
    """The rows, as a table with this log sends them."""
    options = {"log.system": "kafka", "log.format": format_.value, **options}
    logged = TableInfo("1" * 32, TableName("shop", "orders"), "file:///x/", SCHEMA, options, 0, 0)
    codec = make_codec(logged, SCHEMA)
    producer = topics.log.open_producer("orders", "publisher", "group")
    producer.start()
    producer.begin()
    piece = codec.encode(rows, KINDS, 0, partition=0, snapshot_id=1, ts_ms=0, bucket=0, is_last=True, followed=None)
    producer.send(piece.records, LogSnapshot(1, "0" * 32))
    producer.commit(LogPosition(1, "0" * 32))
    producer.close()


def read(
    topics: Topics,
    folder: Path,
    format_: RecordFormat,
    sequence_fields: tuple[str, ...] = (),
    *,
    takes_uncommitted: bool = False,
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """What a pipeline makes of them, and its dead letters."""
    form = AvroForm(read_writer_schema(to_avro_schema(SCHEMA))) if format_ is RecordFormat.AVRO else None
    is_debezium = format_ is RecordFormat.DEBEZIUM_JSON
    source = make_source(format_, ignore_unknown=is_debezium, avro=form, takes_uncommitted=takes_uncommitted)
    pipeline = Pipeline(
        folder / "p.yaml", "p", "lab.copy", None, source, Mode.UPSERT, None, 1.0, folder, BadRecords.STOP, None
    )
    options = {"sequence.field": ",".join(sequence_fields)} if sequence_fields else {}
    copy = TableInfo("2" * 32, TableName("lab", "copy"), "file:///y/", SCHEMA, options, 0, 0)
    mismatches = Mismatches(pipeline.places)
    coercion = make_coercion(pipeline, copy, mismatches)
    mismatches.check()
    dead = folder / "dead"
    task = KafkaReadTask("p", 0, source, coercion, False, dead, heeds_headers(pipeline, copy), sequence_fields)
    topic = topics.log.open_admin().find_topic("orders")
    assert topic is not None
    (end,) = topics.log.open_reader("orders").list_offsets()
    found = pa.Table.from_batches(list(read_range(task, TakenRange(0, 0, "orders", topic.topic_id, 0, 0, end))))
    letters = [line for path in dead.glob("*.jsonl") for line in path.read_text().splitlines()]
    return found, [json.loads(line) for line in letters]
