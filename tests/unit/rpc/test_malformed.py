"""What a message must say, and the errors that name the field when it does not."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import Change, CommitRequest, RemoveFiles
from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.predicate import AllOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.types.column_changes import SetDefault
from lakelog.rpc.commit import from_proto_commit_request, to_proto_commit_request
from lakelog.rpc.messages import parse
from lakelog.rpc.plan import from_proto_plan_request
from lakelog.rpc.predicate import MAX_DEPTH, from_proto_predicate, to_proto_predicate
from lakelog.rpc.schema import from_ipc_schema, from_proto_column_change, to_ipc_schema, to_proto_column_change
from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2, types_pb2

FILE = DataFile("p", b"", 0, 0, 1, 0, 1, None, None, 0)
CHANGE = Change("t", SnapshotKind.APPEND, 0, 1)


def wire_commit(**change: object) -> snapshots_pb2.CommitRequest:
    fields = {"table_uuid": "t", "kind": types_pb2.SNAPSHOT_KIND_APPEND} | change
    return snapshots_pb2.CommitRequest(writer="w", identifier=1, changes=[snapshots_pb2.Change(**fields)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": 0}, ["changes[0].kind is not given", "APPEND"]),
        ({"kind": 77}, ["changes[0].kind", "77"]),
        ({"remove": snapshots_pb2.Removal()}, ["changes[0].remove", "everything"]),
        ({"remove": snapshots_pb2.Removal(everything=False)}, ["changes[0].remove.everything is false"]),
    ],
)
def test_a_change_that_says_too_little(change: dict[str, object], words: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        from_proto_commit_request(wire_commit(**change))
    for word in words:
        assert word in caught.value.message
    assert caught.value.metadata["field"].startswith("changes[0].")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (CommitRequest("w", 2**63, (CHANGE,)), "identifier"),
        (CommitRequest("w\ud800", 1, (CHANGE,)), "writer"),
        (CommitRequest("w", 1, (dataclasses.replace(CHANGE, schema_id=2**31),)), "schema_id"),
        (CommitRequest("w", 1, (dataclasses.replace(CHANGE, add_files=(dataclasses.replace(FILE, bucket=2**40),)),)),
         "bucket"),
        (CommitRequest("w", 1, (dataclasses.replace(CHANGE, add_files=(
            dataclasses.replace(FILE, statistics=(ColumnStatistics(1, 2**70, None, None),)),)),)),
         "null_count"),
        (CommitRequest("w", 1, (dataclasses.replace(CHANGE, remove=RemoveFiles((-(2**64),))),)), "file_ids"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_wire_type_is_named(request_: CommitRequest, field: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{field} cannot be .*(whole numbers from -|surrogates)") as caught:
        to_proto_commit_request(request_)
    assert caught.value.metadata["field"] == field


def test_a_predicate_must_say_something() -> None:
    inner = types_pb2.Predicate(all_of=types_pb2.PredicateList(operands=[types_pb2.Predicate()]))
    with pytest.raises(InvalidArgument, match=r"predicate\.all_of\[0\] says nothing"):
        from_proto_plan_request(snapshots_pb2.PlanRequest(table_uuid="t", predicate=inner))


@pytest.mark.parametrize(("number", "problem"), [(0, "is not given"), (99, "unknown value 99")])
def test_a_comparison_needs_a_known_operator(number: int, problem: str) -> None:
    comparison = types_pb2.Comparison(field_id=1, operator=number)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=problem):
        from_proto_predicate(types_pb2.Predicate(comparison=comparison))


def nested(depth: int) -> Predicate:
    predicate: Predicate = Comparison(1, Operator.IS_NULL)
    for _ in range(depth - 1):
        predicate = AllOf((predicate,))
    return predicate


def test_the_deepest_predicate_that_is_sent_can_be_parsed() -> None:
    request = snapshots_pb2.PlanRequest(predicate=to_proto_predicate(nested(MAX_DEPTH)))
    again = parse(snapshots_pb2.PlanRequest, request.SerializeToString())
    assert from_proto_plan_request(again).predicate == nested(MAX_DEPTH)


def test_a_deeper_predicate_is_refused_on_both_sides() -> None:
    with pytest.raises(InvalidArgument, match="nested more than 40 deep"):
        to_proto_predicate(nested(MAX_DEPTH + 1))
    wire = types_pb2.Predicate(all_of=types_pb2.PredicateList(operands=[to_proto_predicate(nested(MAX_DEPTH))]))
    with pytest.raises(InvalidArgument, match="nested more than 40 deep"):
        from_proto_predicate(wire)


GOOD_IPC = to_ipc_schema(pa.schema([pa.field("longname", pa.int64()), pa.field("b", pa.list_(pa.string()))]))


@pytest.mark.parametrize("ipc", [b"", b"\x00", b"not arrow", GOOD_IPC[:20], GOOD_IPC[:-16], b"\xff" * 64])
def test_bytes_that_are_no_arrow_schema(ipc: bytes) -> None:
    with pytest.raises(InvalidArgument, match=rf"arrow_schema \({len(ipc)} bytes\) is not an Arrow schema"):
        from_ipc_schema(ipc, "arrow_schema")


def test_a_schema_with_any_damaged_byte_is_read_or_refused_but_never_anything_else() -> None:
    outcomes = set()
    for position in range(len(GOOD_IPC)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(GOOD_IPC)
            damaged[position] ^= flip
            try:
                outcomes.add(type(from_ipc_schema(bytes(damaged), "arrow_schema")))
            except InvalidArgument:
                outcomes.add(InvalidArgument)
    assert outcomes == {pa.Schema, InvalidArgument}


def test_bytes_that_are_no_message() -> None:
    with pytest.raises(InvalidArgument, match=r"3 bytes are not a lakelog\.rpc\.v1\.CommitRequest"):
        parse(snapshots_pb2.CommitRequest, b"\x0a\xff\xff")


@pytest.mark.parametrize("column", [pa.list_(pa.struct([("inside", pa.int8())])), pa.timestamp("us", "inside")])
def test_texts_inside_of_types_are_utf8(column: pa.DataType) -> None:
    ipc = to_ipc_schema(pa.schema([("a", column)])).replace(b"inside", b"\xafnside")
    with pytest.raises(InvalidArgument, match=r"schema .* is not an Arrow schema"):
        from_ipc_schema(ipc, "schema")


def wire_default(value: bytes) -> catalog_pb2.ColumnChange:
    return catalog_pb2.ColumnChange(path=["v"], default_value=value)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_a_default_is_never_unpacked(compression: str | None) -> None:
    """Some KB of a compressed batch would become a gigabyte at the metastore, before anybody looks at its length."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([bytes(8 << 20)])], names=["value"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(batch)
    with pytest.raises(InvalidArgument, match=r"changes\.default_value .* has no value"):
        from_proto_column_change(wire_default(sink.getvalue().to_pybytes()))


