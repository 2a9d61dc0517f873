"""The table of request limits is complete, and what callers may send fits into it."""

from __future__ import annotations

import re

import pytest
from google.protobuf.message import Message

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.rpc.v1 import consumers_pb2, retention_pb2, snapshots_pb2, table_files_pb2, types_pb2
from lakelog.serving.access import Role
from lakelog.serving.edge.request_bounds import entry_name, reachable_messages
from metastore.retention.expiry import MAX_EXPIRED
from metastore.server.access import NEEDED_ROLES
from metastore.server.edge import request_limits
from metastore.server.edge.request_limits import max_entries, request_bounds, served_methods, with_slack
from metastore.store.limits import Limits

LIMITS = Limits()
BOUNDS = request_bounds(LIMITS)
LARGE = {"Commit", "CommitStream", "AttachChangelogs", "Plan", "FindUsedFiles", "ForgetExpiredFiles", "ReportPublished"}


def test_every_method_has_bounds() -> None:
    assert set(BOUNDS) == set(NEEDED_ROLES)


def test_every_repeated_field_of_every_request_has_a_bound_and_no_other_has() -> None:
    found = {
        entry_name(field)
        for method in served_methods()
        for message in reachable_messages(method.input_type)
        for field in message.fields
        if field.is_repeated
    }
    assert set(max_entries(LIMITS)) == found


@pytest.mark.parametrize("missing", max_entries(LIMITS))
def test_control_without_the_bound_of_a_repeated_field_no_server_starts(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    left = {name: most for name, most in max_entries(LIMITS).items() if name != missing}
    monkeypatch.setattr(request_limits, "max_entries", lambda limits: left)
    with pytest.raises(KeyError, match=re.escape(missing)):
        request_bounds(LIMITS)


def test_only_methods_that_carry_files_or_values_may_be_large() -> None:
    sizes = {method.rpartition("/")[2]: bounds.max_bytes for method, bounds in BOUNDS.items()}
    assert {name for name, size in sizes.items() if size > 4 << 20} == LARGE
    assert max(sizes.values()) == MAX_MESSAGE_BYTES
    of_readers = {
        method.rpartition("/")[2] for method, role in NEEDED_ROLES.items() if role is None or role <= Role.READER
    }
    assert {name for name in of_readers if sizes[name] > 256 << 10} == {"Plan", "FindUsedFiles"}


LARGEST: dict[str, Message] = {
    "SnapshotService/Watch": snapshots_pb2.WatchRequest(
        positions=[
            snapshots_pb2.WatchPosition(table_uuid=f"{i:032x}", after=2**62, after_uuid="f" * 32)
            for i in range(LIMITS.max_watched_tables)
        ]
    ),
    "SnapshotService/ListLatest": snapshots_pb2.ListLatestRequest(table_uuids=[f"{i:032x}" for i in range(1000)]),
    "ConsumerService/AdvanceConsumer": consumers_pb2.AdvanceConsumerRequest(
        consumer_id="x" * 256,
        positions=[
            consumers_pb2.ConsumerPosition(table_uuid=f"{i:032x}", snapshot_id=2**62, snapshot_uuid="f" * 32)
            for i in range(1000)
        ],
    ),
    "RetentionService/ForgetExpiredFiles": retention_pb2.ForgetExpiredFilesRequest(
        table_uuid="a" * 32, paths=[f"{i:01024}" for i in range(MAX_EXPIRED)]
    ),
    "TableFileService/AbortAttempts": table_files_pb2.AbortAttemptsRequest(
        table_uuid="a" * 32, attempt_ids=[f"{i:032x}" for i in range(10_000)]
    ),
    "SnapshotService/Plan": snapshots_pb2.PlanRequest(
        table_uuid="a" * 32,
        predicate=types_pb2.Predicate(
            comparison=types_pb2.Comparison(
                field_id=1, operator=types_pb2.Comparison.OPERATOR_IN, values=[b"x" * 100] * 100_000
            )
        ),
    ),
    "SnapshotService/Commit": snapshots_pb2.CommitRequest(
        writer="w",
        changes=[
            snapshots_pb2.Change(
                table_uuid="a" * 32,
                add_files=[
                    types_pb2.DataFile(
                        path=f"data/{i:064}.parquet",
                        statistics=types_pb2.FileStatistics(
                            columns=[
                                types_pb2.ColumnStatistics(field_id=j, min_value=b"x" * 8, max_value=b"x" * 8)
                                for j in range(10)
                            ]
                        ),
                    )
                    for i in range(20_000)
                ],
            )
        ],
    ),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_requests_that_the_use_cases_take_pass(name: str) -> None:
    data = LARGEST[name].SerializeToString()
    bounds = BOUNDS[f"/lakelog.rpc.v1.{name}"]
    bounds.check_size(data)
    bounds.check_entries(data)


def test_as_many_files_as_a_commit_may_have_pass_and_only_a_little_more() -> None:
    bounds = BOUNDS["/lakelog.rpc.v1.SnapshotService/Commit"]
    most = with_slack(LIMITS.max_commit_files)
    assert most < 1.2 * LIMITS.max_commit_files
    files = [types_pb2.DataFile(path="p")] * most
    change = snapshots_pb2.Change(add_files=files)
    bounds.check_entries(snapshots_pb2.CommitRequest(changes=[change]).SerializeToString())
    change.add_files.add()
    with pytest.raises(InvalidArgument, match=rf"Change\.add_files has more than {LIMITS.max_commit_files} ent"):
        bounds.check_entries(snapshots_pb2.CommitRequest(changes=[change]).SerializeToString())


def test_limits_of_the_use_cases_are_those_of_the_edge() -> None:
    bounds = request_bounds(Limits(max_watched_tables=3))["/lakelog.rpc.v1.SnapshotService/Watch"]
    with pytest.raises(InvalidArgument, match="more than 3 entries"):
        bounds.check_entries(b"\x0a\x00" * 40)


@pytest.mark.parametrize("method", BOUNDS)
def test_no_request_may_have_more_bytes_than_its_method(method: str) -> None:
    bounds = BOUNDS[method]
    if bounds.max_bytes < MAX_MESSAGE_BYTES:
        with pytest.raises(ResourceExhausted, match=str(bounds.max_bytes)):
            bounds.check_size(bytes(bounds.max_bytes + 1))
