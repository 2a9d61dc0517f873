from __future__ import annotations

import datetime as dt
import errno
import gc
import io
import math
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lakelog.errors import AlreadyExists, ResourceExhausted
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.writer import (
    ROW_GROUP_ROWS,
    DataFileWriter,
    FileEncoding,
    plan_encoding,
    plan_file_schema,
    row_group_length,
)

from .data_files import read_bytes, write_data_file

PATH = "data/0/f.parquet"
UTC = dt.UTC
ALL_TYPES = pa.schema(
    [
        pa.field("i8", pa.int8()),
        pa.field("i16", pa.int16()),
        pa.field("i32", pa.int32()),
        pa.field("i64", pa.int64(), nullable=False),
        pa.field("f32", pa.float32()),
        pa.field("f64", pa.float64()),
        pa.field("d9", pa.decimal128(9, 2)),
        pa.field("d18", pa.decimal128(18, 0)),
        pa.field("d38", pa.decimal128(38, 10)),
        pa.field("flag", pa.bool_()),
        pa.field("text", pa.string()),
        pa.field("blob", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("local", pa.timestamp("us")),
        pa.field("instant", pa.timestamp("us", "UTC")),
        pa.field("list", pa.list_(pa.field("element", pa.int32()))),
        pa.field("struct", pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])),
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.float64()))))),
    ]
)
ROWS = {
    "i8": [-128, 127, None],
    "i16": [-(2**15), 2**15 - 1, None],
    "i32": [-(2**31), 2**31 - 1, None],
    "i64": [-(2**63), 2**63 - 1, 0],
    "f32": [-0.0, math.inf, None],
    "f64": [math.nan, -0.0, None],
    "d9": [Decimal("-9999999.99"), Decimal("0.01"), None],
    "d18": [Decimal(-(10**18) + 1), Decimal(10**18 - 1), None],
    "d38": [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), None],
    "flag": [True, False, None],
    "text": ["", "żółć\x00 🙂", None],
    "blob": [b"", b"\x00\xff", None],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "local": [
        dt.datetime.fromisoformat("0001-01-01T00:00"),
        dt.datetime.fromisoformat("9999-12-31T23:59:59.999999"),
        None,
    ],
    "instant": [dt.datetime(1883, 11, 18, 12, 3, 58, tzinfo=UTC), dt.datetime(2262, 4, 12, tzinfo=UTC), None],
    "list": [[], [1, None], None],
    "struct": [{"a": 1, "b": None}, {"a": 2, "b": ""}, None],
    "map": [[], [("", None), ("k", [math.inf])], None],
}


def table_schema(schema: pa.Schema, key: tuple[str, ...] = (), schema_id: int = 0) -> TableSchema:
    return TableSchema(schema_id, assign_field_ids(schema), key)


def read_all(reader: DataFileReader, fields: list[pa.Field]) -> pa.Table:
    mapping = reader.map_columns(fields)
    batches = list(reader.read_batches(range(reader.metadata.num_row_groups), mapping))
    return pa.Table.from_batches(batches, mapping.schema)


def test_every_type_and_its_extreme_values_come_back() -> None:
    schema = table_schema(ALL_TYPES)
    table = pa.table(ROWS, schema=schema.arrow)
    store = MemoryStore()
    file = write_data_file(store, PATH, schema, table)
    with DataFileReader(store, file) as reader:
        read = read_all(reader, list(schema.arrow))
    assert read.schema.equals(schema.arrow, check_metadata=True)
    assert repr(read.to_pylist()) == repr(table.to_pylist())


def test_files_hold_no_encoding_that_other_readers_lack() -> None:
    schema = table_schema(ALL_TYPES)
    store = MemoryStore()
    write_data_file(store, PATH, schema, pa.table(ROWS, schema=schema.arrow))
    metadata = pq.ParquetFile(store.open_input(PATH)).metadata
    columns = [metadata.row_group(0).column(place) for place in range(metadata.num_columns)]
    assert {c.physical_type for c in columns}.isdisjoint({"INT96"})
    assert {encoding for c in columns for encoding in c.encodings} <= {"PLAIN", "RLE", "RLE_DICTIONARY"}
    assert {c.compression for c in columns} == {"ZSTD"}
    assert metadata.schema.column(6).physical_type == "INT32"


def test_files_have_no_bounds_of_floats_since_they_would_leave_out_nan() -> None:
    schema = table_schema(ALL_TYPES)
    store = MemoryStore()
    write_data_file(store, PATH, schema, pa.table(ROWS, schema=schema.arrow))
    metadata = pq.ParquetFile(store.open_input(PATH)).metadata
    columns = [metadata.row_group(0).column(place) for place in range(metadata.num_columns)]
    bare = {c.path_in_schema for c in columns if c.statistics is None or not c.statistics.has_min_max}
    assert bare == {"f32", "f64", "map.key_value.value.list.element"}


