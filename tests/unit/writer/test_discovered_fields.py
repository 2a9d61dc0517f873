"""The fields that records of topics have, found before they are read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.avro.connect_types import read_connect_types
from lakelog.records.text_options import TextOptions
from lakelog.spark.task_errors import TaskFailed
from writer.kafka.discovery import find_fields, range_discoverer
from writer.kafka.tasks import KafkaReadTask, TakenRange
from writer.pipeline.kafka_spec import RecordFormat
from writer.pipeline.spec import Evolution, Mode
from writer.records.coercion import Coercion
from writer.records.new_columns import NEW_COLUMN

from .topics import Topics, make_source

TYPES: list[dict[str, Any]] = [
    {"field": "id", "type": "int32"},
    {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    {"field": "tags", "type": "array", "items": {"type": "string"}},
]


def around(payload: Any, types: Sequence[Any] | None) -> Any:
    if types is None:
        return payload
    return {"schema": {"fields": [{"field": "before", "fields": list(types)}, {"field": "op"}]}, "payload": payload}


def message(row: dict[str, Any], types: Sequence[Any] | None = None, op: str = "c") -> bytes:
    side = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return json.dumps(around({**side, "op": op}, types)).encode()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([message({"id": 1, "a": None}), message({"id": 2, "a": 1.5})], {"id": pa.int64(), "a": pa.float64()}),
        ([message({"id": 1}), message({"id": 2, "gone": "x"}, op="d"), None], {"gone": pa.string(), "id": pa.int64()}),
        (
            [message({"id": 1}, TYPES)],
            {
                "id": pa.int32(),
                "price": pa.decimal128(38, 2),
                "at": pa.timestamp("us"),
                "zoned": pa.timestamp("us", "UTC"),
                "tags": pa.list_(pa.string()),
            },
        ),
        ([message({"id": 1}, TYPES[:1]), message({"id": 1, "b": True})], {"id": pa.int64(), "b": pa.bool_()}),
        ([b"{", b"7", b'{"after": 3}', b'{"schema": 1, "payload": []}'], {}),
    ],
)
def test_fields_of_debezium(values: list[bytes | None], wanted: dict[str, pa.DataType]) -> None:
    found, unclear = find_fields(pa.array(values, pa.binary()), RecordFormat.DEBEZIUM_JSON)
    assert not unclear
    assert dict(zip(found.names, found.types, strict=True)) == wanted


DECIMAL = "org.apache.kafka.connect.data.Decimal"
BAD: list[Any] = [
    {"field": "bad", "type": "array"},
    {"field": "bad", "type": "map", "keys": {"type": "string"}},
    {"field": "bad", "type": "struct", "fields": [{"type": "int32"}]},
    {"field": "bad", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "x"}},
    {"field": "bad", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "77"}},
    {"field": "bad", "type": "int64", "name": ["io.debezium.time.Timestamp"]},
    {"type": "int32"},
    "bad",
]


@pytest.mark.parametrize("bad", BAD)
def test_a_field_without_sense_hides_no_other_one(bad: Any) -> None:
    record = message({"id": 1}, [TYPES[0], bad, *TYPES[2:]])
    found, unclear = find_fields(pa.array([record], pa.binary()), RecordFormat.DEBEZIUM_JSON)
    assert found.names == ["id", "at", "zoned", "tags"]
    assert list(unclear) in (["bad"], ["None"])
    encodings = read_connect_types(json.dumps(json.loads(record)["schema"]).encode())
    assert encodings["at"].time_unit == "us"


@pytest.mark.parametrize("fields", [7, [], [{"field": "after"}], [{"field": "after", "fields": 7}, 7, None]])
def test_values_show_what_a_schema_without_rows_does_not(fields: Any) -> None:
    whole = json.dumps({"schema": {"fields": fields}, "payload": {"after": {"id": 1}}}).encode()
    values = pa.array([whole, message({"at": 1}, TYPES[2:3])], pa.binary())
    found, _ = find_fields(values, RecordFormat.DEBEZIUM_JSON)
    assert {each.name: each.type for each in found} == {"id": pa.int64(), "at": pa.timestamp("us")}


def test_fields_of_json() -> None:
    found, _ = find_fields(pa.array([b'{"a": 1}', None, b'{"b": "x"}'], pa.binary()), RecordFormat.JSON)
    assert found == pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize("bytes_at_once", [1, 1 << 20])
def test_a_refusal_names_the_first_record_with_the_field(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    monkeypatch.setattr("writer.kafka.tasks.BLOCK_BYTES", bytes_at_once)
    monkeypatch.setattr("writer.kafka.discovery.open_log", lambda source: topics.log)
    topics.send(*[message({"id": row}) for row in range(5)])
    # Neither NULL nor a tombstone says what a column would be; the mark of a transaction has offset 5.
    more = [None, message({"id": 5, "qty": None}), message({"id": 6, "qty": 7}), message({"id": 7, "qty": 8})]
    topics.send(*more)
    schema = TableSchema(0, assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False)])), ("id",))
    coercion = Coercion(schema, Mode.UPSERT, {}, None, None, True, True, TextOptions(), table="s.t")
    source = make_source(RecordFormat.DEBEZIUM_JSON)
    task = KafkaReadTask("p", 3, source, coercion, False, None, evolution=Evolution.FAIL)

    def discover(task: KafkaReadTask, end: int) -> list[pa.RecordBatch]:
        taken = TakenRange(3, 0, "orders", "", 0, 0, end)
        return list(range_discoverer(task, [[taken]])(iter([pa.record_batch({"number": pa.array([0])})])))

    assert len(discover(task, 8)) == 1
    said = r"at offset 8 of partition 0 of topic 'orders' has the column 'qty'.* ALTER TABLE s\.t ADD COLUMN qty BIGINT"
    with pytest.raises(TaskFailed, match=said) as caught:
        discover(task, 10)
    assert NEW_COLUMN in str(caught.value)
    adding = dataclasses.replace(task, evolution=Evolution.ADD_COLUMNS)
    assert len(discover(adding, 10)) == 1
    # A column of the table may be unclear; it has its type.
    topics.send(message({"id": 8}, [{"field": "id", "type": "array"}]), message({"id": 9}, BAD[:1]))
    assert len(discover(adding, 12)) == 1
    with pytest.raises(TaskFailed, match=r"offset 12 of .* has the column 'bad'.* does not tell the type") as caught:
        discover(adding, 13)
    assert NEW_COLUMN in str(caught.value)
