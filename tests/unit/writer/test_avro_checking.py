"""What does not fit between a schema of Avro and the pipeline's table is told before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.serving.streams.mismatches import Mismatches
from writer.checking import make_coercion
from writer.pipeline.reading import read_pipeline

FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("price", pa.decimal128(8, 2)),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("tags", pa.list_(pa.string())),
]


def check(folder: Path, fields: dict[str, object], more: str = "", missing_columns: str = "null") -> str:
    """What is wrong; empty: nothing."""
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    (folder / "r.avsc").write_text(json.dumps(schema))
    (folder / "p.yaml").write_text(
        "name: orders\ntable: shop.orders\nmode: upsert\ncheckpoint: ./state\nsource:\n  type: kafka\n"
        f"  bootstrap_servers: kafka-1:9092\n  topic: orders\n  format: avro\n  schema_file: ./r.avsc\n"
        f'  missing_columns: "{missing_columns}"\n{more}'
    )
    pipeline = read_pipeline(folder / "p.yaml")
    columns = TableSchema(0, assign_field_ids(pa.schema(FIELDS)), ("id",))
    info = TableInfo("1" * 32, TableName("shop", "orders"), "file:///x/", columns, {}, 0, 0)
    mismatches = Mismatches(pipeline.places)
    make_coercion(pipeline, info, mismatches)
    try:
        mismatches.check()
    except InvalidArgument as error:
        return error.message
    return ""


GOOD: dict[str, object] = {"id": "int", "price": "string", "at": {"type": "long", "logicalType": "timestamp-millis"}}


def test_what_fits(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == ""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
    assert check(tmp_path, {**GOOD, "price": ["null", decimal], "tags": {"type": "array", "items": "string"}}) == ""
    assert check(tmp_path, {**GOOD, "at": "long"}, "  options: {timestamp_format: epoch_ms}\n") == ""
    assert check(tmp_path, {**GOOD, "of_others": "int"}, "  unknown_columns: ignore\n") == ""


def test_a_schema_that_leaves_columns_out(tmp_path: Path) -> None:
    found = check(tmp_path, {"id": "int"}, missing_columns="error")
    assert "it leaves out 'price', 'at', 'tags'; add it, or set source.missing_columns: \"null\"" in found


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"price": "string"}, "it has no column 'id' for the table's column 'id'"),
        ({**GOOD, "of_others": "int"}, "it has the column 'of_others', which the table does not have"),
        ({**GOOD, "at": "long"}, "its field 'at' is int64, the table's column 'at' is timestamp[us, tz=UTC]"),
        ({**GOOD, "tags": "string"}, "its field 'tags' is string, the table's column 'tags' is list<"),
    ],
)
def test_what_does_not(tmp_path: Path, fields: dict[str, object], part: str) -> None:
    found = check(tmp_path, fields)
    assert "source.schema_file: " in found
    assert part in found
