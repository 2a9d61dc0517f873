"""A grant that is taken back ends what it allowed: here at once, elsewhere within seconds, also in open streams."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import LakelogError, PermissionDenied
from lakelog.format.commit.request import CommitRequest
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY
from lakelog.format.tables.grant import NO_GRANT
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableName
from metastore.grants.checking import GrantChecks
from metastore.memory import MemoryStore
from metastore.server.privileges.authorization import Authorization
from metastore.snapshots.watching import WatchHub
from tests.contract.grants.world import OWNER, READER, STRANGER, WRITER, World, name_of, open_world, token_of
from tests.support.metastore.making import append, make_change
from tests.support.metastore.serving import serving

NAME = name_of(STRANGER)
_numbers = itertools.count(100)


@pytest.fixture
def world() -> Iterator[World]:
    with open_world() as opened:
        yield opened


@pytest.fixture
def caller(world: World) -> Iterator[GrpcMetastore]:
    with closing(world.connect(NAME)) as client:
        yield client


def grow(world: World) -> None:
    append(world.root, world.table, next(_numbers), writer="w")


def commit(world: World) -> CommitRequest:
    change = make_change(world.table, allow_empty=True)
    return CommitRequest("sdk-" + f"{next(_numbers):032x}", 1, (change,))


def reason_of(call: Callable[[], object]) -> str:
    try:
        call()
    except PermissionDenied as error:
        return error.reason
    return ""


def test_it_holds_at_once_where_it_was_given(world: World, caller: GrpcMetastore) -> None:
    for scope in ("orders", ""):
        for _ in range(3):
            world.root.grant("shop", scope, READER, NAME)
            assert caller.plan(PlanRequest(world.table.table_uuid)).snapshot
            world.root.revoke("shop", scope, NAME)
            assert reason_of(lambda: caller.plan(PlanRequest(world.table.table_uuid))) == NO_GRANT


@pytest.mark.parametrize("scope", ["orders", ""])
def test_a_caller_gives_its_own_grant_back_and_no_other(world: World, caller: GrpcMetastore, scope: str) -> None:
    world.root.grant("shop", scope, READER, NAME)
    assert reason_of(lambda: caller.revoke("shop", scope, "reader-of-the-database")) == NO_GRANT
    assert reason_of(lambda: caller.revoke("other", "orders", NAME)) == NO_GRANT
    assert reason_of(lambda: caller.revoke("none", "", NAME)) == NO_GRANT, "as for what exists"
    caller.revoke("shop", scope, NAME)
    assert reason_of(lambda: caller.plan(PlanRequest(world.table.table_uuid))) == NO_GRANT
    assert world.root.list_grants(principal=NAME) == []


def test_a_lower_level_takes_effect_as_well(world: World, caller: GrpcMetastore) -> None:
    world.root.grant("shop", "orders", WRITER, NAME)
    assert caller.commit(commit(world)).results
    world.root.grant("shop", "orders", READER, NAME)
    assert reason_of(lambda: caller.commit(commit(world))) == NO_GRANT
    assert caller.plan(PlanRequest(world.table.table_uuid)).snapshot


@pytest.mark.parametrize("checked", [True, False])
def test_an_open_watch_ends(
    world: World, caller: GrpcMetastore, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    world.root.grant("shop", "orders", READER, NAME)
    if not checked:

        async def check_still(_: Authorization) -> None:
            """The control: nothing is checked while it sends."""

        monkeypatch.setattr(Authorization, "check_still", check_still)
    watch = caller.watch([WatchPosition(world.table.table_uuid, 1)])
    events = iter(watch)
    try:
        grow(world)
        assert next(events).snapshots
        world.root.revoke("shop", "orders", NAME)
        grow(world)
        if checked:
            with pytest.raises(PermissionDenied) as caught:
                next(events)
            assert caught.value.reason == NO_GRANT
        else:
            assert next(events).snapshots
    finally:
        watch.close()


def test_an_open_stream_of_commits_refuses_the_next_one(world: World, caller: GrpcMetastore) -> None:
    world.root.grant("shop", "orders", WRITER, NAME)
    pipeline = caller.open_commit_pipeline()
    try:
        assert pipeline.submit(commit(world)).result(20).results
        world.root.revoke("shop", "orders", NAME)
        refused = pipeline.submit(commit(world))
        assert reason_of(lambda: refused.result(20)) == NO_GRANT
        world.root.grant("shop", "orders", WRITER, NAME)
        assert pipeline.submit(commit(world)).result(20).results, "the stream itself goes on"
    finally:
        pipeline.close()


@pytest.mark.parametrize("checked", [True, False])
def test_a_call_that_waits_for_a_job_gets_none(
    world: World, caller: GrpcMetastore, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    world.root.grant("shop", "spare", WRITER, NAME)
    tried = threading.Event()
    check_still = Authorization.check_still

    async def check(self: Authorization) -> None:
        tried.set()
        if checked:
            await check_still(self)

    monkeypatch.setattr(Authorization, "check_still", check)
    tables = [world.spare.table_uuid]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(caller.lease_job, [COMPACT], tables, "h", duration_ms=60_000, wait_ms=20_000)
        assert tried.wait(20)
        world.root.revoke("shop", "spare", NAME)
        world.root.request_jobs(world.spare.table_uuid, COMPACT, ["/0"], {STRATEGY: FULL})
        if checked:
            with pytest.raises(PermissionDenied) as caught:
                waiting.result(30)
            assert caught.value.reason == NO_GRANT
        else:
            assert waiting.result(30) is not None, "the control: a job of a table that it may no longer write"


def test_commits_of_a_stream_keep_their_order_whatever_is_looked_up(world: World, caller: GrpcMetastore) -> None:
    world.root.grant("shop", "", WRITER, NAME)
    pipeline = caller.open_commit_pipeline()
    try:
        submitted = [pipeline.submit(commit(world)) for _ in range(30)]
        ids = [each.result(20).results[0].snapshot_id or 0 for each in submitted]
    finally:
        pipeline.close()
    assert ids == sorted(ids)


def announce_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in memory announces to its own metastore as well, at some moment."""

    async def announce(*_: object) -> None:
        pass

    monkeypatch.setattr(MemoryStore, "announce", announce)


