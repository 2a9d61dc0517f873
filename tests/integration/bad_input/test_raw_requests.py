"""Requests made by hand: any field may hold anything; the metastore answers with an error that helps, and serves on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lakelog
from lakelog.client.connection.status import DETAILS_KEY, from_proto_status
from lakelog.embedded.services import is_serving
from lakelog.errors import InternalError, LakelogError, OutcomeUnknown
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import catalog_pb2, jobs_pb2, snapshots_pb2, types_pb2
from lakelog.testing import EmbeddedStack

EXAMPLES = int(os.environ.get("LAKELOG_FUZZ_EXAMPLES", "60"))

FILES = (catalog_pb2, jobs_pb2, snapshots_pb2)
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
CALLS = sorted(name for name, method in METHODS.items() if not method.client_streaming and not name.endswith("Watch"))
STREAMS = sorted(set(METHODS) - set(CALLS))

SCHEMA_BYTES = (
    pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string())]).serialize().to_pybytes()
)
TEXTS = [
    "", "shop", "shop.t", "t", "k", "p", "nothing", "a" * 129, "a.b", "../..", "'; DROP TABLE x; --", "\x00", "ż" * 200,
    "0" * 32, "f" * 32, "F" * 32, "g" * 32, "data/x.parquet", "data/" + "0" * 32 + "/1.parquet", "s3://x", "bucket",
    "-1", "4", "dynamic", "merge-engine", "%s", "\ud7ff\U0010ffff", "NaN",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 7, 127, 128, 2**31 - 1, -(2**31), 1000, 10**6, 2**63 - 1, -(2**63)]
UNSIGNED = [0, 1, 2**31, 2**32 - 1]


def numbers(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kinds = FieldDescriptor
    if field.cpp_type == kinds.CPPTYPE_INT32:
        return st.sampled_from([n for n in NUMBERS if -(2**31) <= n < 2**31]) | st.integers(-(2**31), 2**31 - 1)
    if field.cpp_type == kinds.CPPTYPE_INT64:
        return st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1)
    if field.cpp_type == kinds.CPPTYPE_UINT32:
        return st.sampled_from(UNSIGNED)
    return st.sampled_from([*UNSIGNED, 2**63, 2**64 - 1])


def single(field: FieldDescriptor, depth: int, known: dict[str, list[Any]]) -> st.SearchStrategy[Any]:
    kinds = FieldDescriptor
    if field.cpp_type == kinds.CPPTYPE_MESSAGE:
        assert field.message_type is not None
        return messages(field.message_type, depth - 1, known)
    if field.cpp_type == kinds.CPPTYPE_BOOL:
        return st.booleans()
    if field.cpp_type == kinds.CPPTYPE_ENUM:
        # proto3 enums are open: any number may come.
        return st.integers(0, 6) | st.sampled_from([-1, 2**31 - 1])
    if field.cpp_type in (kinds.CPPTYPE_DOUBLE, kinds.CPPTYPE_FLOAT):
        return st.floats(width=32)
    if field.type == kinds.TYPE_BYTES:
        return st.sampled_from(
            [b"", b"\x00", SCHEMA_BYTES, SCHEMA_BYTES[:-9], b"\xff" * 3000, *known["bytes"]]
        ) | st.binary(max_size=40)
    if field.type == kinds.TYPE_STRING:
        return st.sampled_from([*known["text"], *known["text"], *TEXTS]) | st.text(max_size=20)
    return numbers(field)


def messages(of: Descriptor, depth: int, known: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Any content of a message, as nested dicts, with values that mean something mixed in."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in of.fields:
        if field.message_type is not None and depth <= 0:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            fields[field.name] = st.dictionaries(single(key, depth, known), single(value, depth, known), max_size=2)
        elif field.is_repeated:
            fields[field.name] = st.lists(single(field, depth, known), max_size=3)
        else:
            fields[field.name] = single(field, depth, known)
    return st.fixed_dictionaries({}, optional=fields)


def fill(message: Message, values: dict[str, Any]) -> Message:
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        target = getattr(message, name)
        if isinstance(value, dict) and field.is_repeated:
            for key, item in value.items():
                if isinstance(item, dict):
                    fill(target[key], item)
                else:
                    target[key] = item
        elif isinstance(value, dict):
            target.SetInParent()
            fill(target, value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    fill(target.add(), item)
                else:
                    target.append(item)
        else:
            setattr(message, name, value)
    return message


def message_of(name: str, values: dict[str, Any]) -> Message:
    from google.protobuf.message_factory import GetMessageClass

    return fill(GetMessageClass(METHODS[name].input_type)(), values)


class Server:
    """The running server, and what a request may name that exists there."""

    def __init__(self, stack: EmbeddedStack) -> None:
        self.stack = stack
        # The types want what each method's serializers take; here it is bytes for all.
        self.channel: Any = grpc.insecure_channel(stack.target)
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("fuzz", if_not_exists=True)
            keyed = catalog.create_table(
                "fuzz.keyed",
                pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.string())]),
                primary_key=["k", "p"],
                partition_by=["p"],
                if_not_exists=True,
            )
            log = catalog.create_table("fuzz.log", pa.schema([("v", pa.string())]), if_not_exists=True)
            keyed.upsert(pa.table({"k": [1], "p": ["x"], "v": ["y"]}))
            staged = catalog.metastore.stage_attempt([keyed.uuid], "fuzzer").attempt_id
        self.tables = [keyed.uuid, log.uuid]
        self.known: dict[str, list[Any]] = {
            "text": [keyed.uuid, log.uuid, staged, "fuzz", "keyed", "log", f"data/{staged}/1.parquet", "fuzzer", "p"],
            "bytes": [],
        }

    def call(self, name: str, request: bytes, *, streaming_in: bool = False) -> LakelogError | None:
        """Makes a call and returns the error it got."""
        # Not the descriptor's own streaming mark: of a stream the first answer or error is enough.
        method = METHODS[name]
        try:
            if streaming_in:
                answers: Any = self.channel.stream_stream(name)(iter([request]), timeout=10)
                next(iter(answers), None)
                answers.cancel()
            elif method.server_streaming:
                answers = self.channel.unary_stream(name)(request, timeout=10)
                for _ in range(3):
                    if next(answers, None) is None:
                        break
                answers.cancel()
            else:
                self.channel.unary_unary(name)(request, timeout=10)
        except grpc.RpcError as error:
            return self._read(name, error)
        return None

    @staticmethod
    def _read(name: str, error: Any) -> LakelogError:
        details = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
        assert details is not None, f"{name} failed without details: {error.code()} {error.details()}"
        found = from_proto_status(parse(types_pb2.Status, details))
        assert found is not None
        return found


@pytest.fixture(scope="module")
def server(bad_input_stack: EmbeddedStack) -> Iterator[Server]:
    server = Server(bad_input_stack)
    yield server
    server.channel.close()


def check(server: Server, name: str, request: Message | bytes, error: LakelogError | None) -> None:
    if error is None:
        return
    shown = str(request)[:1500]
    assert not isinstance(error, (InternalError, OutcomeUnknown)), f"{name}: {error.message}\n{shown}"
    assert error.reason != "INTERNAL", f"{name}: {error.message}\n{shown}"
    assert len(error.message) > 15, f"{name}: {error.message!r} says too little\n{shown}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CALLS)
def test_any_request_gets_an_answer_that_is_no_defect(server: Server, name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(messages(METHODS[name].input_type, 5, server.known))
    def ask(values: dict[str, Any]) -> None:
        request = message_of(name, values)
        check(server, name, request, server.call(name, request.SerializeToString()))

    ask()
    assert is_serving(server.stack.target)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STREAMS)
def test_any_first_message_of_a_stream_gets_an_answer_that_is_no_defect(server: Server, name: str) -> None:
    method = METHODS[name]

    @settings(max_examples=EXAMPLES // 2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(messages(method.input_type, 5, server.known))
    def ask(values: dict[str, Any]) -> None:
        request = message_of(name, values)
        if not method.client_streaming:
            # A watch that may begin has nothing to say until something is committed.
            try:
                answers = server.channel.unary_stream(name)(request.SerializeToString(), timeout=0.3)
                next(answers, None)
                answers.cancel()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    check(server, name, request, server._read(name, error))
            return
        check(server, name, request, server.call(name, request.SerializeToString(), streaming_in=True))

    ask()
    assert is_serving(server.stack.target)


@pytest.mark.timeout(300)
@settings(max_examples=EXAMPLES * 2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CALLS), st.binary(max_size=60))
@example(CALLS[0], b"\xff\xff\xff\xff\xff\xff")
def test_bytes_that_are_no_message_are_refused(server: Server, name: str, data: bytes) -> None:
    check(server, name, data, server.call(name, data))


def test_the_server_wrote_no_internal_error_and_serves_on(server: Server) -> None:
    assert is_serving(server.stack.target)
    lines = server.stack.logs["metastore"].read_text().splitlines()
    bad = [line for line in lines if '"internal error"' in line or "Traceback" in line]
    assert bad == []


def test_requests_above_the_size_limit_are_refused_and_name_the_limit(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        server.channel.unary_unary(CALLS[0])(b"\x00" * (65 << 20), timeout=30)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert is_serving(server.stack.target)
