"""Avro's binary encoding against an Avro library that knows nothing of ours."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs.avro.read import read_avro
from lakelog.log.codecs.avro.schema import is_avro_map, to_avro_key_schema, to_avro_schema, to_value_fields
from lakelog.log.codecs.avro.write import to_avro, to_varints
from tests.support.log.fetched import make_fetched, to_fetched
from tests.unit.log.codecs.any_rows import make_codec, tables
from tests.unit.log.codecs.order_records import DAY, ORDERS, TIMES, encode, same_rows


def parse(schema: TableSchema) -> Any:
    """Without logical types, for which Python has too few times."""
    return fastavro.parse_schema(strip(json.loads(to_avro_schema(schema))))


def strip(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: strip(value) for name, value in schema.items() if name != "logicalType"}
    return [strip(value) for value in schema] if isinstance(schema, list) else schema


def to_avro_value(value: Any, data_type: pa.DataType) -> Any:
    """What an Avro library sees of a value, one at a time."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return [to_avro_value(value[field.name], field.type) for field in data_type.fields]
    if pa.types.is_map(data_type):
        pairs = [[to_avro_value(k, data_type.key_type), to_avro_value(v, data_type.item_type)] for k, v in value]
        return dict(pairs) if is_avro_map(data_type) else pairs
    if pa.types.is_list(data_type):
        return [to_avro_value(item, data_type.value_type) for item in value]
    return f"{value:f}" if isinstance(value, Decimal) else value


def flatten(value: Any) -> Any:
    """Records as lists of their values: names are Avro's own; floats by their bits."""
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, list):
        return [flatten(item) for item in value]
    return value


def to_plain(found: Any, data_type: pa.DataType) -> Any:
    if found is None:
        return None
    if pa.types.is_struct(data_type):
        return [to_plain(item, field.type) for item, field in zip(found.values(), data_type.fields, strict=True)]
    if pa.types.is_map(data_type):
        if is_avro_map(data_type):
            return {key: to_plain(item, data_type.item_type) for key, item in found.items()}
        types = (data_type.key_type, data_type.item_type)
        return [[to_plain(v, t) for v, t in zip(item.values(), types, strict=True)] for item in found]
    if pa.types.is_list(data_type):
        return [to_plain(item, data_type.value_type) for item in found]
    return found


def as_numbers(column: pa.Array) -> pa.Array:
    """Times inside of anything as the numbers they are."""
    if pa.types.is_temporal(column.type):
        return column.view(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return column


@settings(max_examples=50)
@given(tables())
def test_an_avro_library_reads_what_is_written(made: tuple[TableSchema, pa.Table]) -> None:
    schema, rows = made
    records = make_codec(schema, "avro").encode(rows, np.zeros(len(rows), np.int8), 0, partition=0, **TIMES).records
    parsed = parse(schema)
    columns = []
    for name in rows.column_names:
        column = as_numbers(rows[name].combine_chunks())
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError):
            columns.append(None)
    for place, text in enumerate(records.values.to_pylist()):
        stream = io.BytesIO(text)
        found = fastavro.schemaless_reader(stream, parsed, None)
        assert stream.read() == b""
        assert isinstance(found, dict)
        for value, values, field in zip(found.values(), columns, schema.arrow, strict=True):
            if values is not None and not _holds_times(field.type):
                expected = flatten(to_avro_value(values[place], field.type))
                assert flatten(to_plain(value, field.type)) == expected


def _holds_times(data_type: pa.DataType) -> bool:
    nested = [data_type.field(place).type for place in range(data_type.num_fields)]
    return pa.types.is_nested(data_type) and any(pa.types.is_temporal(t) or _holds_times(t) for t in nested)


@settings(max_examples=50)
@given(tables())
def test_what_an_avro_library_writes_is_read(made: tuple[TableSchema, pa.Table]) -> None:
    schema, rows = made
    codec = make_codec(schema, "avro")
    parsed = parse(schema)
    records = codec.encode(rows, np.zeros(len(rows), np.int8), 0, partition=0, **TIMES).records
    again = []
    for text in records.values.to_pylist():
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, fastavro.schemaless_reader(io.BytesIO(text), parsed, None))
        again.append(stream.getvalue())
    found = codec.decode(make_fetched(again), topic="t")
    expected = codec.decode(to_fetched(records), topic="t")
    assert same_rows(found.rows, expected.rows)