def test_other_readers_do_not_lose_nan() -> None:
    schema = table_schema(pa.schema([("x", pa.float64())]))
    store = MemoryStore()
    write_data_file(store, PATH, schema, pa.table({"x": [5.0, math.nan]}, schema=schema.arrow))
    greater_or_nan = (ds.field("x") > 6) | ds.field("x").is_nan()
    rows = pq.read_table(pa.BufferReader(read_bytes(store, PATH)), filters=greater_or_nan)
    assert rows.num_rows == 1


def test_only_columns_that_repeat_get_a_dictionary() -> None:
    rows = 10_000
    table = pa.table(
        {
            "unique": np.arange(rows),
            "few": np.arange(rows) % 7,
            "sorted few": np.arange(rows) // 1000,
            "nothing": pa.nulls(rows, pa.string()),
            "struct": pa.array([{"tag": f"t{i % 3}", "id": i} for i in range(rows)]),
            "tags": pa.array([["a", "b"]] * rows),
        }
    )
    assert plan_encoding(table, "zstd") == FileEncoding(
        "zstd", ("few", "sorted few", "struct.tag", "tags.list.element")
    )


def test_row_groups_are_bounded_by_rows_and_by_bytes() -> None:
    narrow = pa.table({"a": np.arange(10)})
    wide = pa.table({"a": ["x" * 1_000_000] * 10})
    assert row_group_length(narrow, 1 << 30) == ROW_GROUP_ROWS
    assert row_group_length(narrow, 80) == 10
    assert 20 < row_group_length(wide, 1 << 30) < 40
    assert row_group_length(wide, 1) == 1
    assert row_group_length(narrow.slice(0, 0), 1 << 20) >= 1


def test_columns_but_the_keys_are_optional_in_files_of_primary_key_tables() -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
    keyed = plan_file_schema(table_schema(columns, ("id",)), with_row_kind=True)
    assert [(f.name, f.nullable) for f in keyed] == [("id", False), ("v", True), ("_row_kind", False)]
    append = plan_file_schema(table_schema(columns), with_row_kind=False)
    assert [(f.name, f.nullable) for f in append] == [("id", False), ("v", False)]


def test_a_struct_may_be_null_whose_fields_may_not() -> None:
    pair = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("l", pa.list_(pa.int8()), nullable=False)])
    schema = table_schema(
        pa.schema(
            [
                pa.field("s", pa.struct([pa.field("inner", pair), pa.field("n", pa.int8(), nullable=False)])),
                pa.field("list", pa.list_(pa.field("element", pair))),
                pa.field("map", pa.map_(pa.string(), pa.field("value", pair))),
            ]
        )
    )
    full = {"a": 1, "l": [2, None]}
    rows = [
        {"s": None, "list": None, "map": None},
        {"s": {"inner": None, "n": 1}, "list": [None, full], "map": [("a", None), ("b", full)]},
        {"s": {"inner": full, "n": 2}, "list": [], "map": []},
    ]
    store = MemoryStore()
    file = write_data_file(store, PATH, schema, pa.Table.from_pylist(rows, schema=schema.arrow))
    with DataFileReader(store, file) as reader:
        read = read_all(reader, list(schema.arrow))
    assert read.schema.types == schema.arrow.types
    assert read.to_pylist() == pa.Table.from_pylist(rows, schema=schema.arrow).to_pylist()


def test_abort_leaves_nothing_and_collecting_the_writer_is_quiet() -> None:
    store = MemoryStore()
    schema = table_schema(pa.schema([pa.field("a", pa.int64())]))
    writer = DataFileWriter(store, PATH, schema.arrow, FileEncoding("zstd"))
    writer.write(pa.table({"a": [1]}, schema=schema.arrow))
    writer.abort()
    del writer
    gc.collect()
    assert list(store.list_objects()) == []


class FullDisk(MemoryStore):
    """A store on a disk that is full once the first bytes have been written."""

    def __init__(self, room: int) -> None:
        super().__init__("full")
        self.sink = _FullFile(room)

    def create(self, path: str) -> Any:
        return SimpleNamespace(sink=pa.PythonFile(self.sink, mode="w"), commit=lambda: 0, abort=lambda: None)


class _FullFile(io.RawIOBase):
    def __init__(self, room: int) -> None:
        self._room = room

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(data)


