"""A topic whose records are of several schemas of a registry, as where its schema changes: each is read by its own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.serving.streams.mismatches import Mismatches
from writer.checking import heeds_headers, make_coercion
from writer.kafka.tasks import KafkaReadTask, TakenRange, read_range
from writer.pipeline.kafka_spec import KafkaSource
from writer.pipeline.reading import read_pipeline

from .topics import Topics

FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("item", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("price", pa.decimal128(8, 2)),
]
FIRST: dict[str, object] = {"id": "long", "item": "string", "size": "int"}
SECOND: dict[str, object] = {"price": ["null", "string"], "size": ["null", "long"], "id": "int"}


def to_schema(fields: dict[str, object]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def encode(number: int, fields: dict[str, object], row: dict[str, object]) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(to_schema(fields)), row)
    return out.getvalue()


def write_pipeline(folder: Path, source: str = "schemas: {7: ./first.avsc, 300: ./second.avsc}") -> Path:
    (folder / "first.avsc").write_text(json.dumps(to_schema(FIRST)))
    (folder / "second.avsc").write_text(json.dumps(to_schema(SECOND)))
    (folder / "p.yaml").write_text(
        "name: p\ntable: shop.orders\nmode: upsert\ncheckpoint: ./state\n"
        "bad_records: dead-letter\ndead_letters: ./dead\n"
        f"source:\n  type: kafka\n  bootstrap_servers: kafka-1:9092\n  topic: orders\n  format: avro\n"
        f'  missing_columns: "null"\n  {source}\n'
    )
    return folder / "p.yaml"


def read(topics: Topics, file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows without their NULLs, and dead letters."""
    pipeline = read_pipeline(file)
    assert isinstance(pipeline.source, KafkaSource)
    columns = TableSchema(0, assign_field_ids(pa.schema(FIELDS)), ("id",))
    info = TableInfo("1" * 32, TableName("shop", "orders"), "file:///x/", columns, {}, 0, 0)
    mismatches = Mismatches(pipeline.places)
    coercion = make_coercion(pipeline, info, mismatches)
    mismatches.check()
    dead = pipeline.dead_letters
    assert dead is not None
    task = KafkaReadTask("p", 0, pipeline.source, coercion, False, dead, heeds_headers(pipeline, info))
    topic = topics.log.open_admin().find_topic("orders")
    assert topic is not None
    (end,) = topics.log.open_reader("orders").list_offsets()
    found = pa.Table.from_batches(list(read_range(task, TakenRange(0, 0, "orders", topic.topic_id, 0, 0, end))))
    rows = [{k: v for k, v in row.items() if v is not None and k != "_row_kind"} for row in found.to_pylist()]
    return rows, [json.loads(line) for path in dead.glob("*.jsonl") for line in path.read_text().splitlines()]


def test_each_record_is_read_by_the_schema_that_its_header_names(topics: Topics, tmp_path: Path) -> None:
    topics.send(
        encode(7, FIRST, {"id": 1, "item": "tea", "size": 1}),
        encode(300, SECOND, {"id": 1, "size": 2**40, "price": "2.50"}),
        encode(7, FIRST, {"id": 1, "item": "cup", "size": 3}),
        encode(8, FIRST, {"id": 2, "item": "pot", "size": 4}),
        encode(300, SECOND, {"id": 3, "size": None, "price": None})[:-1],
        None,
        encode(300, SECOND, {"id": 4, "size": None, "price": None}),
        keys=[b'{"id": 1}'] * 5 + [b'{"id": 1}', b'{"id": 4}'],
        kinds=["+I"] * 5 + ["-D", "+I"],
    )
    rows, letters = read(topics, write_pipeline(tmp_path))
    # In the order in which they stand in the topic.
    assert [{**row, "price": str(row.get("price"))} for row in rows] == [
        {"id": 1, "item": "tea", "size": 1, "price": "None"},
        {"id": 1, "size": 2**40, "price": "2.50"},
        {"id": 1, "item": "cup", "size": 3, "price": "None"},
        {"id": 1, "price": "None"},
        {"id": 4, "price": "None"},
    ]
    assert [letter["offset"] for letter in letters] == [3, 4]
    assert "another schema than 7, 300" in letters[0]["reason"]


def test_only_one_of_them_has_come_yet(topics: Topics, tmp_path: Path) -> None:
    topics.send(encode(300, SECOND, {"id": 1, "size": 5, "price": "2.50"}))
    rows, letters = read(topics, write_pipeline(tmp_path))
    assert [(row["id"], row["size"], str(row["price"])) for row in rows] == [(1, 5, "2.50")]
    assert letters == []


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("schemas: {7: ./first.avsc}\n  schema_id: 7", "source.schemas: it stands beside"),
        ("schemas: {7: ./none.avsc}", "source.schemas: 7: './none.avsc' cannot be read"),
        ("schemas: {first: ./first.avsc}", "source.schemas: 'first' is no number of a schema"),
        ("schemas: {}", "source.schemas: it is empty"),
        ("schemas: {7: ./first.avsc, 8: ./other.avsc}", "source.schemas: schema 8: it has the column 'colour'"),
        ("schemas: {7: ./first.avsc, 8: ./other.avsc}", "its field 'size' is int32 and string, which cannot be read"),
        ("schemas: {7: ./first.avsc, 07: ./second.avsc}", "source.schemas: it has the number 7 twice"),
        ("schemas: {8: ./other.avsc, 9: ./inexact.avsc}", "its field 'id' is int64 and double, which cannot be read"),
    ],
)
def test_mistakes(topics: Topics, tmp_path: Path, source: str, part: str) -> None:
    (tmp_path / "other.avsc").write_text(json.dumps(to_schema({"id": "long", "size": "string", "colour": "string"})))
    (tmp_path / "inexact.avsc").write_text(json.dumps(to_schema({"id": "double"})))
    with pytest.raises(InvalidArgument) as caught:
        read(topics, write_pipeline(tmp_path, source))
    assert part in caught.value.message