@pytest.mark.parametrize("checked", [True, False])
def test_what_does_not_exist_any_more_shows_no_names_of_others(
    world: World, caller: GrpcMetastore, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """The grant went with its database, and this metastore has not noticed yet."""
    announce_nothing(monkeypatch)
    world.root.create_database("othre")
    world.root.grant("othre", "", OWNER, NAME)
    assert caller.list_tables("othre") == []
    monkeypatch.setattr(GrantChecks, "forget", lambda _: None)
    world.root.drop_database("othre")
    if not checked:

        async def check_again(_: Authorization) -> None:
            """The control: the error of the use case is passed on."""

        monkeypatch.setattr(Authorization, "check_again", check_again)
    with pytest.raises(LakelogError) as caught:
        caller.create_table(TableName("othre", "t"), world.table.schema.arrow)
    assert (caught.value.reason == NO_GRANT, "other" in caught.value.message) == (checked, not checked)


@pytest.mark.parametrize("checked", [True, False])
def test_a_commit_on_a_stream_shows_no_names_of_others_either(
    world: World, caller: GrpcMetastore, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    announce_nothing(monkeypatch)
    world.root.create_database("theirs")
    table, _ = world.root.create_table(TableName("theirs", "t"), world.table.schema.arrow)
    world.root.grant("theirs", "", WRITER, NAME)
    pipeline = caller.open_commit_pipeline()
    try:
        change = make_change(table, allow_empty=True)
        assert pipeline.submit(CommitRequest("sdk-" + f"{next(_numbers):032x}", 1, (change,))).result(20).results
        monkeypatch.setattr(GrantChecks, "forget", lambda _: None)
        # So that only the check of the error can be the reason.
        monkeypatch.setattr("metastore.grants.checking.MAX_AGE_S", 3600)
        world.root.drop_database("theirs", cascade=True)
        if not checked:

            async def show_error(_: Authorization, error: Exception) -> Exception:
                """The control: the error of the gate is passed on."""
                return error

            monkeypatch.setattr(Authorization, "show_error", show_error)
        refused = pipeline.submit(CommitRequest("sdk-" + f"{next(_numbers):032x}", 1, (change,)))
        with pytest.raises(LakelogError) as caught:
            refused.result(20)
        assert (caught.value.reason == NO_GRANT, "theirs.t" in caught.value.message) == (checked, not checked)
    finally:
        pipeline.close()


@pytest.mark.parametrize("announced", [True, False])
def test_another_metastore_notices(migrated_url: str, monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    if not announced:
        monkeypatch.setattr(WatchHub, "announce", lambda *_: None)
        monkeypatch.setattr("metastore.grants.checking.MAX_AGE_S", 0.5)
    else:
        # So that only the announcement can be the reason.
        monkeypatch.setattr("metastore.grants.checking.MAX_AGE_S", 3600)
    with ExitStack() as stack:
        world = stack.enter_context(open_world(migrated_url))
        second = stack.enter_context(serving(migrated_url, access=world.access))
        caller = stack.enter_context(closing(GrpcMetastore(second, token=token_of(NAME))))
        world.root.grant("shop", "orders", READER, NAME)
        request = PlanRequest(world.table.table_uuid)
        wait_until(lambda: reason_of(lambda: caller.plan(request)) == "")
        world.root.revoke("shop", "orders", NAME)
        wait_until(lambda: reason_of(lambda: caller.plan(request)) == NO_GRANT)


def wait_until(is_so: Callable[[], bool], within_s: float = 20.0) -> None:
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s
        threading.Event().wait(0.02)
