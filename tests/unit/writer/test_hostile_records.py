"""Records that mean harm: each is bad with its place and reason, and its neighbours are applied."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.decimal_text import has_shrinking_exponents
from lakelog.log.codecs import changes
from lakelog.log.codecs.avro import writer_records, writer_schema
from lakelog.log.codecs.avro.connect_types import ConnectType, read_connect_column, read_connect_types
from lakelog.log.codecs.avro.long_records import read_long_records
from lakelog.log.codecs.avro.writer_schema import read_writer_schema
from lakelog.log.codecs.json import dense, strings
from lakelog.log.codecs.json.scan import scan_json
from lakelog.records import json_records
from tests.support.hostile_records import (
    AVRO_SCHEMA,
    HOSTILE,
    SCHEMA_NUMBER,
    make_good,
    to_avro,
    to_header,
    to_varint,
)
from tests.support.repository import ROOT
from writer.kafka import tasks
from writer.kafka import values as values_module
from writer.pipeline.kafka_spec import AvroForm, RecordFormat

from .kafka_records import FIELDS, Case
from .topics import Topics

SIZES = pa.field("sizes", pa.list_(pa.int64()))


def make_case(topics: Topics, folder: Path, format_: str, **more: Any) -> Case:
    avro = AvroForm(read_writer_schema(AVRO_SCHEMA), SCHEMA_NUMBER) if format_ == "avro" else None
    return Case(topics, folder, RecordFormat(format_), avro=avro, fields=[*FIELDS, SIZES], **more)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("format_", list(HOSTILE))
def test_each_is_a_dead_letter_and_those_beside_it_are_rows(topics: Topics, tmp_path: Path, format_: str) -> None:
    """All at once, so that none of them is read as the one before it ends."""
    hostile = HOSTILE[format_]
    values: list[bytes | None] = [make_good(format_, 0)]
    keys = [b'{"id": 0}']
    for number, record in enumerate(hostile.values(), 1):
        values += [record.value, make_good(format_, number)]
        keys += [record.key, b'{"id": 1}']
    topics.send(*values, keys=keys)
    rows, bad = make_case(topics, tmp_path, format_).read(end=10**6)
    assert [(row["id"], row["item"]) for row in rows] == [(id_, f"item {id_}") for id_ in range(len(hostile) + 1)]
    by_offset = {letter["offset"]: letter for letter in bad}
    assert sorted(by_offset) == list(range(1, 2 * len(hostile), 2))
    for place, (name, record) in enumerate(hostile.items()):
        letter = by_offset[2 * place + 1]
        assert (letter["topic"], letter["partition"]) == ("orders", 0)
        assert letter["reason"], name
        assert record.reason in letter["reason"], name
        raw = base64.b64decode(letter["raw_base64"]) if "raw_base64" in letter else letter["raw"].encode()
        assert raw == (record.value or b""), name


@pytest.mark.parametrize("format_", list(HOSTILE))
def test_the_pipeline_stops_at_it_with_its_place_and_the_remedy(topics: Topics, tmp_path: Path, format_: str) -> None:
    record = HOSTILE[format_]["a decimal that Arrow dies of"]
    topics.send(make_good(format_, 1), record.value, make_good(format_, 2))
    with pytest.raises(InvalidArgument, match=r"offset 1 of partition 0 of topic 'orders'.*'price'.*dead-letter") as e:
        make_case(topics, tmp_path, format_, stop=True).read()
    assert e.value.metadata == {"topic": "orders", "partition": "0", "offset": "1"}


def test_without_the_check_of_exponents_the_process_dies() -> None:
    """The control: Arrow alone ends the process, or makes 0 of a number that is not 0."""
    program = (
        "import resource, pyarrow as pa; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        "pa.array(['1e-999999999']).cast(pa.decimal128(8, 2))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode < 0


@pytest.mark.parametrize("most_signs", [1_000, 1 << 40])
def test_a_text_of_nothing_but_signs_takes_no_more_than_its_bound(
    monkeypatch: pytest.MonkeyPatch, most_signs: int
) -> None:
    """The second is the control: what a scan keeps is many times the text."""
    monkeypatch.setattr(dense, "MOST_SIGNS", most_signs)
    few, many = b'{"id": [%s]}' % (b"{}," * 300 + b"1"), b'{"id": [%s]}' % (b"{}," * 30_000 + b"1")
    scan = scan_json(pa.array([few, many, few], pa.binary()))
    kept = sum(found.nbytes for found in (getattr(scan, each.name) for each in fields(scan)))
    assert scan.damaged.tolist() == [False, most_signs == 1_000, False]
    assert (kept > 50 * len(many)) == (most_signs != 1_000)
    # What lakelog's own logs hold is always read.
    assert not scan_json(pa.array([many], pa.binary()), is_bounded=False).damaged.any()


@pytest.mark.parametrize("half", [b"a\\u0", b"a\\u01", b"a\\ud83d", b"a\\u"])
def test_half_an_escape_takes_nothing_of_the_next_record(topics: Topics, tmp_path: Path, half: bytes) -> None:
    """Texts with escapes are read one after the other; the next one begins with what would complete the first."""
    whole = [b"041\\t", b"\\ude00\\ud83d\\ude00", b"\\tbc"]
    for text in whole[::2]:
        topics.send(b'{"id": 1, "item": "%s"}' % half, b'{"id": 2, "item": "%s", "price": "1"}' % text)
    topics.send(b'{"id": 1, "item": "%s"}' % half, b'{"id": 3, "item": "%s"}' % whole[1])
    rows, bad = make_case(topics, tmp_path, "json").read()
    assert [(row["id"], row["item"]) for row in rows] == [(2, "041\t"), (2, "\tbc")]
    assert len(bad) == 4


@pytest.mark.parametrize("ends", [True, False], ids=["protected", "control"])
def test_an_escape_ends_with_its_text(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """Else the first text takes bytes of the second one, of which less is left."""
    if not ends:
        write = strings._write_unicode
        monkeypatch.setattr(
            strings, "_write_unicode", lambda data, kept, at, _: write(data, kept, at, np.array([0, 1 << 40]))
        )
    texts, wrong = strings.unescape_texts(pa.array([b"a\\u0", b"041\\t"], pa.binary()))
    assert (wrong[0], texts[1].as_py()) == ((True, "041\t") if ends else (False, "\t"))
    _, wrong = strings.unescape_texts(pa.array([b"a\\ud83d", b"\\ude00\\t"], pa.binary()))
    assert wrong.tolist() == [ends, ends]


class Name(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("counts_once", [True, False], ids=["protected", "control"])
def test_of_many_names_the_one_that_stands_there_twice_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch, counts_once: bool
) -> None:
    def count_each(names: Iterator[str]) -> dict[str, int]:
        found = list(names)
        return {name: found.count(name) for name in found}

    if not counts_once:
        monkeypatch.setattr(json_records, "Counter", count_each)
    pairs = [(Name(f"k{number}"), 1) for number in range(500)]
    monkeypatch.setattr(Name, "compared", 0)
    with pytest.raises(ValueError, match="the field 'k499' stands there twice"):
        json_records._unique([*pairs, (Name("k499"), 2)])
    assert (Name.compared < 5_000) is counts_once


def test_records_are_read_in_pieces_of_few_bytes(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made of a piece is a hundred times as large, so 32 MB of a fetch at once would be gigabytes."""
    sizes: list[int] = []
    read = values_module.read_debezium_values

    def measure(values: pa.Array, *more: Any, **named: Any) -> Any:
        sizes.append(values.nbytes)
        return read(values, *more, **named)

    monkeypatch.setattr(tasks, "read_debezium_values", measure)
    topics.send(*(make_good("debezium-json", n, item="x" * 400_000) for n in range(40)), keys=[b"{}"] * 40)
    rows, bad = make_case(topics, tmp_path, "debezium-json").read(end=10**6)
    assert [row["id"] for row in rows] == list(range(40))
    assert bad == []
    assert max(sizes) < 5 << 20
    monkeypatch.setattr(tasks, "BLOCK_BYTES", 1 << 40)
    make_case(topics, tmp_path, "debezium-json").read(end=10**6)
    assert max(sizes) > 15 << 20


