"""Records that mean harm, by what a pipeline reads them as; each is bad, and stands between good ones in a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

AVRO_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "item", "type": ["null", "string"]},
            {"name": "price", "type": "string"},
            {"name": "sizes", "type": {"type": "array", "items": "long"}},
        ],
    }
)
"""Fits a table with `id BIGINT NOT NULL, item STRING, price DECIMAL(8,2), at TIMESTAMP, sizes ARRAY<BIGINT>`."""

SCHEMA_NUMBER: Final = 7
"""The number of `AVRO_SCHEMA` in a registry."""

_DEPTHS: Final = (985, 1_001, 100_000)
"""About Python's limit, beyond that of the scan, and far beyond every stack."""


@dataclass(frozen=True)
class Hostile:
    """A record.

    Args:
        value: Its value.
        reason: Words of the reason why it is bad.
        key: Its key.
    """

    value: bytes | None
    reason: str = ""
    key: bytes = b'{"id": "no number"}'


def _nest(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _json() -> dict[str, Hostile]:
    many = b",".join(b'"k%d":1' % number for number in range(60_000))
    return {
        **{f"{depth} deep": Hostile(b'{"id": 1, "item": %s}' % _nest(depth)) for depth in _DEPTHS},
        "a decimal that Arrow dies of": Hostile(b'{"id": 1, "price": 1e-999999999}', "DECIMAL(8,2)"),
        "the same as a text": Hostile(b'{"id": 1, "price": "1e-999999999"}', "DECIMAL(8,2)"),
        "a decimal that Arrow makes 0 of": Hostile(b'{"id": 1, "price": 1e-41}', "DECIMAL(8,2)"),
        "a whole number with such an exponent": Hostile(b'{"id": 1e-999999999}', "BIGINT"),
        "a number beyond int64": Hostile(b'{"id": 9223372036854775808}', "BIGINT"),
        "a number of 100,000 digits": Hostile(b'{"id": %s}' % (b"9" * 100_000), "BIGINT"),
        "NaN": Hostile(b'{"id": NaN}', "BIGINT"),
        "a decimal that is infinite": Hostile(b'{"id": 1, "price": Infinity}', "DECIMAL(8,2)"),
        "a day that is none": Hostile(b'{"id": 1, "at": "2026-02-30T00:00:00Z"}', "'at'"),
        "a year beyond all": Hostile(b'{"id": 1, "at": "+999999-01-01T00:00:00Z"}', "'at'"),
        "a name twice": Hostile(b'{"id": 1, "id": 2}', "twice"),
        "a name twice, the last of many": Hostile(b'{"id": 1, %s, "k59999": 2}' % many, "'k59999' stands there twice"),
        "no UTF-8": Hostile(b'{"id": 1, "item": "\xff\xfe"}'),
        "half of a pair of surrogates": Hostile(b'{"id": 1, "item": "\\ud800"}', "'item'"),
        "half of one as a name": Hostile(b'{"id": 1, "\\udfff": 1}', "no column"),
        "the wrong type": Hostile(b'{"id": [1]}', "BIGINT"),
        "half a record": Hostile(b'{"id": 1, "item": "te'),
        "two records": Hostile(b'{"id": 1}{"id": 2}'),
        "no record": Hostile(b"\0\1\2\3"),
        "a page": Hostile(b"<html><body>502 Bad Gateway</body></html>", "not one JSON object"),
        "a tombstone": Hostile(None, "tombstone"),
        "nothing": Hostile(b""),
        "a million brackets": Hostile(b'{"id": 1, "item": [%s]}' % b",".join([b"[]"] * 400_000), "brackets, commas"),
    }


def _change(after: bytes, *, schema: bytes = b"", op: bytes = b'"c"', more: bytes = b"") -> bytes:
    message = b'{"op": %s, "after": %s%s}' % (op, after, more)
    return b'{"schema": %s, "payload": %s}' % (schema, message) if schema else message


def _of_price(scale: bytes) -> bytes:
    field = b'{"field": "price", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": %s}}' % scale
    return b'{"fields": [{"field": "after", "fields": [%s]}]}' % field


def _debezium() -> dict[str, Hostile]:
    row, no_message = b'{"id": 1, "price": "AAAA"}', "no message of Debezium"
    return {
        **{f"{depth} deep": Hostile(_change(b'{"id": 1, "item": %s}' % _nest(depth))) for depth in _DEPTHS},
        **{
            f"a schema that is {depth} deep": Hostile(_change(row, schema=b'{"fields": %s}' % _nest(depth)))
            for depth in _DEPTHS
        },
        "a schema that is no UTF-8": Hostile(_change(row, schema=b'{"a": "\xc3"}'), "'price'"),
        "an infinite scale": Hostile(_change(row, schema=_of_price(b"1e999")), "'price'"),
        "a scale beyond int64": Hostile(_change(row, schema=_of_price(b"9" * 30)), "'price'"),
        "a scale that is a list": Hostile(_change(row, schema=_of_price(b'["2"]')), "'price'"),
        "no schema as a schema": Hostile(_change(row, schema=b'{"fields": {"a": 7}}'), "'price'"),
        "a decimal that Arrow dies of": Hostile(_change(b'{"id": 1, "price": 1e-999999999}'), "DECIMAL(8,2)"),
        "the same as a text": Hostile(_change(b'{"id": 1, "price": "1e-999999999"}'), "DECIMAL(8,2)"),
        "a decimal that Arrow makes 0 of": Hostile(_change(b'{"id": 1, "price": "1e-41"}'), "DECIMAL(8,2)"),
        "a number beyond int64": Hostile(_change(b'{"id": 9223372036854775808}'), "BIGINT"),
        "NaN": Hostile(_change(b'{"id": NaN}'), "BIGINT"),
        "a time without its unit": Hostile(_change(b'{"id": 1, "at": 9223372036854775807}'), "source.time_unit"),
        "half of a pair of surrogates": Hostile(_change(b'{"id": 1, "item": "\\ud800"}'), "'item'"),
        "no op": Hostile(b'{"after": {"id": 1}}', no_message),
        "an unknown op": Hostile(_change(b'{"id": 1}', op=b'"x"'), no_message),
        "an op of a truncated table": Hostile(_change(b'{"id": 1}', op=b'"t"'), no_message),
        "an op that is a list": Hostile(_change(b'{"id": 1}', op=b'["c"]'), no_message),
        "no new row": Hostile(b'{"op": "c"}', no_message),
        "a new row that is a text": Hostile(_change(b'"x"'), no_message),
        "an old row that is a number": Hostile(_change(b'{"id": 1}', op=b'"u"', more=b', "before": 7'), no_message),
        "no primary key": Hostile(_change(b'{"item": "x"}'), "NOT NULL"),
        "a key that changes to none": Hostile(
            _change(b'{"id": null}', op=b'"u"', more=b', "before": {"id": 1}'), "NOT NULL"
        ),
        "a delete without row and key": Hostile(b'{"op": "d"}', "neither an old row nor a key"),
        "a delete whose key is 100,000 deep": Hostile(b'{"op": "d"}', "neither an old row nor a key", _nest(100_000)),
        "a delete whose key is no text": Hostile(b'{"op": "d"}', "neither an old row nor a key", b"\xff\0"),
        "half a message": Hostile(_change(b'{"id": 1}')[:-3], no_message),
        "a page": Hostile(b"<html></html>", no_message),
        "a million brackets": Hostile(_change(b'{"id": 1, "item": [%s]}' % b",".join([b"[]"] * 400_000))),
    }


def to_varint(number: int) -> bytes:
    """An int or long of Avro."""
    left = ((number << 1) ^ (number >> 63)) & ((1 << 64) - 1)
    found = b""
    while left > 0x7F:
        found += bytes([left & 0x7F | 0x80])
        left >>= 7
    return found + bytes([left])


def to_avro(id_: int, price: bytes = b"3.50", *, item: bytes = b"\0", sizes: bytes = b"\0") -> bytes:
    """A record of `AVRO_SCHEMA`; `item` and `sizes` are encoded already."""
    return to_varint(id_) + item + to_varint(len(price)) + price + sizes


def to_header(number: int) -> bytes:
    """What stands before a record that a client of a registry has sent."""
    return b"\0" + number.to_bytes(4, "big")


def _avro() -> dict[str, Hostile]:
    no_record, other = "no record of the schema", "another schema than"
    bodies: Mapping[str, tuple[bytes, str]] = {
        "a block of 2^62 elements": (to_avro(1, sizes=to_varint(1 << 62)), no_record),
        "a block of -2^62": (to_avro(1, sizes=to_varint(-(1 << 62))), no_record),
        "a block of -2^63": (to_avro(1, sizes=to_varint(-(1 << 63)) + b"\2"), no_record),
        "an array without its end": (to_avro(1, sizes=to_varint(3) + b"\2" * 3), no_record),
        "an array of 200,000 and no end": (to_avro(1, sizes=to_varint(200_000) + b"\2" * 200_000), no_record),
        "a text of 2^31": (to_avro(1, item=b"\2" + to_varint(1 << 31) + b"x"), no_record),
        "a text of -1": (to_avro(1, item=b"\2" + to_varint(-1)), no_record),
        "the third branch of two": (to_avro(1, item=to_varint(2)), no_record),
        "a branch below 0": (to_avro(1, item=to_varint(-1)), no_record),
        "no UTF-8": (to_avro(1, item=b"\2" + to_varint(2) + b"\xff\xfe"), no_record),
        "a number of 11 bytes": (b"\xff" * 11 + to_avro(1), no_record),
        "half a record": (to_avro(1)[:-2], no_record),
        "more than a record": (to_avro(1) + b"\0", no_record),
        "nothing": (b"", no_record),
        "a decimal that Arrow dies of": (to_avro(1, b"1e-999999999"), "DECIMAL(8,2)"),
        "a decimal that Arrow makes 0 of": (to_avro(1, b"1e-999"), "DECIMAL(8,2)"),
    }
    found = {name: Hostile(to_header(SCHEMA_NUMBER) + body, reason) for name, (body, reason) in bodies.items()}
    return found | {
        "an unknown number": Hostile(to_header(8) + to_avro(1), other),
        "the largest number": Hostile(b"\0\xff\xff\xff\xff" + to_avro(1), other),
        "another format": Hostile(b"\1" + to_header(SCHEMA_NUMBER)[1:] + to_avro(1), other),
        "half a header": Hostile(b"\0\0", other),
        "no header": Hostile(to_avro(1), other),
        "a page": Hostile(b"<html></html>", other),
        "a tombstone": Hostile(None, "tombstone"),
    }


HOSTILE: Final[Mapping[str, Mapping[str, Hostile]]] = {
    "json": _json(),
    "debezium-json": _debezium(),
    "avro": _avro(),
}
"""By format and what is wrong."""


def make_good(format_: str, id_: int, **more: Any) -> bytes:
    """A record that is as it should be."""
    row = {"id": id_, "item": f"item {id_}", "price": "3.50", **more}
    if format_ == "avro":
        text = f"item {id_}".encode()
        return to_header(SCHEMA_NUMBER) + to_avro(id_, item=b"\2" + to_varint(len(text)) + text)
    return json.dumps(row if format_ == "json" else {"op": "c", "after": row}).encode()
