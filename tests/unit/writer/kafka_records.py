"""What tests of records of topics have in common: how they are read, and made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.records.text_options import TextOptions
from writer.kafka.header_kinds import KIND_COLUMN
from writer.kafka.tasks import KafkaReadTask, TakenRange, read_range
from writer.pipeline.columns import ColumnSource
from writer.pipeline.kafka_spec import AvroForm, RecordFormat
from writer.pipeline.spec import Mode, RowKindSource
from writer.records.coercion import Coercion

from .topics import Topics, make_source

FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("item", pa.string()),
    pa.field("price", pa.decimal128(8, 2)),
    pa.field("at", pa.timestamp("us", "UTC")),
]


@dataclass
class Case:
    """How records are read."""

    topics: Topics
    folder: Path
    format: RecordFormat = RecordFormat.JSON
    stop: bool = False
    old_rows: bool = False
    ignore_unknown: bool = False
    fill_missing: bool = True
    time_unit: str | None = None
    columns: dict[str, ColumnSource] = field(default_factory=dict)
    avro: AvroForm | None = None
    headers: bool = False
    fields: list[pa.Field] = field(default_factory=lambda: FIELDS)
    key: tuple[str, ...] = ("id",)
    sequence: tuple[str, ...] = ()

    def read(self, start: int = 0, end: int = 100) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows without their NULLs, and dead letters."""
        schema = TableSchema(0, assign_field_ids(pa.schema(self.fields)), self.key)
        says_kinds = self.headers or self.format is RecordFormat.DEBEZIUM_JSON
        kinds = RowKindSource(KIND_COLUMN) if says_kinds else None
        coercion = Coercion(
            schema,
            Mode.UPSERT,
            self.columns,
            kinds,
            None,
            self.ignore_unknown,
            self.fill_missing,
            TextOptions(),
            self.sequence,
        )
        letters = None if self.stop else self.folder / "letters"
        source = make_source(self.format, time_unit=self.time_unit, avro=self.avro)
        task = KafkaReadTask("p", 3, source, coercion, self.old_rows, letters, self.headers)
        topic = self.topics.log.open_admin().find_topic("orders")
        assert topic is not None
        end = min(end, self.topics.log.open_reader("orders").list_offsets()[0])
        rows = []
        for batch in read_range(task, TakenRange(3, 4, "orders", topic.topic_id, 0, start, end)):
            assert batch.schema == coercion.output
            rows += batch.to_pylist()
        bad = self.folder / "letters" / "p-0000000003-000004.jsonl"
        lines = bad.read_text().splitlines() if bad.exists() else []
        return [{k: v for k, v in row.items() if v is not None} for row in rows], [json.loads(line) for line in lines]


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, **more: Any) -> bytes:
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"lsn": 4}, **more}).encode()


def show(rows: list[dict[str, Any]]) -> list[tuple[str, int, str | None]]:
    return [(row["_row_kind"], row["id"], row.get("item")) for row in rows]