def test_a_name_that_arrow_reads_as_a_decimal_stays_quick() -> None:
    """UUIDs look like numbers with exponents in their middle; they must not send all records the slow way."""
    assert not has_shrinking_exponents(b'{"id": 1, "item": "7f9c24e5-2f1e-41d4-a716-44665544e-12"}')
    assert not has_shrinking_exponents(b'{"item": "one-way", "price": 1e5}')
    for text in (b'{"price":1e-5}', b'{"price": "-1.5E-50" }', b"1,2e-9,3", b".5e-1"):
        assert has_shrinking_exponents(text), text


def test_what_has_an_exponent_and_fits_is_a_decimal(topics: Topics, tmp_path: Path) -> None:
    texts = [b"1e0", b"25e-1", b'"25E-2"', b"1.50e3", b"1e+5", b"0e-38", b"150e-2"]
    topics.send(*(b'{"id": %d, "price": %s}' % (id_, text) for id_, text in enumerate(texts)))
    rows, bad = Case(topics, tmp_path).read()
    assert [str(row["price"]) for row in rows] == ["1.00", "2.50", "0.25", "1500.00", "100000.00", "0.00", "1.50"]
    assert bad == []


class Unlike(ConnectType):
    """An encoding that is like no other one."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize("is_by_encoding", [True, False], ids=["protected", "control"])
def test_as_many_schemas_of_debezium_as_records_are_each_read_once(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_by_encoding: bool
) -> None:
    """The scale, which a schema says, is not the same for all of them."""
    reads: list[ConnectType] = []

    def note(values: Any, type_: pa.DataType, encoding: ConnectType) -> pa.Array:
        reads.append(encoding)
        return read_connect_column(values, type_, encoding)

    def read_each(schema: bytes) -> dict[str, ConnectType]:
        return {name: Unlike(*astuple(encoding)) for name, encoding in read_connect_types(schema).items()}

    monkeypatch.setattr(changes, "read_connect_column", note)
    if not is_by_encoding:
        monkeypatch.setattr(changes, "read_connect_types", read_each)
    count = 3_000 if is_by_encoding else 90
    decimal = "org.apache.kafka.connect.data.Decimal"
    field = f'{{"field": "price", "name": "{decimal}", "parameters": {{"scale": "%d"}}, "n": %d}}'
    values = [
        f'{{"schema": {{"fields": [{{"field": "after", "fields": [{field % (n % 3, n)}]}}]}}, '
        f'"payload": {{"op": "c", "after": {{"id": {n}, "price": "ZA=="}}}}}}'
        for n in range(count)
    ]
    topics.send(*(value.encode() for value in values), b'{"op": "c", "after": {"id": 3000, "price": 100}}')
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON).read(end=10**6)
    assert [str(row["price"]) for row in rows] == ["100.00", "10.00", "1.00"] * (count // 3) + ["100.00"]
    assert bad == []
    assert (len(reads) < 44) is is_by_encoding


AVRO_OF_ALL = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "i", "type": {"type": "array", "items": "int"}},
        {"name": "s", "type": {"type": "array", "items": ["string", "null"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "boolean"}}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "y", "type": {"type": "int", "logicalType": "date"}},
        {"name": "f", "type": "float"},
        {"name": "e", "type": {"type": "enum", "name": "en", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "fx", "size": 3}},
        {"name": "c", "type": {"type": "record", "name": "in", "fields": [{"name": "a", "type": "double"}]}},
    ],
}


class Maker:
    """Makes records of `AVRO_OF_ALL`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def number(self, most: int) -> bytes:
        return to_varint(self.rng.randrange(-most, most))

    def text(self) -> bytes:
        return to_varint(2) + self.rng.choice([b"ab", b"\xc3\xa4", b"\0z"])

    def blocks(self, make: Callable[[], bytes]) -> bytes:
        return b"".join(to_varint(1) + make() for _ in range(self.rng.randrange(4))) + b"\0"

    def record(self) -> bytes:
        """One of three is whole, the others are damaged."""
        rng = self.rng
        made = bytearray(
            rng.choice([b"\0", b"\2" + self.number(1 << 63)])
            + self.blocks(lambda: self.number(1 << 31))
            + self.blocks(lambda: rng.choice([b"\2", b"\0" + self.text()]))
            + self.blocks(lambda: self.text() + self.blocks(lambda: rng.choice([b"\0", b"\1"])))
            + to_varint(5) + rng.randbytes(5) + self.number(1 << 62) + self.number(1 << 31) + rng.randbytes(4)
            + rng.choice([b"\0", b"\2"]) + b"abc" + rng.randbytes(8)
        )  # fmt: skip
        damage = rng.randrange(3)
        if damage == 1:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        elif damage == 2:
            del made[rng.randrange(len(made)) :]
        return bytes(made)