@pytest.mark.parametrize("room", [0, 100, 2000])
def test_a_full_disk_is_reported_as_what_it_is(room: int) -> None:
    schema = table_schema(pa.schema([pa.field("a", pa.int64())]))
    table = pa.table({"a": range(100)}, schema=schema.arrow)

    def write_all() -> None:
        writer = DataFileWriter(FullDisk(room), PATH, schema.arrow, FileEncoding("none"))
        for _ in range(10):
            writer.write(table)
        writer.finish()

    with pytest.raises(ResourceExhausted, match=r"memory://full/data/0/f.parquet cannot be written: No space left"):
        write_all()


def test_what_is_finished_keeps_its_size_and_no_footer() -> None:
    store = MemoryStore()
    schema = table_schema(pa.schema([pa.field("a", pa.int64())]))
    writer = DataFileWriter(store, PATH, schema.arrow, FileEncoding("zstd"))
    writer.write(pa.table({"a": [1]}, schema=schema.arrow))
    size_bytes = writer.finish()
    assert writer.size_bytes == size_bytes == store.size(PATH)
    assert not any(isinstance(value, pq.ParquetWriter) for value in vars(writer).values())
    writer.abort()
    assert store.size(PATH) == size_bytes


def test_a_writer_never_takes_the_place_of_a_file() -> None:
    store = MemoryStore()
    schema = table_schema(pa.schema([pa.field("a", pa.int64())]))
    write_data_file(store, PATH, schema, pa.table({"a": [1]}, schema=schema.arrow))
    before = read_bytes(store, PATH)
    with pytest.raises(AlreadyExists):
        DataFileWriter(store, PATH, schema.arrow, FileEncoding("zstd"))
    assert read_bytes(store, PATH) == before


def test_old_files_are_read_through_the_new_schema() -> None:
    old = pa.schema(
        [
            pa.field("a", pa.int32()),
            pa.field("gone", pa.string()),
            pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
            pa.field("l", pa.list_(pa.field("element", pa.struct([pa.field("p", pa.float32())])))),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    schema = table_schema(old)
    rows = [
        {"a": 1, "gone": "g", "s": {"x": 7, "y": "s"}, "l": [{"p": 0.5}, None], "m": [("k", 9)]},
        {"a": None, "gone": None, "s": None, "l": None, "m": None},
        {"a": 3, "gone": "h", "s": {"x": None, "y": ""}, "l": [], "m": []},
    ]
    store = MemoryStore()
    file = write_data_file(store, PATH, schema, pa.Table.from_pylist(rows, schema=schema.arrow), row_group_rows=2)

    def with_id(name: str, data_type: pa.DataType, field_id: int) -> pa.Field:
        return pa.field(name, data_type, metadata={"PARQUET:field_id": str(field_id)})

    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema.arrow}
    inner = schema.arrow.field("s").type
    x_id = int(inner.field("x").metadata[b"PARQUET:field_id"])
    element = schema.arrow.field("l").type.value_field
    p_id = int(element.type.field("p").metadata[b"PARQUET:field_id"])
    new_fields = [
        with_id("m2", pa.map_(pa.string(), pa.int64()), ids["m"]),
        with_id("gone", pa.string(), 99),
        with_id("s", pa.struct([with_id("added", pa.date32(), 98), with_id("renamed", pa.int64(), x_id)]), ids["s"]),
        with_id("wide", pa.int64(), ids["a"]),
        with_id("l", pa.list_(pa.field("element", pa.struct([with_id("q", pa.float64(), p_id)]))), ids["l"]),
    ]
    with DataFileReader(store, file) as reader:
        read = read_all(reader, new_fields)
    assert read.schema.equals(pa.schema(new_fields))
    assert read.to_pylist() == [
        {"m2": [("k", 9)], "gone": None, "s": {"added": None, "renamed": 7}, "wide": 1, "l": [{"q": 0.5}, None]},
        {"m2": None, "gone": None, "s": None, "wide": None, "l": None},
        {"m2": [], "gone": None, "s": {"added": None, "renamed": None}, "wide": 3, "l": []},
    ]


def test_no_columns_and_unknown_columns_keep_the_number_of_rows() -> None:
    schema = table_schema(pa.schema([pa.field("a", pa.int64())]))
    store = MemoryStore()
    file = write_data_file(store, PATH, schema, pa.table({"a": np.arange(2500)}, schema=schema.arrow))
    unknown = pa.field("b", pa.string(), metadata={"PARQUET:field_id": "77"})
    with DataFileReader(store, file) as reader:
        for fields in ([], [unknown]):
            mapping = reader.map_columns(fields)
            assert sum(batch.num_rows for batch in reader.read_batches([0, 2], mapping)) == 1500
