"""The fields that records of topics have, found before they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from writer.kafka.discovery import find_fields
from writer.pipeline.kafka_spec import RecordFormat

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
    found = find_fields(pa.array(values, pa.binary()), RecordFormat.DEBEZIUM_JSON)
    assert dict(zip(found.names, found.types, strict=True)) == wanted


def test_fields_of_json() -> None:
    found = find_fields(pa.array([b'{"a": 1}', None, b'{"b": "x"}'], pa.binary()), RecordFormat.JSON)
    assert found == pa.schema([("a", pa.int64()), ("b", pa.string())])