@pytest.mark.parametrize(
    "field",
    [
        pa.field("value", pa.int32()),
        pa.field("value", pa.int32(), metadata={"value": "x"}),
        pa.field("value", pa.int32(), metadata={"value": b"\xff"}),
        pa.field("value", pa.binary(), metadata={"value": "0g"}),
        pa.field("value", pa.binary(1 << 30), metadata={"value": "00"}),
        pa.field("value", pa.list_(pa.int32(), 1 << 30), metadata={"value": "[1]"}),
        pa.field("value", pa.struct([("a", pa.int8())]), metadata={"value": "{}"}),
        pa.field("value", pa.decimal128(3, 1), metadata={"value": "1234567"}),
    ],
)
def test_a_default_that_is_no_value_is_refused(field: pa.Field) -> None:
    with pytest.raises(InvalidArgument, match=r"changes\.default_value"):
        from_proto_column_change(wire_default(to_ipc_schema(pa.schema([field]))))


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, 0.1, float("inf"), "text", "", b"\x00\xff", b"", dt.date(2026, 1, 2), Decimal("-1.50"),
        dt.datetime.fromisoformat("2026-01-02T03:04:05.000006"), dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        pa.scalar(7, pa.uint64()), pa.scalar(b"ab", pa.binary(2)), pa.scalar("x", pa.large_string()),
        pa.scalar(0.1, pa.float32()), pa.scalar(5, pa.timestamp("s", "Europe/Berlin")), pa.scalar(None, pa.int32()),
        pa.array(["a", "b"]).dictionary_encode()[1],
    ],
)  # fmt: skip
def test_a_default_arrives_as_it_was_given(value: Any) -> None:
    found = from_proto_column_change(to_proto_column_change(SetDefault("v", value)))
    assert isinstance(found, SetDefault)
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    assert (None if found.default is None else found.default.as_py()) == plain
