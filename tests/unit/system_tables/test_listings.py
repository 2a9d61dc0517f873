"""Files as a table: partitions and keys in words, whatever their values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.format.keys.encoding import encode_key, encode_partition
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.system_tables.metadata.listings import to_files_table

INSTANT = pa.timestamp("us", "UTC")
FAR = pa.scalar(400_000_000_000_000_000, INSTANT)  # The year 14645, which Python's datetime does not know.


def make_plan(partitions: list[bytes], keys: list[bytes]) -> Plan:
    columns = pa.schema([pa.field("at", INSTANT), pa.field("dt", pa.string()), pa.field("id", pa.int64())])
    schema = TableSchema(0, assign_field_ids(columns), ("at", "dt", "id"), ("dt", "at"))
    info = TableInfo("a" * 32, TableName("shop", "t"), "file:///w/a/", schema, {}, 1, 0)
    values: dict[str, Any] = {
        field.name: [0] * len(keys) if pa.types.is_integer(field.type) else keys for field in FILE_SCHEMA
    }
    values |= {"path": ["f"] * len(keys), "partition": partitions, "deletion_vector_path": [None] * len(keys)}
    return Plan(info, schema, {0: schema}, None, files=pa.table(values, schema=FILE_SCHEMA))


def test_partitions_and_keys() -> None:
    far = encode_partition([pa.scalar("a"), FAR])
    null = encode_partition([pa.scalar(None, pa.string()), pa.scalar(0, INSTANT)])
    key = encode_key([pa.scalar(7)])
    table = to_files_table(make_plan([far, null, far], [key, key[:4], key]))
    assert table["partition"].combine_chunks().field("dt").to_pylist() == ["a", None, "a"]
    assert table["partition"].combine_chunks().field("at").cast(pa.int64()).to_pylist() == [FAR.value, 0, FAR.value]
    assert table["min_key"].to_pylist() == ["7", f"0x{key[:4].hex()}...", "7"]


def test_no_files() -> None:
    assert to_files_table(make_plan([], [])).num_rows == 0


def test_keys_of_far_times_are_shown() -> None:
    schema = TableSchema(0, assign_field_ids(pa.schema([pa.field("at", INSTANT)])), ("at",), ())
    plan = make_plan([b""], [encode_key([FAR])])
    table = to_files_table(Plan(plan.table, schema, {0: schema}, None, files=plan.files))
    assert table["min_key"].to_pylist() == ["14645-06-30T15:06:40.000000Z"]
