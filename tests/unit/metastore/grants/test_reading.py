"""What a caller needs for a request, and whether its grants suffice."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from lakelog.format.tables.grant import GrantLevel, find_caller_problem
from lakelog.rpc.v1 import catalog_pb2, dropped_pb2, jobs_pb2, publishing_pb2, snapshots_pb2
from lakelog.serving.access import Caller, Role
from metastore.grants.needs import HeldGrants, Need, NeedKind, no_grant
from metastore.server.privileges.reading import read_needs
from metastore.server.privileges.table import PRIVILEGES
from metastore.store.grants import HeldGrant

READER, WRITER, OWNER = GrantLevel
A, B = "a" * 32, "b" * 32
TEAM = Caller("team", Role.USER)


def needs_of(method: str, request: Message) -> list[Need]:
    (privilege,) = (each for name, each in PRIVILEGES.items() if name.endswith(f"Service/{method}"))
    return read_needs(privilege, request, TEAM)


def table(uuid: str, level: GrantLevel) -> Need:
    return Need(NeedKind.TABLE, level, uuid)


def test_a_commit_writes_its_tables_and_reads_those_that_it_guards() -> None:
    changes = [snapshots_pb2.Change(table_uuid=A), snapshots_pb2.Change(table_uuid=B)]
    request = snapshots_pb2.CommitRequest(changes=changes, guards=[snapshots_pb2.TableGuard(table_uuid="c" * 32)])
    request.fences.add(lease=f"publisher/{B}", epoch=1)
    request.fences.add(lease="pipeline/p", epoch=1)
    wanted = [table(A, WRITER), table(B, WRITER), table("c" * 32, READER)]
    wanted.append(Need(NeedKind.PIPELINE_NAME, WRITER, "p"))
    assert needs_of("Commit", request) == wanted
    assert needs_of("CommitStream", snapshots_pb2.CommitStreamRequest(commit=request)) == wanted


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("Commit", snapshots_pb2.CommitRequest()),
        ("CommitStream", snapshots_pb2.CommitStreamRequest()),
        ("StageAttempt", snapshots_pb2.StageAttemptRequest()),
        ("Watch", snapshots_pb2.WatchRequest()),
        ("LeaseJob", jobs_pb2.LeaseJobRequest(kinds=["compact"])),
        ("GetTable", catalog_pb2.GetTableRequest()),
        ("RestoreTable", dropped_pb2.RestoreTableRequest(table_uuid=A)),
        ("AcquireLease", jobs_pb2.AcquireLeaseRequest(name="publisher-seat/0")),
        ("AcquireLease", jobs_pb2.AcquireLeaseRequest(name="")),
    ],
)
def test_a_request_that_names_no_table_is_allowed_by_no_grant(method: str, request_: Message) -> None:
    assert NeedKind.NEVER in {need.kind for need in needs_of(method, request_)}


def test_a_commit_that_only_guards_is_allowed_by_no_grant() -> None:
    request = snapshots_pb2.CommitRequest(guards=[snapshots_pb2.TableGuard(table_uuid=A)])
    assert {need.kind for need in needs_of("Commit", request)} == {NeedKind.NEVER, NeedKind.TABLE}


def test_names_and_other_things_that_belong_to_tables() -> None:
    name = catalog_pb2.TableName(database="shop", name="orders")
    assert needs_of("GetTable", catalog_pb2.GetTableRequest(name=name)) == [
        Need(NeedKind.NAME, READER, "shop", "orders")
    ]
    assert needs_of("GetTable", catalog_pb2.GetTableRequest(table_uuid=A)) == [table(A, READER)]
    drop = catalog_pb2.DropDatabaseRequest(name="shop")
    assert needs_of("DropDatabase", drop) == [Need(NeedKind.DATABASE, OWNER, "shop")]
    assert needs_of("FinishJob", jobs_pb2.FinishJobRequest(job_id=7)) == [Need(NeedKind.JOB, WRITER, "7")]
    report = jobs_pb2.ReportPipelineRequest(pipeline=jobs_pb2.Pipeline(name="p", table="shop.orders"))
    assert needs_of("ReportPipeline", report) == [
        Need(NeedKind.NAME, WRITER, "shop", "orders"),
        Need(NeedKind.PIPELINE_NAME, WRITER, "p"),
    ]
    lease = jobs_pb2.AcquireLeaseRequest(name=f"publisher/{A}")
    assert needs_of("AcquireLease", lease) == [table(A, WRITER)]
    pipeline = jobs_pb2.AcquireLeaseRequest(name="pipeline/p")
    assert needs_of("AcquireLease", pipeline) == [Need(NeedKind.PIPELINE_NAME, WRITER, "p")]
    restored = dropped_pb2.RestoreTableRequest(name=name, new_name=catalog_pb2.TableName(database="other", name="x"))
    assert needs_of("RestoreTable", restored) == [
        Need(NeedKind.DROPPED, OWNER, "shop", "orders", "", "other"),
        Need(NeedKind.DATABASE, OWNER, "other"),
    ]
    as_it_was = dropped_pb2.RestoreTableRequest(name=name, table_uuid=A)
    assert needs_of("RestoreTable", as_it_was) == [Need(NeedKind.DROPPED, OWNER, "shop", "orders", A, "shop")]
    renew = publishing_pb2.RenewAttemptsRequest(attempt_ids=[A])
    assert needs_of("RenewAttempts", renew) == [Need(NeedKind.ANYWHERE, WRITER)]


def test_a_level_is_the_higher_one_of_database_and_table() -> None:
    held = HeldGrants(
        (
            HeldGrant("shop", "", "", READER),
            HeldGrant("shop", A, "orders", OWNER),
            HeldGrant("other", B, "", WRITER),
        )
    )
    assert held.level_at("shop") == READER
    assert held.level_at("shop", A) == OWNER
    assert held.level_at("shop", "c" * 32) == READER
    assert held.level_at("", A) == OWNER, "by the table, whatever became of its database"
    assert held.level_at("other", B) == WRITER
    assert held.level_at("other") == held.level_at("Shop") == held.level_at("") == 0, "names differ in case"
    assert held.level_at("none", "") == 0
    assert held.highest == OWNER
    assert HeldGrants().highest == 0
    assert held.may_see("shop", "anything")
    assert not held.may_see("other", "")


def test_a_refusal_says_only_what_the_caller_sent() -> None:
    error = no_grant("team", "Plan", Need(NeedKind.NAME, READER, "shop", "orders"), "reader")
    assert error.reason == "NO_GRANT"
    assert "'shop.orders'" in error.message
    assert "lakelog grant reader" in error.message
    assert error.metadata == {
        "caller": "team",
        "needed": "reader",
        "role": "reader",
        "method": "Plan",
        "scope": "table 'shop.orders'",
    }


@pytest.mark.parametrize(
    "name", ["ann", "a.b@example.org", "signed:system:serviceaccount:a:w", "signed:auth0|5+~=", "x" * 256]
)
def test_names_of_callers(name: str) -> None:
    assert find_caller_problem(name) is None


@pytest.mark.parametrize("name", ["", "a b", "x" * 257, "ann\n", "\x00", "é"])
def test_what_is_no_name_of_a_caller(name: str) -> None:
    assert "Give the name" in (find_caller_problem(name) or "")
