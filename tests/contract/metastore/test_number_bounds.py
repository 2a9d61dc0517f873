"""Every number of every request has bounds, and what lies beyond them is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

import lakelog
from bench.requests.methods import INTEGERS, METASTORE_METHODS, is_map, list_fields, make_message
from lakelog.client.connection.status import DETAILS_KEY, from_proto_status
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import (
    consumers_pb2,
    jobs_pb2,
    presence_pb2,
    publishing_pb2,
    snapshots_pb2,
    table_files_pb2,
    types_pb2,
)
from metastore.store.limits import BOUNDS, MAX_INT32, MAX_INT64, NOT_READ

T = "a" * 32
A = "b" * 32

ALL_FIELDS = {
    name: field
    for method in METASTORE_METHODS.values()
    for name, field in list_fields(method.input_type).items()
    if field.cpp_type in INTEGERS
}


def test_each_number_of_a_request_has_bounds_and_no_others_are_listed() -> None:
    assert sorted(ALL_FIELDS) == sorted({*BOUNDS, *NOT_READ})


def make_file() -> types_pb2.DataFile:
    return types_pb2.DataFile(path=f"data/{A}/a.parquet", row_count=1, size_bytes=1)


def make_commit() -> snapshots_pb2.CommitRequest:
    """An append with something of everything that an append may have."""
    request = snapshots_pb2.CommitRequest(writer="w", identifier=1, attempt_id=A)
    request.fences.add(lease="l", epoch=1)
    request.guards.add(table_uuid=T)
    change = request.changes.add(
        table_uuid=T, kind=types_pb2.SNAPSHOT_KIND_APPEND, base_snapshot_id=1, log=types_pb2.LOG_CONTENT_DATA
    )
    change.unchanged_buckets.add()
    change.add_files.add().CopyFrom(make_file())
    change.add_files[0].statistics.columns.add(field_id=1)
    change.sent_offsets.generation = 1
    return request


def make_removal() -> snapshots_pb2.CommitRequest:
    request = snapshots_pb2.CommitRequest(writer="w", identifier=1)
    request.changes.add(table_uuid=T, kind=types_pb2.SNAPSHOT_KIND_OVERWRITE).remove.files.file_ids.append(1)
    return request


def make_restore() -> snapshots_pb2.CommitRequest:
    request = make_removal()
    request.changes[0].remove.restore.snapshot_id = 1
    return request


def make_compaction() -> snapshots_pb2.CommitRequest:
    request = snapshots_pb2.CommitRequest(writer="w", identifier=1)
    change = request.changes.add(table_uuid=T, kind=types_pb2.SNAPSHOT_KIND_COMPACT)
    change.groups.add(input_file_ids=[1], emits_changelog=True)
    return request


def make_vectors() -> snapshots_pb2.CommitRequest:
    request = make_compaction()
    request.changes[0].groups[0].CopyFrom(snapshots_pb2.CompactionGroup(vector_file_ids=[1]))
    return request


def make_attachment() -> snapshots_pb2.AttachChangelogsRequest:
    request = snapshots_pb2.AttachChangelogsRequest(table_uuid=T, attempt_id=A, job_id=1, epoch=1)
    request.changelogs.add(snapshot_id=1)
    return request


def make_published() -> publishing_pb2.ReportPublishedRequest:
    request = publishing_pb2.ReportPublishedRequest(table_uuid=T, generation=1, epoch=1, begins=[0])
    request.snapshots.add(snapshot_id=1, snapshot_uuid=A, offsets=[0])
    return request


def make_plan(**fields: Any) -> snapshots_pb2.PlanRequest:
    return snapshots_pb2.PlanRequest(table_uuid=T, **fields)


def make_range() -> snapshots_pb2.PlanRequest:
    request = make_plan()
    request.range.until = 1
    return request


def make_filter() -> snapshots_pb2.PlanRequest:
    request = make_plan()
    request.predicate.comparison.field_id = 1
    request.predicate.comparison.operator = types_pb2.Comparison.OPERATOR_IS_NULL
    return request


PIPELINE = jobs_pb2.Pipeline(name="p", table="d.t", state="running")
SERVICE = presence_pb2.Service(
    kind="writer", instance_id=A, host="h", version="1", state=presence_pb2.SERVICE_STATE_RUNNING, ttl_ms=1000
)
SNAPSHOTS = "SnapshotService/"
REQUESTS: Mapping[str, Callable[[], Message]] = {
    "append": make_commit,
    "removal": make_removal,
    "restore": make_restore,
    "compaction": make_compaction,
    "vectors": make_vectors,
    "range": make_range,
    "filter": make_filter,
}
"""Requests beside the one of each method: those that set what others cannot have."""

METHOD_OF = {
    **dict.fromkeys(["append", "removal", "restore", "compaction", "vectors"], "Commit"),
    **dict.fromkeys(["range", "filter"], "Plan"),
}

BASES: Mapping[str, Callable[[], Message]] = {
    "AttachChangelogs": make_attachment,
    "ReportPublished": make_published,
    "ReportPipeline": lambda: jobs_pb2.ReportPipelineRequest(pipeline=PIPELINE, epoch=1),
    "ReportPresence": lambda: presence_pb2.ReportPresenceRequest(service=SERVICE),
    "LeaseJob": lambda: jobs_pb2.LeaseJobRequest(kinds=["compact"], holder="h", duration_ms=1000),
    "ListJobs": lambda: jobs_pb2.ListJobsRequest(limit=1),
    "RequestJobs": lambda: jobs_pb2.RequestJobsRequest(
        table_uuid=T, kind="compact", scopes=["/0"], payload={"strategy": "full"}
    ),
    "AdvanceConsumer": lambda: consumers_pb2.AdvanceConsumerRequest(
        consumer_id="c", positions=[consumers_pb2.ConsumerPosition(table_uuid=T, epoch=1)]
    ),
    "RenewConsumer": lambda: consumers_pb2.RenewConsumerRequest(
        consumer_id="c", epochs=[consumers_pb2.ConsumerEpoch(table_uuid=T, epoch=1)]
    ),
    "Watch": lambda: snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid=T)]),
    "AbortAttempts": lambda: table_files_pb2.AbortAttemptsRequest(table_uuid=T, attempt_ids=[A]),
    "Plan": make_plan,
    "Commit": make_commit,
}


def make_base(name: str) -> Message:
    """A request that its method does not refuse before it has looked at its numbers."""
    if name in REQUESTS:
        return REQUESTS[name]()
    short = name.rpartition("/")[2]
    if short in BASES:
        return BASES[short]()
    message = make_message(METASTORE_METHODS[name].input_type)
    for field in message.DESCRIPTOR.fields:
        bounds = BOUNDS.get(f"{message.DESCRIPTOR.name}.{field.name}")
        if bounds is not None and not field.has_presence and not field.is_repeated:
            # The stack has jobs of other tests, with low numbers.
            setattr(message, field.name, 2**40 if field.name == "job_id" else max(bounds.lowest, 0))
        elif field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated and field.name != "attempt_id":
            setattr(message, field.name, T if "uuid" in field.name else "x")
        elif field.name == "table_uuids":
            getattr(message, field.name).append(T)
    return message


@pytest.fixture(scope="module")
def table(stack: EmbeddedStack) -> str:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("bounds", if_not_exists=True)
        rows = pa.table({"k": pa.array([1], pa.int64())})
        table = catalog.create_table("bounds.t", rows.schema, if_not_exists=True)
        table.append(rows)
        return table.uuid


def find_places(message: Message, name: str) -> Iterator[Callable[[int], None]]:
    """How to set the number of this name in a request, wherever its message is there."""
    of, _, field_name = name.partition(".")
    field_name, _, part = field_name.partition(".")
    if message.DESCRIPTOR.name == of:
        # Its stubs have two types of descriptors, of which only one is ever returned.
        field: Any = message.DESCRIPTOR.fields_by_name[field_name]

        def put(value: int) -> None:
            if is_map(field):
                entries = getattr(message, field_name)
                entries.clear()
                entries[value if part == "key" else 0] = value if part == "value" else 1
            elif field.is_repeated:
                message.ClearField(field_name)
                getattr(message, field_name).append(value)
            else:
                setattr(message, field_name, value)

        yield put
    for field, value in message.ListFields():
        if field.message_type is not None and not is_map(field):
            for each in value if field.is_repeated else [value]:
                yield from find_places(each, name)


def list_cases() -> list[tuple[str, str, int]]:
    """The base request, the field and a number beyond its bounds, for all that the wire can carry."""
    cases = []
    for name in [*REQUESTS, *METASTORE_METHODS]:
        if name.endswith(("/CommitStream",)):
            continue
        base = make_base(name)
        for field_name, bounds in BOUNDS.items():
            if not any(True for _ in find_places(base, field_name)):
                continue
            highest = MAX_INT32 if ALL_FIELDS[field_name].cpp_type == FieldDescriptor.CPPTYPE_INT32 else MAX_INT64
            cases += [
                (name, field_name, value)
                for value in (bounds.lowest - 1, bounds.highest + 1)
                if -highest - 1 <= value <= highest
            ]
    return cases


CASES = list_cases()


@pytest.fixture(scope="module")
def channel(stack: EmbeddedStack) -> Iterator[Any]:
    with grpc.insecure_channel(stack.target) as channel:
        yield channel


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}), ids=lambda name: name.rpartition("/")[2])
def test_without_that_number_the_request_is_not_refused_for_its_form(channel: Any, name: str) -> None:
    try:
        _call(channel, METHOD_OF.get(name, name.rpartition("/")[2]), make_base(name))
    except InvalidArgument as error:
        pytest.fail(f"the tests of its numbers say nothing: {error.message}")
    except LakelogError:
        pass


def test_each_bound_that_the_wire_can_pass_is_tried() -> None:
    tried = {field for _, field, _ in CASES}
    # The whole range of the type is allowed there.
    anything = {"ExpireSnapshotsRequest.older_than_ms", "PlanRequest.timestamp_ms"}
    assert set(BOUNDS) - tried == anything


@pytest.mark.parametrize(("name", "field", "value"), CASES, ids=lambda each: str(each).rpartition("/")[2])
def test_a_number_beyond_its_bounds_is_refused(channel: Any, table: str, name: str, field: str, value: int) -> None:
    request = make_base(name)
    if isinstance(request, snapshots_pb2.PlanRequest):
        # What a filter compares depends on the table.
        request.table_uuid = table
    for put in find_places(request, field):
        put(value)
    with pytest.raises(InvalidArgument):
        _call(channel, METHOD_OF.get(name, name.rpartition("/")[2]), request)


def _call(channel: Any, name: str, request: Message) -> None:
    method = next(each for each in METASTORE_METHODS if each.endswith(f"/{name}"))
    data = request.SerializeToString()
    try:
        if METASTORE_METHODS[method].server_streaming:
            next(iter(channel.unary_stream(method)(data, timeout=10)), None)
        else:
            channel.unary_unary(method)(data, timeout=10)
    except grpc.RpcError as error:
        # Its stubs do not know that an error is the call as well.
        call: Any = error
        details = dict(call.trailing_metadata())[DETAILS_KEY]
        found = from_proto_status(parse(types_pb2.Status, details))
        assert isinstance(found, LakelogError)
        raise found from error
