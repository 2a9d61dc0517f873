"""What a caller with grants tries at tables without one, each with its control: without the check it succeeds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TypeAlias

import pytest
from google.protobuf.message import Message

from lakelog.errors import AlreadyExists, LakelogError, PermissionDenied
from lakelog.format.commit.request import CommitRequest, TableGuard
from lakelog.format.jobs.work import Pipeline
from lakelog.format.tables.grant import NO_GRANT
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.rpc.commit import to_proto_commit_request
from lakelog.rpc.v1 import (
    catalog_pb2,
    consumers_pb2,
    dropped_pb2,
    grants_pb2,
    jobs_pb2,
    publishing_pb2,
    retention_pb2,
    snapshots_pb2,
    table_files_pb2,
)
from lakelog.serving.access import Role
from metastore.logs.owner_rules import NEEDS_ADMIN, OwnerRules
from metastore.server.privileges.authorization import Authorization, Authorizer
from tests.contract.grants.calls import CALLS
from tests.contract.grants.world import KINDS, OWNER, READER, STRANGER, RawCaller, World, name_of, open_world
from tests.support.metastore.making import append, make_change, make_file, snapshot_ids

Attack: TypeAlias = Callable[[World], tuple[str, Message]]

TABLE_OWNER, TABLE_WRITER, DATABASE_OWNER = "owner-of-the-table", "writer-of-the-table", "owner-of-the-database"
OTHER_CASE = "Owner-Of-The-Table"

_numbers = itertools.count(100)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world(extra={OTHER_CASE: Role.USER}) as opened:
        yield opened


@pytest.fixture(scope="module")
def callers(world: World) -> Iterator[dict[str, RawCaller]]:
    names = [*map(name_of, KINDS), OTHER_CASE]
    opened = {name: RawCaller(world, name) for name in names}
    yield opened
    for each in opened.values():
        each.close()


def refusal_of(caller: RawCaller, method: str, request: Message) -> PermissionDenied | None:
    try:
        caller.call(method, request)
    except PermissionDenied as error:
        return error if error.reason == NO_GRANT else None
    except LakelogError:
        return None
    return None


def _commit(world: World, *tables: TableInfo, guarded: TableInfo | None = None) -> CommitRequest:
    guards = () if guarded is None else (TableGuard(guarded.table_uuid, 1),)
    changes = tuple(make_change(table, allow_empty=True) for table in tables)
    return CommitRequest("sdk-" + f"{next(_numbers):032x}", 1, changes, guards=guards)


def span_tables(world: World) -> tuple[str, Message]:
    return "Commit", to_proto_commit_request(_commit(world, world.table, world.other))


def guard_other_table(world: World) -> tuple[str, Message]:
    return "Commit", to_proto_commit_request(_commit(world, world.table, guarded=world.other))


def span_tables_on_a_stream(world: World) -> tuple[str, Message]:
    return "CommitStream", snapshots_pb2.CommitStreamRequest(
        commit=to_proto_commit_request(_commit(world, world.other))
    )


def large_commit_on_a_stream(world: World) -> tuple[str, Message]:
    """It is parsed in slices, without the message around it."""
    files = [make_file("b" * 32, f"{number:03}") for number in range(300)]
    commit = replace(_commit(world), changes=(make_change(world.other, files),))
    request = snapshots_pb2.CommitStreamRequest(commit=to_proto_commit_request(commit))
    assert request.ByteSize() > 8192
    return "CommitStream", request


def large_commit(world: World) -> tuple[str, Message]:
    _, request = large_commit_on_a_stream(world)
    assert isinstance(request, snapshots_pb2.CommitStreamRequest)
    return "Commit", request.commit


def plan_by_uuid(world: World) -> tuple[str, Message]:
    return "Plan", snapshots_pb2.PlanRequest(table_uuid=world.other.table_uuid)


def watch_one_of_two(world: World) -> tuple[str, Message]:
    tables = (world.table, world.other)
    positions = [snapshots_pb2.WatchPosition(table_uuid=each.table_uuid) for each in tables]
    return "Watch", snapshots_pb2.WatchRequest(positions=positions)


def list_latest_of_two(world: World) -> tuple[str, Message]:
    uuids = [world.table.table_uuid, world.other.table_uuid]
    return "ListLatest", snapshots_pb2.ListLatestRequest(table_uuids=uuids)


def abandon_attempt(world: World) -> tuple[str, Message]:
    attempt = world.root.stage_attempt([world.other.table_uuid], "w").attempt_id
    return "AbandonAttempt", snapshots_pb2.AbandonAttemptRequest(attempt_id=attempt)


def abandon_attempt_of_both(world: World) -> tuple[str, Message]:
    attempt = world.root.stage_attempt([world.table.table_uuid, world.other.table_uuid], "w").attempt_id
    return "AbandonAttempt", snapshots_pb2.AbandonAttemptRequest(attempt_id=attempt)


def retry_job(world: World) -> tuple[str, Message]:
    world.root.request_jobs(world.other.table_uuid, "compact", ["/0"], {"strategy": "full"})
    (job,) = world.root.list_jobs([world.other.table_uuid])
    return "RetryJob", jobs_pb2.RetryJobRequest(job_id=job.job_id)


def lease_jobs_of_all_tables(world: World) -> tuple[str, Message]:
    return "LeaseJob", jobs_pb2.LeaseJobRequest(kinds=["none"], holder="h", duration_ms=1000)


def list_jobs_of_two(world: World) -> tuple[str, Message]:
    return "ListJobs", jobs_pb2.ListJobsRequest(table_uuids=[world.table.table_uuid, world.other.table_uuid])


def list_overdue_snapshots(world: World) -> tuple[str, Message]:
    return "ListOverdueSnapshots", retention_pb2.ListOverdueSnapshotsRequest(table_uuid=world.other.table_uuid)


def lease_of_publisher(world: World) -> tuple[str, Message]:
    name = f"publisher/{world.other.table_uuid}"
    return "AcquireLease", jobs_pb2.AcquireLeaseRequest(name=name, holder="h", duration_ms=1000)


def lease_of_all_publishers(world: World) -> tuple[str, Message]:
    return "AcquireLease", jobs_pb2.AcquireLeaseRequest(name="publisher-seat/0", holder="h", duration_ms=1000)


def report_pipeline(world: World) -> tuple[str, Message]:
    pipeline = jobs_pb2.Pipeline(name="p", table=str(world.other.name), source="s", state="running")
    return "ReportPipeline", jobs_pb2.ReportPipelineRequest(pipeline=pipeline, epoch=1)


def _let_pipeline_report(world: World, name: str, table: TableInfo) -> None:
    """Its lease is free afterwards, as after a restart."""
    lease = world.root.acquire_lease(f"pipeline/{name}", "h", 60_000)
    report = Pipeline(name, str(table.name), "files", "running", 1, "at 1", 0, 1, 0, "")
    world.root.report_pipeline(report, lease.epoch)
    world.root.release_lease(f"pipeline/{name}", lease.epoch)


def lease_of_pipeline(world: World) -> tuple[str, Message]:
    _let_pipeline_report(world, "theirs", world.other)
    return "AcquireLease", jobs_pb2.AcquireLeaseRequest(name="pipeline/theirs", holder="h", duration_ms=1000)


def report_for_own_table_under_name_of_others(world: World) -> tuple[str, Message]:
    _let_pipeline_report(world, "theirs-too", world.other)
    pipeline = jobs_pb2.Pipeline(name="theirs-too", table=str(world.table.name), source="s", state="running")
    return "ReportPipeline", jobs_pb2.ReportPipelineRequest(pipeline=pipeline, epoch=1)


def delete_consumer(world: World) -> tuple[str, Message]:
    world.root.open_consumer("etl", [world.other.table_uuid], "holder")
    return "DeleteConsumer", consumers_pb2.DeleteConsumerRequest(table_uuid=world.other.table_uuid, consumer_id="etl")


def abort_attempts(world: World) -> tuple[str, Message]:
    request = table_files_pb2.AbortAttemptsRequest(table_uuid=world.other.table_uuid, attempt_ids=["c" * 32])
    return "AbortAttempts", request


def expire_snapshots(world: World) -> tuple[str, Message]:
    return "ExpireSnapshots", retention_pb2.ExpireSnapshotsRequest(table_uuid=world.other.table_uuid, dry_run=True)


def restore_into_other_database(world: World) -> tuple[str, Message]:
    new_name = catalog_pb2.TableName(database="other", name="orders")
    name = catalog_pb2.TableName(database="shop", name="old")
    return "RestoreTable", dropped_pb2.RestoreTableRequest(name=name, new_name=new_name)


def restore_under_another_name(world: World) -> tuple[str, Message]:
    """It would learn whether a table has that name."""
    name, new_name = (catalog_pb2.TableName(database="shop", name=each) for each in ("old", "spare"))
    return "RestoreTable", dropped_pb2.RestoreTableRequest(name=name, new_name=new_name)


def restore_by_name_of_others(world: World) -> tuple[str, Message]:
    """It names its own table by the uuid, and would learn the uuids of others that were dropped."""
    name = catalog_pb2.TableName(database="other", name="old")
    return "RestoreTable", dropped_pb2.RestoreTableRequest(name=name, table_uuid=world.dropped.table_uuid)


def fence_by_a_lease_of_others(world: World) -> tuple[str, Message]:
    """It would learn who holds it."""
    request = to_proto_commit_request(_commit(world, world.table))
    request.fences.add(lease=f"publisher/{world.other.table_uuid}", epoch=1)
    return "Commit", request


def restore_by_uuid_of_other_name(world: World) -> tuple[str, Message]:
    """It names a table of its own, and the uuid of another one."""
    name = catalog_pb2.TableName(database="shop", name="old")
    return "RestoreTable", dropped_pb2.RestoreTableRequest(name=name, table_uuid=world.other.table_uuid)


def grant_elsewhere(world: World) -> tuple[str, Message]:
    level = grants_pb2.GRANT_LEVEL_OWNER
    return "Grant", grants_pb2.GrantRequest(database="other", level=level, principal="accomplice")


def list_grants_of_others(world: World) -> tuple[str, Message]:
    return "ListGrants", grants_pb2.ListGrantsRequest(principal="root")


def find_attempts(world: World) -> tuple[str, Message]:
    request = publishing_pb2.FindAttemptsRequest(table_uuid=world.other.table_uuid, attempt_ids=[world.attempt_id])
    return "FindAttempts", request


def create_table(world: World) -> tuple[str, Message]:
    return "CreateTable", catalog_pb2.CreateTableRequest(database="other", name="orders")


ATTACKS = [
    span_tables,
    guard_other_table,
    span_tables_on_a_stream,
    large_commit_on_a_stream,
    large_commit,
    plan_by_uuid,
    watch_one_of_two,
    list_latest_of_two,
    abandon_attempt,
    abandon_attempt_of_both,
    retry_job,
    lease_jobs_of_all_tables,
    list_jobs_of_two,
    list_overdue_snapshots,
    lease_of_publisher,
    lease_of_all_publishers,
    report_pipeline,
    lease_of_pipeline,
    report_for_own_table_under_name_of_others,
    delete_consumer,
    abort_attempts,
    expire_snapshots,
    restore_into_other_database,
    restore_by_uuid_of_other_name,
    restore_by_name_of_others,
    fence_by_a_lease_of_others,
    grant_elsewhere,
    list_grants_of_others,
    find_attempts,
    create_table,
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("attacker", [TABLE_OWNER, DATABASE_OWNER])
def test_grants_count_only_for_what_they_are_on(
    world: World, callers: dict[str, RawCaller], monkeypatch: pytest.MonkeyPatch, attack: Attack, attacker: str
) -> None:
    method, request = attack(world)
    before = snapshot_ids(world.root, world.table)
    error = refusal_of(callers[attacker], method, request)
    assert error is not None
    assert set(error.metadata) <= {"caller", "needed", "role", "method", "scope"}
    assert snapshot_ids(world.root, world.table) == before
    monkeypatch.setattr(Authorizer, "authorization_of", lambda *_: None)
    assert refusal_of(callers[attacker], method, request) is None, "the control: without the check it is let through"


def test_a_pipeline_goes_on_for_writers_of_its_table(world: World, callers: dict[str, RawCaller]) -> None:
    _let_pipeline_report(world, "ours", world.table)
    for name in ("ours", "new", "not a name!"):
        request = jobs_pb2.AcquireLeaseRequest(name=f"pipeline/{name}", holder="h", duration_ms=1000)
        assert callers[TABLE_WRITER].call("AcquireLease", request).epoch
        assert refusal_of(callers["reader-of-the-database"], "AcquireLease", request) is not None
        release = jobs_pb2.ReleaseLeaseRequest(name=request.name, epoch=1)
        assert refusal_of(callers[TABLE_WRITER], "ReleaseLease", release) is None
    lease = callers[TABLE_WRITER].call(
        "AcquireLease", jobs_pb2.AcquireLeaseRequest(name="pipeline/mine", holder="h", duration_ms=60_000)
    )
    pipeline = jobs_pb2.Pipeline(name="mine", table=str(world.table.name), source="s", state="running")
    for _ in range(2):
        callers[TABLE_WRITER].call(
            "ReportPipeline", jobs_pb2.ReportPipelineRequest(pipeline=pipeline, epoch=lease.epoch)
        )


def test_an_owner_of_a_table_alone_restores_it_under_its_own_name(world: World, callers: dict[str, RawCaller]) -> None:
    method, request = restore_under_another_name(world)
    assert refusal_of(callers[TABLE_OWNER], method, request) is not None
    with pytest.raises(AlreadyExists):
        callers[DATABASE_OWNER].call(method, request)
    request.ClearField("new_name")
    assert callers[TABLE_OWNER].call(method, request).table.name == "old"
    world.root.drop_table(world.dropped.name)


def test_what_the_same_callers_may_do(world: World, callers: dict[str, RawCaller]) -> None:
    """Else everything above could be refused for another reason."""
    commit = to_proto_commit_request(_commit(world, world.table, world.spare))
    assert len(callers[TABLE_OWNER].call("Commit", commit).results) == 2
    files = [make_file("b" * 32, f"{number:03}") for number in range(300)]
    large = replace(_commit(world), changes=(make_change(world.table, files),))
    for method, request in (
        ("Commit", to_proto_commit_request(large)),
        ("CommitStream", snapshots_pb2.CommitStreamRequest(commit=to_proto_commit_request(large))),
    ):
        with pytest.raises(LakelogError) as caught:
            callers[TABLE_WRITER].call(method, request)
        assert caught.value.reason != NO_GRANT, "the attempt of these files does not exist"


@pytest.mark.parametrize("method", ["GetTable", "Plan", "Commit", "DropTable"])
def test_a_name_in_another_case_is_another_caller(world: World, callers: dict[str, RawCaller], method: str) -> None:
    assert refusal_of(callers[OTHER_CASE], method, CALLS[method](world)) is not None


HIDDEN: list[tuple[str, Callable[[str], Message], Callable[[World], str], str]] = [
    ("Plan", lambda key: snapshots_pb2.PlanRequest(table_uuid=key), lambda world: world.other.table_uuid, "0" * 32),
    ("ListTables", lambda key: catalog_pb2.ListTablesRequest(database=key), lambda _: "other", "none"),
    ("ListTables", lambda key: catalog_pb2.ListTablesRequest(database=key), lambda _: "other", "not a name!"),
    ("DropDatabase", lambda key: catalog_pb2.DropDatabaseRequest(name=key, if_exists=True), lambda _: "other", "none"),
    (
        "GetTable",
        lambda key: catalog_pb2.GetTableRequest(name=catalog_pb2.TableName(database="other", name=key)),
        lambda _: "orders",
        "none",
    ),
    (
        "DropTable",
        lambda key: catalog_pb2.DropTableRequest(database=key, name="orders", if_exists=True),
        lambda _: "other",
        "none",
    ),
    (
        "RestoreTable",
        lambda key: dropped_pb2.RestoreTableRequest(name=catalog_pb2.TableName(database="shop", name=key)),
        lambda _: "old",
        "none",
    ),
    (
        "AbandonAttempt",
        lambda key: snapshots_pb2.AbandonAttemptRequest(attempt_id=key),
        lambda w: w.attempt_id,
        "e" * 32,
    ),
    ("RetryJob", lambda key: jobs_pb2.RetryJobRequest(job_id=int(key)), lambda world: str(world.job_id), "999999"),
    ("RetryJob", lambda key: jobs_pb2.RetryJobRequest(job_id=int(key)), lambda world: str(world.job_id), "-1"),
    ("ForgetPipeline", lambda key: jobs_pb2.ForgetPipelineRequest(name=key), lambda _: "pipe-1", "none"),
    (
        "ListGrants",
        lambda key: grants_pb2.ListGrantsRequest(database=key),
        lambda _: "other",
        "none",
    ),
]


@pytest.mark.parametrize(("method", "make", "existing", "missing"), HIDDEN)
def test_no_one_learns_what_exists(
    world: World,
    callers: dict[str, RawCaller],
    method: str,
    make: Callable[[str], Message],
    existing: Callable[[World], str],
    missing: str,
) -> None:
    attacker = callers[name_of(STRANGER)]
    there = existing(world)
    found = [refusal_of(attacker, method, make(key)) for key in (there, missing)]
    texts = []
    for key, error in zip((there, missing), found, strict=True):
        assert error is not None
        texts.append(
            (error.message.replace(key, "?"), {name: value.replace(key, "?") for name, value in error.metadata.items()})
        )
    assert texts[0] == texts[1]


def test_a_table_made_again_under_its_name_has_no_grants(world: World, callers: dict[str, RawCaller]) -> None:
    name = TableName("shop", "again")
    schema = world.table.schema.arrow
    world.root.create_table(name, schema)
    world.root.grant("shop", "again", READER, name_of(STRANGER))
    by_name = catalog_pb2.GetTableRequest(name=catalog_pb2.TableName(database="shop", name="again"))
    assert callers[name_of(STRANGER)].call("GetTable", by_name).table.name == "again"
    world.root.drop_table(name)
    new, _ = world.root.create_table(name, schema)
    for request in (by_name, catalog_pb2.GetTableRequest(table_uuid=new.table_uuid)):
        assert refusal_of(callers[name_of(STRANGER)], "GetTable", request) is not None
    assert callers[DATABASE_OWNER].call("GetTable", by_name).table.table_uuid == new.table_uuid
    world.root.drop_table(name)


def test_a_table_of_a_database_that_is_gone_is_not_restored_by_its_owner(world: World) -> None:
    """That would make a database, or bring a table into one of others."""
    schema = world.table.schema.arrow
    world.root.create_database("short")
    world.root.create_table(TableName("short", "t"), schema)
    world.root.grant("short", "t", OWNER, name_of(STRANGER))
    with closing(world.connect(name_of(STRANGER))) as stranger:
        world.root.drop_table(TableName("short", "t"))
        assert stranger.restore_table(TableName("short", "t")).table.name.name == "t", "its database is there"
        world.root.drop_database("short", cascade=True)
        for _ in range(2):
            with pytest.raises(PermissionDenied) as caught:
                stranger.restore_table(TableName("short", "t"))
            assert caught.value.reason == NO_GRANT
            world.root.create_database("short", if_not_exists=True)
        assert world.root.restore_table(TableName("short", "t")).table.name.name == "t"
    world.root.drop_database("short", cascade=True)


@pytest.mark.parametrize("hides", [True, False])
def test_an_owner_does_not_learn_which_table_of_others_has_a_topic(
    world: World, monkeypatch: pytest.MonkeyPatch, hides: bool
) -> None:
    options = {"log.system": "kafka", "bucket": "1", "kafka.topic": f"topic-{hides}"}
    schema = world.table.schema.arrow
    world.root.create_table(TableName("other", f"logged_{hides}"), schema, primary_key=["id"], options=options)
    if not hides:
        monkeypatch.setattr(Authorization, "hide", lambda _, error: error)
    with closing(world.connect(DATABASE_OWNER)) as owner, pytest.raises(AlreadyExists) as caught:
        owner.create_table(TableName("shop", "logged"), schema, primary_key=["id"], options=options)
    assert caught.value.reason == "TOPIC_IN_USE"
    shown = f"{caught.value.message} {caught.value.metadata}"
    assert ("other.logged" in shown) is not hides, "the control shows it"


def test_errors_of_later_checks_come_only_with_the_right(world: World, callers: dict[str, RawCaller]) -> None:
    append(world.root, world.table, next(_numbers), writer="w")
    request = to_proto_commit_request(replace(_commit(world, world.table), epoch=7, writer="unknown"))
    with pytest.raises(LakelogError) as caught:
        callers[TABLE_WRITER].call("Commit", request)
    assert caught.value.reason != NO_GRANT
    error = refusal_of(callers["reader-of-the-table"], "Commit", request)
    assert error is not None
    assert "unknown" not in error.message


def test_grants_on_a_dropped_table_are_its_owners(world: World, callers: dict[str, RawCaller]) -> None:
    uuid = world.dropped.table_uuid

    def list_of(name: str) -> set[str]:
        request = grants_pb2.ListGrantsRequest(table_uuid=uuid)
        return {each.principal for each in callers[name].call("ListGrants", request).grants}

    assert TABLE_WRITER in list_of(TABLE_OWNER)
    assert list_of(DATABASE_OWNER) == list_of(TABLE_OWNER)
    for name in (TABLE_WRITER, name_of(STRANGER), OTHER_CASE):
        for method, request in (
            ("ListGrants", grants_pb2.ListGrantsRequest(table_uuid=uuid)),
            ("ListGrants", grants_pb2.ListGrantsRequest(table_uuid=uuid, principal=name)),
            ("Revoke", grants_pb2.RevokeRequest(table_uuid=uuid, principal="reader-of-the-table")),
            # A right at another place does not help.
            ("Revoke", grants_pb2.RevokeRequest(table_uuid=uuid, database="other", principal="reader-of-the-table")),
        ):
            assert refusal_of(callers[name], method, request) is not None, (name, method)
    # Each may give its own back.
    callers[TABLE_WRITER].call("Revoke", grants_pb2.RevokeRequest(table_uuid=uuid, principal=TABLE_WRITER))
    assert TABLE_WRITER not in list_of(TABLE_OWNER)
    own = callers[TABLE_WRITER].call("ListGrants", grants_pb2.ListGrantsRequest())
    assert uuid not in {each.table_uuid for each in own.grants}


def test_control_without_the_check_anyone_takes_back_grants_on_a_dropped_table(
    world: World, callers: dict[str, RawCaller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Authorizer, "authorization_of", lambda *_: None)
    request = grants_pb2.RevokeRequest(table_uuid=world.dropped.table_uuid, principal="reader-of-the-table")
    callers[name_of(STRANGER)].call("Revoke", request)


def test_a_grant_where_callers_are_identified_has_effect(world: World, callers: dict[str, RawCaller]) -> None:
    request = grants_pb2.GrantRequest(database="other", level=grants_pb2.GRANT_LEVEL_READER, principal="new")
    assert not callers["owner-of-another-database-and-table"].call("Grant", request).has_no_effect


@pytest.mark.parametrize("is_checked", [True, False])
def test_owners_name_topics_and_secrets_of_their_own_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    if not is_checked:
        monkeypatch.setattr(OwnerRules, "check", lambda *_: None)
    schema = world.table.schema.arrow
    logged = {"log.system": "kafka", "bucket": "1"}
    taken = [{"kafka.topic": "payments"}, {"kafka.topic": "other.x"}, {"kafka.sasl.password": "secret:other-team"}]
    with closing(world.connect(DATABASE_OWNER)) as owner, closing(world.connect(TABLE_OWNER)) as table_owner:
        reasons = []
        for number, options in enumerate(taken):
            name = TableName("shop", f"of_owner_{number}")
            try:
                owner.create_table(name, schema, primary_key=["id"], options=logged | options)
                owner.drop_table(name)
            except LakelogError as error:
                reasons.append(error.reason)
        secret = {"kafka.sasl.password": "secret:other-team"}
        for caller in (owner, table_owner):
            try:
                caller.alter_table(world.table.table_uuid, set_options=secret, unset_options=[])
            except LakelogError as error:
                reasons.append(error.reason)
        assert (reasons.count(NEEDS_ADMIN) == 5) is is_checked, reasons
        assert (NEEDS_ADMIN in reasons) is is_checked
        # What the rules of this metastore allow.
        own = TableName("shop", f"own_{is_checked}")
        owner.create_table(own, schema, primary_key=["id"], options=logged | {"kafka.topic": f"shop.own-{is_checked}"})
        owner.drop_table(own)
    # An admin may name all.
    of_admin = TableName("shop", f"of_admin_{is_checked}")
    options = logged | {"kafka.topic": f"payments-{is_checked}"}
    world.root.create_table(of_admin, schema, primary_key=["id"], options=options)
    world.root.drop_table(of_admin)