def to_comparable(table: pa.Table) -> str:
    """As text, as NaN is not equal to itself; times as numbers, as Python has none as far away."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    columns["t"], columns["y"] = columns["t"].view(pa.int64()), columns["y"].view(pa.int32())
    return str(pa.table(columns).to_pylist())


@pytest.mark.parametrize("seed", range(8))
def test_long_records_are_read_as_all_others(seed: int) -> None:
    schema = read_writer_schema(json.dumps(AVRO_OF_ALL))
    maker = Maker(seed)
    records = pa.array([maker.record() for _ in range(150)], pa.binary())
    at_once, wrong_at_once = writer_records.read_writer_records(records, schema)
    one_by_one, wrong = read_long_records(records, schema)
    assert wrong.tolist() == wrong_at_once.tolist()
    assert 0 < wrong.sum() < len(wrong)
    fine = pa.array(~wrong)
    assert to_comparable(at_once.filter(fine)) == to_comparable(one_by_one.filter(fine))


def test_a_long_array_takes_few_steps(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without a bound each element is a step, of 0.1 ms and more."""
    steps: list[int] = []
    begin = writer_records._Reader._begin_blocks

    def count(self: Any, *more: Any) -> Any:
        steps.append(1)
        return begin(self, *more)

    monkeypatch.setattr(writer_records._Reader, "_begin_blocks", count)

    def read(elements: int, folder: Path) -> list[dict[str, Any]]:
        folder.mkdir()
        steps.clear()
        sizes = to_varint(elements) + b"\2" * elements + b"\0"
        long = to_header(SCHEMA_NUMBER) + to_avro(1, sizes=sizes)
        topics.remake()
        topics.send(make_good("avro", 0), long, make_good("avro", 2))
        rows, bad = make_case(topics, folder, "avro").read()
        assert bad == []
        return rows

    rows = read(200_000, tmp_path / "bounded")
    assert [(row["id"], len(row["sizes"])) for row in rows] == [(0, 0), (1, 200_000), (2, 0)]
    assert len(steps) <= 2_001
    monkeypatch.setattr(writer_records, "_FEW_AT_ONCE", None)
    assert len(read(5_000, tmp_path / "unbounded")[1]["sizes"]) == 5_000
    assert len(steps) > 5_000


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_a_schema_whose_columns_multiply_is_refused(monkeypatch: pytest.MonkeyPatch, is_bounded: bool) -> None:
    def count_columns(type_: pa.DataType) -> int:
        if not pa.types.is_struct(type_):
            return 1
        return sum(count_columns(type_.field(place).type) for place in range(type_.num_fields))

    def make(depth: int) -> str:
        inner: Any = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "long"}]}
        for number in range(1, depth):
            fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{number - 1}"}]
            inner = {"type": "record", "name": f"r{number}", "fields": fields}
        return json.dumps(inner)

    assert len(read_writer_schema(make(8)).names) == 2
    if not is_bounded:
        monkeypatch.setattr(writer_schema, "_MOST_TYPES", 1 << 62)
        assert sum(map(count_columns, read_writer_schema(make(15)).arrow.types)) == 1 << 14
        read_writer_schema(make(30))
        return
    for depth in (15, 30):
        with pytest.raises(InvalidArgument, match="more than 10000 types"):
            read_writer_schema(make(depth))


@pytest.mark.parametrize("format_", list(HOSTILE))
@pytest.mark.parametrize("seed", range(8))
def test_bits_that_flip_make_bad_records_and_nothing_else(
    topics: Topics, tmp_path: Path, format_: str, seed: int
) -> None:
    """Any damage: each offset is a row or a dead letter, and the rows beside it are as they were sent."""
    rng = random.Random(f"{format_} {seed}")
    good = [make_good(format_, number, at="2026-01-31T12:00:00Z") for number in range(300)]
    values: list[bytes] = []
    for number, value in enumerate(good):
        damaged = bytearray(value)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        else:
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        values += [value, bytes(damaged)] if number % 2 else [value]
    topics.send(*values, keys=[b'{"id": "x"}'] * len(values))
    rows, bad = make_case(topics, tmp_path, format_, ignore_unknown=True).read(end=10**6)
    wanted = {(number, f"item {number}") for number in range(300)}
    assert wanted <= {(row["id"], row.get("item")) for row in rows}
    assert len({letter["offset"] for letter in bad}) == len(bad)
    # A damaged update of the key is two rows.
    assert len(rows) + len(bad) >= len(values)
