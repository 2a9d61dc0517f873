"""The Avro schema of a table's records: what a reader needs besides their bytes.

A record's value is one datum in Avro's binary encoding, without a header and without the id of a schema: what the
format `avro` of Apache Flink reads, which makes the same schema of its own table's columns, and any Avro library that
is given this one. Both the container format and single-object encoding would repeat in each record what is the same in
all.

| column | Avro |
|---|---|
| boolean, tinyint to int, bigint | boolean, int, long |
| float, double, string, binary | float, double, string, bytes |
| decimal | string, with all digits of its scale |
| date | int, `date` |
| timestamp | long, `timestamp-micros` |
| timestamp without zone | long, `local-timestamp-micros` |
| array, struct | array, record |
| map | map where its keys are strings, else an array of records of `key` and `value` |

Columns outside the primary key are unions with null, whatever the table says, since a delete may bring the key alone;
what is inside of them is where it may be NULL. A column's place counts, not its name: names that Avro does not allow
are changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.schema import TableSchema


def to_avro_schema(schema: TableSchema) -> str:
    """The schema of a table's values as JSON. Pure."""
    return json.dumps(_to_record("record", to_value_fields(schema)))


def to_avro_key_schema(schema: TableSchema) -> str:
    """The schema of a table's keys as JSON, with `log.key.format` = `avro`. Pure."""
    return json.dumps(_to_record("key", to_key_fields(schema)))


def to_value_fields(schema: TableSchema) -> list[pa.Field]:
    """The columns of values, nullable as they are in Avro."""
    return [field.with_nullable(field.name not in schema.primary_key) for field in schema.arrow]


def to_key_fields(schema: TableSchema) -> list[pa.Field]:
    """The columns of keys."""
    return [schema.arrow.field(name).with_nullable(False) for name in schema.primary_key]


def is_avro_map(data_type: pa.DataType) -> bool:
    """Whether a map is one in Avro, too: there all keys are strings."""
    return bool(pt.is_string(data_type.key_type))


def _to_record(name: str, fields: Sequence[pa.Field]) -> dict[str, Any]:
    taken: set[str] = set()
    found = []
    for field in fields:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", field.name)
        plain = unique = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        count = 2
        while unique in taken:
            unique, count = f"{plain}_{count}", count + 1
        taken.add(unique)
        entry: dict[str, Any] = {"name": unique, "type": _to_type(field, f"{name}_{unique}")}
        if field.nullable:
            entry["default"] = None
        found.append(entry)
    return {"type": "record", "name": name, "fields": found}


def _to_type(field: pa.Field, path: str) -> Any:
    found = _to_bare_type(field.type, path)
    return ["null", found] if field.nullable else found


def _to_bare_type(data_type: pa.DataType, path: str) -> Any:
    if pt.is_struct(data_type):
        return _to_record(path, data_type.fields)
    if pt.is_map(data_type):
        if is_avro_map(data_type):
            return {"type": "map", "values": _to_type(data_type.item_field, path)}
        return {"type": "array", "items": _to_record(path, [data_type.key_field, data_type.item_field])}
    if pt.is_list(data_type):
        return {"type": "array", "items": _to_type(data_type.value_field, path)}
    if pt.is_date(data_type):
        return {"type": "int", "logicalType": "date"}
    if pt.is_timestamp(data_type):
        return {"type": "long", "logicalType": "local-timestamp-micros" if data_type.tz is None else "timestamp-micros"}
    if pt.is_integer(data_type):
        return "long" if data_type.bit_width == 64 else "int"
    if pt.is_floating(data_type):
        return "double" if data_type.bit_width == 64 else "float"
    if pt.is_boolean(data_type):
        return "boolean"
    return "bytes" if pt.is_binary(data_type) else "string"
