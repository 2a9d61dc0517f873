"""What lakelog's own logs hold, read by a pipeline in each of their forms: the same rows, the same kinds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.schema import TableSchema, assign_field_ids
from lakelog.format.table import TableInfo, TableName
from lakelog.log.codecs.avro_schema import to_avro_schema
from lakelog.log.codecs.writer_schema import read_writer_schema
from lakelog.log.records import LogPosition, LogSnapshot
from lakelog.log.table_codec import make_codec
from lakelog.serving.misfits import Misfits
from writer.checking import heeds_headers, make_fitting
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
        "at": [NOON, None, NOON, None, None],
        "tags": [["a", None], [], None, [], ["b"]],
    },
    SCHEMA.arrow,
)
INSERT, UPDATE, DELETE = 0, 2, 3
KINDS = np.array([INSERT, INSERT, UPDATE, DELETE, UPDATE], np.int8)


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    for module in ("topic", "tasks"):
        monkeypatch.setattr(f"writer.kafka.{module}.open_log", lambda source: made.log)
    made.make()
    return made


@pytest.mark.parametrize("mode", ["upsert", "all"])
@pytest.mark.parametrize("format_", list(RecordFormat))
def test_rows_and_deletes_arrive_as_they_were_written(
    topics: Topics, tmp_path: Path, format_: RecordFormat, mode: str
) -> None:
    options = {"log.system": "kafka", "log.format": format_.value, "log.changelog-mode": mode}
    logged = TableInfo("1" * 32, TableName("shop", "orders"), "file:///x/", SCHEMA, options, 0, 0)
    codec = make_codec(logged, SCHEMA)
    producer = topics.log.open_producer("orders", "publisher", "group")
    producer.start()
    producer.begin()
    piece = codec.encode(ROWS, KINDS, 0, partition=0, snapshot_id=1, ts_ms=0, bucket=0, is_last=True, followed=None)
    producer.send(piece.records, LogSnapshot(1, "0" * 32))
    producer.commit(LogPosition(1, "0" * 32))
    producer.close()

    form = AvroForm(read_writer_schema(to_avro_schema(SCHEMA))) if format_ is RecordFormat.AVRO else None
    source = make_source(format_, ignore_unknown=format_ is RecordFormat.DEBEZIUM_JSON, avro=form)
    pipeline = Pipeline(
        tmp_path / "p.yaml", "p", "lab.copy", None, source, Mode.UPSERT, None, 1.0, tmp_path, BadRecords.STOP, None
    )
    copy = TableInfo("2" * 32, TableName("lab", "copy"), "file:///y/", SCHEMA, {}, 0, 0)
    misfits = Misfits(pipeline.places)
    fitting = make_fitting(pipeline, copy, misfits)
    misfits.check()
    task = KafkaReadTask("p", 0, source, fitting, False, None, heeds_headers(pipeline, copy))
    topic = topics.log.open_admin().find_topic("orders")
    assert topic is not None
    (end,) = topics.log.open_reader("orders").list_offsets()
    found = pa.Table.from_batches(list(read_range(task, TakenRange(0, 0, "orders", topic.topic_id, 0, 0, end))))
    assert found.column("_row_kind").to_pylist() == ["+I", "+I", "+U", "-D", "+U"]
    wanted = ROWS.to_pylist()
    if mode == "upsert":
        # A tombstone has the key alone.
        wanted[3] |= {"price": None, "tags": None}
    assert found.drop_columns(["_row_kind"]).to_pylist() == wanted
