"""Avro records of others, by their writer's schema: written by fastavro, read in columns."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.avro.schema import to_avro_schema
from lakelog.log.codecs.avro.writer_records import read_writer_records
from lakelog.log.codecs.avro.writer_schema import WriterSchema, read_writer_schema

NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 5000, dt.UTC)


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields]}


def write(schema: dict[str, Any], *rows: dict[str, Any]) -> pa.Array:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    values = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        values.append(stream.getvalue())
    return pa.array(values, pa.binary())


def parse(schema: dict[str, Any]) -> WriterSchema:
    return pickle.loads(pickle.dumps(read_writer_schema(json.dumps(schema))))


EVERYTHING = record(
    ("b", "boolean"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("s", "string"), ("y", "bytes"),
    ("nf", ["null", "long"]), ("nl", ["string", "null"]), ("one", ["int"]),
    ("e", {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}), ("e2", "colour"),
    ("x", {"type": "fixed", "name": "four", "size": 4}),
    ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("fdec", {"type": "fixed", "name": "money", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("us", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("u", {"type": "string", "logicalType": "of-somebody"}),
    ("list", {"type": "array", "items": ["null", "int"]}), ("map", {"type": "map", "values": "long"}),
    ("inner", {"type": "record", "name": "deep", "fields": [{"name": "a", "type": ["null", "string"]}]}),
)  # fmt: skip

ROW: dict[str, Any] = {
    "b": True, "i": -7, "l": 2**40, "f": 0.5, "d": -1e300, "s": "Tée", "y": b"\x00\xff", "nf": None, "nl": "x",
    "one": 3, "e": "BLUE", "e2": "RED", "x": b"abcd", "dec": Decimal("-12.34"), "fdec": Decimal("98765.432"),
    "day": dt.date(2026, 1, 31), "ms": NOON, "us": NOON, "local": NOON.replace(tzinfo=None), "u": "v",
    "list": [1, None, 3], "map": {"k": 9}, "inner": {"a": "z"},
}  # fmt: skip


def test_all_types() -> None:
    other = {**ROW, "b": False, "nf": 4, "nl": None, "us": None, "list": [], "map": {}, "inner": {"a": None}}
    schema = parse(EVERYTHING)
    values = write(EVERYTHING, ROW, other, ROW)
    found, wrong = read_writer_records(values, schema)
    assert not wrong.any()
    assert found.schema == schema.arrow
    wanted = [{**row, "map": list(row["map"].items())} for row in (ROW, other, ROW)]
    assert found.to_pylist() == wanted
    # A slice is read as it is.
    assert read_writer_records(values.slice(1, 1), schema)[0].to_pylist() == wanted[1:2]
    assert read_writer_records(values.slice(0, 0), schema)[0].num_rows == 0


def test_what_a_log_of_ours_writes() -> None:
    fields = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.decimal128(8, 2)), ("d", pa.date32())])
    text = to_avro_schema(TableSchema(0, assign_field_ids(fields), ("id",)))
    values = write(json.loads(text), {"id": 1, "p": "3.50", "d": None})
    found, wrong = read_writer_records(values, read_writer_schema(text))
    assert not wrong.any()
    assert found.to_pylist() == [{"id": 1, "p": "3.50", "d": None}]


def test_records_that_are_not_of_the_schema_are_reported_and_the_others_read() -> None:
    schema = record(("s", "string"), ("e", {"type": "enum", "name": "n", "symbols": ["A"]}), ("l", {"type": "array", "items": "int"}))  # fmt: skip  # noqa: E501
    (good,) = write(schema, {"s": "x", "e": "A", "l": [1, 2]}).to_pylist()
    bad = [
        b"", good[:-1], good + b"\0", b"\x02\xff" + good[2:], good[:2] + b"\x02" + good[3:], b"\x7f",
        b"\0\0\0\0\7" + good, b"\x02x\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ]  # fmt: skip
    found, wrong = read_writer_records(pa.array([good, *bad, good], pa.binary()), parse(schema))
    assert wrong.tolist() == [False, *[True] * len(bad), False]
    assert found.to_pylist()[0] == found.to_pylist()[-1] == {"s": "x", "e": "A", "l": [1, 2]}


def test_a_decimal_that_its_precision_does_not_hold_is_wrong() -> None:
    schema = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}))
    values = pa.array([b"\x04\x03\xe7", b"\x04\x03\xe8", b"\x00"], pa.binary())
    found, wrong = read_writer_records(values, parse(schema))
    assert wrong.tolist() == [False, True, True]
    assert found.column("d")[0].as_py() == Decimal("99.9")


def test_names_are_of_their_namespace() -> None:
    schema = record(
        ("a", {"type": "record", "name": "x", "namespace": "of.others", "fields": [
            {"name": "k", "type": {"type": "enum", "name": "kind", "symbols": ["A"]}}, {"name": "l", "type": "kind"},
        ]}),
        ("b", "of.others.kind"),
    )  # fmt: skip
    row = {"a": {"k": "A", "l": "A"}, "b": "A"}
    assert read_writer_records(write(schema, row), parse(schema))[0].to_pylist() == [row]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "it is no JSON"),
        ('"string"', "it is no record"),
        ('{"type": "record", "name": "r", "fields": []}', "the record r has no fields"),
        ('{"type": "record", "fields": [{"name": "a", "type": "int"}]}', "the record has no name"),
        (record(("a", ["int", "string"])), "field 'a' is a union of 2 types"),
        (record(("a", ["null", "int", "string"])), "field 'a' is a union of 3 types"),
        (record(("a", "null")), "it stands in unions only"),
        (record(("a", "colour")), "field 'a' has the type 'colour': there is no such type"),
        (record(("a", {"type": "array", "items": "r"})), "field 'a[]' holds the type r inside of itself"),
        (record(("a", "int"), ("a", "int")), "has the field 'a' twice"),
        (record(("a", {"type": "array"})), "field 'a[]' has no type"),
        (record(("a", {"type": "enum", "name": "e", "symbols": []})), "the enum e has no symbols"),
        (record(("a", {"type": "fixed", "name": "f", "size": 0})), "no size of 1 byte or more"),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2})),
            "field 'a' is a decimal of precision 60",
        ),
    ],
)
def test_schemas_that_have_no_columns_to_go_to(text: Any, part: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_writer_schema(text if isinstance(text, str) else json.dumps(text))
    assert part in caught.value.message