def test_values_by_hand() -> None:
    codec = make_codec(ORDERS, "avro", key_format="avro", is_upsert=True)
    records = encode(codec, [(DAY, -1, "ab"), (DAY, 64, None), (DAY, 65, None)], [0, 2, 3]).records
    assert records.keys is not None
    day = to_varints(np.array([(DAY - date(1970, 1, 1)).days]))[0].as_py()
    assert records.values.to_pylist() == [day + b"\x01" + b"\x02\x04ab", day + b"\x80\x01" + b"\x00", None]
    assert records.keys.to_pylist() == [b"\x01" + day, b"\x80\x01" + day, b"\x82\x01" + day]
    found = codec.decode(to_fetched(records), topic="t")
    assert found.rows.to_pylist()[2] == {"dt": DAY, "id": 65, "v": None}
    assert found.is_tombstone.tolist() == [False, False, True]


def test_the_schema_shows_logical_types_and_accepts_any_name() -> None:
    arrow = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("at-", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("at.", pa.timestamp("us")),
            pa.field("1d", pa.date32()),
            pa.field("s", pa.struct([pa.field("a", pa.int8(), nullable=False)])),
            pa.field("m", pa.map_(pa.int32(), pa.decimal128(5, 2))),
        ]
    )
    schema = TableSchema(0, arrow, ("id",))
    found = json.loads(to_avro_schema(schema))
    fastavro.parse_schema(found)
    assert [(field["name"], field["type"]) for field in found["fields"][:4]] == [
        ("id", "long"),
        ("at_", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
        ("at__2", ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]),
        ("_1d", ["null", {"type": "int", "logicalType": "date"}]),
    ]
    assert json.loads(to_avro_key_schema(schema))["fields"] == [{"name": "id", "type": "long"}]
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    row = {"id": 1, "at-": moment, "at.": None, "1d": DAY, "s": {"a": 3}, "m": [(1, Decimal("1.50"))]}
    table = pa.Table.from_pylist([row], arrow)
    value = make_codec(schema, "avro").encode(table, np.zeros(1, np.int8), 0, partition=0, **TIMES).records.values[0]
    read = fastavro.schemaless_reader(io.BytesIO(value.as_py()), fastavro.parse_schema(found), None)
    assert list(read.values()) == [1, moment, None, DAY, {"a": 3}, [{"key": 1, "value": "1.50"}]]  # type: ignore[union-attr]


def test_blocks_of_others_may_be_many_and_have_sizes() -> None:
    field = pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)
    block = b"\x02\x02" + b"\x03\x04\x04\x01" + b"\x00"
    columns, wrong = read_avro(pa.array([block, b"\x00", block], pa.binary()), [field])
    assert columns[0].to_pylist() == [[1, 2, -1], [], [1, 2, -1]]
    assert not wrong.any()


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x02", b"\x80", b"\xff" * 12, b"\x02\x02\x09", b"\x02\x02\x02\x08ab", b"\x02\x02\x02\x03",
     b"\x02\x02\x02\x04\xc3x", b"\x02\x02\x02\x04ab\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00"],
)  # fmt: skip
def test_a_damaged_record_is_named_and_harms_no_other(damaged: bytes) -> None:
    codec = make_codec(ORDERS, "avro")
    good = b"\x02\x02\x02\x04ab"
    with pytest.raises(DataCorrupted) as caught:
        codec.decode(make_fetched([good, damaged, good]), topic="t")
    assert caught.value.metadata == {"topic": "t", "partition": "3", "offset": "101"}
    assert "(1 such records" in caught.value.message


@settings(max_examples=50)
@given(tables(), st.data())
def test_damage_is_never_more_than_an_error(made: tuple[TableSchema, pa.Table], data: st.DataObject) -> None:
    schema, rows = made
    codec = make_codec(schema, "avro")
    text = codec.encode(rows, np.zeros(len(rows), np.int8), 0, partition=0, **TIMES).records.values[0].as_py()
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + data.draw(st.binary(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    columns, wrong = read_avro(pa.array([damaged, text], pa.binary()), to_value_fields(schema))
    assert not wrong[1]
    for column in columns:
        column.validate(full=True)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_numbers_of_all_lengths(numbers: list[int]) -> None:
    field = pa.field("n", pa.int64(), nullable=False)
    texts = to_avro([pa.array(numbers, pa.int64())], [field])
    (found,), wrong = read_avro(texts, [field])
    assert found.to_pylist() == numbers
    assert not wrong.any()
    for number, text in zip(numbers, texts.to_pylist(), strict=True):
        assert fastavro.schemaless_reader(io.BytesIO(text), "long", None) == number


def test_a_length_that_is_a_lie_takes_no_memory() -> None:
    field = pa.field("s", pa.string(), nullable=False)
    columns, wrong = read_avro(pa.array([b"\x02a", b"\xfe\xff\xff\xff\x0fa"], pa.binary()), [field])
    assert wrong.tolist() == [False, True]
    assert columns[0][0].as_py() == "a"
