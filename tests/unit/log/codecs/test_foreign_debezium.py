"""Messages of Debezium's own connectors: with and without a schema, with each encoding of times and decimals."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.log.codecs.changes import Changes, read_debezium_changes

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("blob", pa.binary()),
    ]
)
MOMENT = datetime(2018, 6, 20, 13, 37, 3, 123000, tzinfo=UTC)
LOCAL = MOMENT.replace(tzinfo=None)
DAY = date(2018, 6, 20)
ROW = {"id": 1, "at": MOMENT, "local": LOCAL, "day": DAY, "price": Decimal("-123.45"), "blob": b"\x00\x01"}


def to_bytes(number: int) -> str:
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


def make_schema(**names: str) -> dict[str, Any]:
    fields = [{"field": column, "type": "int64", "optional": True} for column in SCHEMA.names]
    for field in fields:
        if str(field["field"]) in names:
            field["name"] = names[str(field["field"])]
            field["parameters"] = {"scale": "2", "connect.decimal.precision": "12"}
    rows = [{"type": "struct", "field": name, "fields": fields} for name in ("before", "after")]
    return {"type": "struct", "fields": [*rows, {"type": "string", "field": "op"}], "name": "shop.orders.Envelope"}


ADAPTIVE = make_schema(
    at="io.debezium.time.ZonedTimestamp",
    local="io.debezium.time.MicroTimestamp",
    day="io.debezium.time.Date",
    price="org.apache.kafka.connect.data.Decimal",
)
CONNECT = make_schema(
    at="org.apache.kafka.connect.data.Timestamp",
    local="org.apache.kafka.connect.data.Timestamp",
    day="org.apache.kafka.connect.data.Date",
    price="org.apache.kafka.connect.data.Decimal",
)
MILLIS = int(MOMENT.timestamp() * 1000)
ADAPTIVE_ROW = {
    "id": 1, "at": "2018-06-20T13:37:03.123Z", "local": MILLIS * 1000, "day": 17702,
    "price": to_bytes(-12345), "blob": "AAE=",
}  # fmt: skip
CONNECT_ROW = {**ADAPTIVE_ROW, "at": MILLIS, "local": MILLIS}
OFFSET_ROW = {**ADAPTIVE_ROW, "at": "2018-06-20T15:37:03.123+02:00"}


def wrap(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def message(op: str, after: Any, before: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "shop"}, "op": op, "ts_ms": 1, "transaction": None}


def read(*values: bytes | None, time_unit: str | None = None, schema: pa.Schema = SCHEMA) -> Changes:
    return read_debezium_changes(pa.array(values, pa.binary()), schema, time_unit=time_unit)


@pytest.mark.parametrize(("schema", "row"), [(ADAPTIVE, ADAPTIVE_ROW), (CONNECT, CONNECT_ROW), (ADAPTIVE, OFFSET_ROW)])
def test_what_the_schema_says_of_times_and_decimals_is_done(schema: Any, row: Any) -> None:
    found = read(wrap(schema, message("c", row)))
    assert found.rows.to_pylist() == [ROW]
    assert not found.wrong.any()


def test_records_of_several_schemas_are_read_each_by_its_own() -> None:
    nothing = dict.fromkeys(SCHEMA.names) | {"id": 7}
    found = read(
        wrap(CONNECT, message("u", CONNECT_ROW, nothing)),
        wrap(ADAPTIVE, message("d", None, ADAPTIVE_ROW)),
        None,
        json.dumps(message("r", nothing)).encode(),
        wrap(CONNECT, message("c", CONNECT_ROW)),
        wrap(None, None),
    )
    assert found.rows.to_pylist() == [ROW, ROW, dict.fromkeys(SCHEMA.names), nothing, ROW, dict.fromkeys(SCHEMA.names)]
    assert [int(kind) for kind in found.kinds] == [2, 3, 0, 0, 0, 0]
    assert found.has_row.tolist() == [True, True, False, True, True, False]
    assert found.before is not None
    assert found.before.slice(0, 1).to_pylist() == [nothing]
    assert found.has_before.tolist() == [True] + [False] * 5
    assert not found.wrong.any()


def test_without_a_schema_the_unit_of_times_must_be_said() -> None:
    row = {"id": 1, "local": MILLIS}
    text = json.dumps(message("c", row)).encode()
    assert read(text).wrong.tolist() == [True]
    assert read(text, time_unit="ms").rows["local"].to_pylist() == [LOCAL]
    micros = json.dumps(message("c", {"id": 1, "local": MILLIS * 1000, "day": 17702})).encode()
    found = read(micros, time_unit="us")
    assert (found.rows["local"].to_pylist(), found.rows["day"].to_pylist()) == ([LOCAL], [DAY])
    nanos = json.dumps(message("c", {"id": 1, "local": MILLIS * 10**6})).encode()
    assert read(nanos, time_unit="ns").rows["local"].to_pylist() == [LOCAL]
    # Days are days in every mode.
    assert read(json.dumps(message("c", {"id": 1, "day": 17702})).encode()).rows["day"].to_pylist() == [DAY]


@pytest.mark.parametrize(
    "wrong",
    [
        wrap(CONNECT, message("c", {**CONNECT_ROW, "at": 2**62})),
        wrap(make_schema(local="io.debezium.time.NanoTimestamp"), message("c", {"id": 1, "local": 1001})),
        wrap(ADAPTIVE, message("c", {**ADAPTIVE_ROW, "price": to_bytes(10**13)})),
        wrap(ADAPTIVE, message("c", {**ADAPTIVE_ROW, "price": base64.b64encode(bytes(17)).decode()})),
        wrap(ADAPTIVE, message("c", {**ADAPTIVE_ROW, "price": ""})),
        wrap(ADAPTIVE, message("c", {**ADAPTIVE_ROW, "price": -123.45})),
        wrap(ADAPTIVE, message("x", ADAPTIVE_ROW)),
        wrap(ADAPTIVE, message("c", None)),
        wrap(ADAPTIVE, message("c", [1])),
        b'{"op":"c","after":7}',
        b'{"id":1}',
        b"7",
    ],
)
def test_a_wrong_message_is_reported_and_harms_no_other(wrong: bytes) -> None:
    good = wrap(ADAPTIVE, message("c", ADAPTIVE_ROW))
    found = read(good, wrong, good)
    assert found.wrong.tolist() == [False, True, False]
    assert found.has_row.tolist() == [True, False, True]
    assert [found.rows.to_pylist()[place] for place in (0, 2)] == [ROW, ROW]


def test_decimals_of_all_lengths_and_signs() -> None:
    numbers = [0, 1, -1, 127, 128, -128, -129, 10**38 - 1, -(10**38) + 1]
    schema = pa.schema([("price", pa.decimal128(38, 2))])
    found = read(*(wrap(ADAPTIVE, message("c", {"price": to_bytes(number)})) for number in numbers), schema=schema)
    assert found.rows["price"].cast(pa.string()).to_pylist() == [
        f"{'-' * (number < 0)}{abs(number) // 100}.{abs(number) % 100:02}" for number in numbers
    ]
    assert not found.wrong.any()
