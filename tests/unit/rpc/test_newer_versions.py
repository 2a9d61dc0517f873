"""What only a newer version can say: an older one refuses it with an error that says so, or passes over it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from lakelog.cli.failures import ExitCode, exit_code_of
from lakelog.client.connection.status import from_proto_status, to_proto_status
from lakelog.errors import InvalidArgument, LakelogError, NotFound, Unavailable
from lakelog.options.values import TableOptions
from lakelog.rpc.job import JOB_COUNT, JOB_RUN, from_proto_job, from_proto_service
from lakelog.rpc.messages import parse
from lakelog.rpc.predicate import from_proto_predicate
from lakelog.rpc.snapshot import from_proto_snapshot
from lakelog.rpc.table import from_proto_grant, from_proto_identity
from lakelog.rpc.table_files import from_proto_attempt, from_proto_used_file
from lakelog.rpc.unary import SERVICES
from lakelog.rpc.v1 import grants_pb2, jobs_pb2, presence_pb2, table_files_pb2, types_pb2
from lakelog.serving.streams.exit_status import to_stream_exit_code

NEW = 77
APPEND = types_pb2.SNAPSHOT_KIND_APPEND
READERS: Mapping[str, Callable[[Any], object]] = {
    "SnapshotKind": lambda n: from_proto_snapshot(types_pb2.Snapshot(kind=n)),
    "ChangelogState": lambda n: from_proto_snapshot(types_pb2.Snapshot(kind=APPEND, changelog=n)),
    "LogContent": lambda n: from_proto_snapshot(types_pb2.Snapshot(kind=APPEND, log=n)),
    "Operator": lambda n: from_proto_predicate(types_pb2.Predicate(comparison=types_pb2.Comparison(operator=n))),
    "JobState": lambda n: from_proto_job(jobs_pb2.Job(state=n)),
    "JobStatus": lambda n: JOB_COUNT.from_proto(jobs_pb2.JobCount(status=n)),
    "RunResult": lambda n: JOB_RUN.from_proto(jobs_pb2.JobRun(result=n)),
    "ServiceState": lambda n: from_proto_service(presence_pb2.Service(state=n)),
    "GrantLevel": lambda n: from_proto_grant(grants_pb2.Grant(level=n)),
    "FileUse": lambda n: from_proto_used_file(table_files_pb2.UsedFile(use=n)),
    "CallerRole": lambda n: from_proto_identity(grants_pb2.WhoAmIResponse(role=n, sign_in=grants_pb2.SIGN_IN_NONE)),
    "SignIn": lambda n: from_proto_identity(grants_pb2.WhoAmIResponse(role=grants_pb2.CALLER_ROLE_READER, sign_in=n)),
    "AttemptState": lambda n: from_proto_attempt(table_files_pb2.AttemptAge(state=n)),
}


def walk(message: Descriptor, seen: set[str]) -> Iterator[Descriptor]:
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    yield message
    for field in message.fields:
        if field.message_type is not None:
            yield from walk(field.message_type, seen)


def list_messages() -> list[Descriptor]:
    """All messages of the metastore's calls."""
    seen: set[str] = set()
    return [
        message
        for service in SERVICES.values()
        for method in service.methods
        for root in (method.input_type, method.output_type)
        for message in walk(root, seen)
    ]


def find_enums() -> dict[str, EnumDescriptor]:
    fields = (field for message in list_messages() for field in message.fields)
    return {field.enum_type.name: field.enum_type for field in fields if field.enum_type is not None}


def test_all_enums_are_known_here() -> None:
    assert find_enums().keys() == READERS.keys()


@pytest.mark.parametrize("name", READERS)
def test_an_unknown_value_of_an_enum_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(LakelogError, match=rf"{NEW}.*newer") as refused:
        READERS[name](NEW)
    assert not isinstance(refused.value, KeyError)
    for number in find_enums()[name].values_by_number:
        try:
            READERS[name](number)
        except LakelogError as error:
            assert number == 0 or "unknown value" not in error.message, "known values are no values of the future"  # noqa: PT017


def test_unknown_fields_are_passed_over() -> None:
    """Field 15,000, a text: every message of every call can have it."""
    unknown = bytes.fromhex("c2a907036e6577")
    for message in list_messages():
        kind: type[Message] = GetMessageClass(message)
        assert parse(kind, unknown).ByteSize() == len(unknown), message.full_name
        assert not parse(kind, unknown).ListFields()


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE])
def test_an_unknown_reason_keeps_the_kind_and_reaches_the_user(code: grpc.StatusCode) -> None:
    kind = {grpc.StatusCode.NOT_FOUND: NotFound, grpc.StatusCode.UNAVAILABLE: Unavailable}[code]
    sent = to_proto_status(kind("The branch is gone. Make it again.", reason="BRANCH_GONE", metadata={"branch": "b"}))
    error = from_proto_status(sent)
    assert type(error) is kind
    assert (error.reason, error.metadata, str(error)) == ("BRANCH_GONE", {"branch": "b"}, sent.message)
    assert exit_code_of(error) in (ExitCode.NOT_FOUND, ExitCode.UNAVAILABLE)
    assert to_stream_exit_code(error, {}) in (7, 8)


def test_an_unknown_option_of_a_table_names_the_way_out() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("If a newer version of lakelog set it, use that version.")):
        TableOptions({"moonlight": "true"})
    assert TableOptions({"bucket": "2"}).given() == {"bucket": "2"}
