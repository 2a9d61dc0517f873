"""One caller cannot take what others need: shares of callers and connections, streams apart from calls, a reserve.

The controls are the same calls with limits that share nothing: then the one caller takes all.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
import pytest

from lakelog.client.connection.status import CallKind, from_rpc_error
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import LakelogError, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.rpc.v1 import jobs_pb2, snapshots_pb2, types_pb2
from lakelog.serving.edge.probes import OF_PROBES
from metastore.server.edge.admission import Admission
from metastore.server.edge.call_limits import CallLimits
from metastore.server.edge.running import Running
from tests.integration.server.callers import ACCESS, TOKEN, call, channels, metadata, wait_until
from tests.integration.server.running_server import RunningServer, ScriptedUseCases

V = TypeVar("V")
Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]

SHARED = CallLimits(max_calls=160, max_streams=160)
"""Of each 40 a caller and 20 a connection, with a tenth of these for commits."""

UNSHARED = CallLimits(max_calls=160, max_streams=160, caller_share=1, connection_share=1, commit_reserve=0)

WATCH = snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid="a" * 32)]).SerializeToString()


def open_watches(channel: grpc.Channel, name: str, count: int) -> list[Any]:
    watch: Any = channel.unary_stream("/lakelog.rpc.v1.SnapshotService/Watch")
    return [watch(WATCH, metadata=metadata(name)) for _ in range(count)]


def refused(calls: list[Any]) -> list[LakelogError]:
    """The errors of those of some open calls that were refused."""
    return [
        from_rpc_error(each, kind=CallKind.READ, method="Watch", target="t", deadline_s=None)
        for each in calls
        if each.done()
    ]


def refused_stream_of_commits(channel: grpc.Channel) -> LakelogError:
    made: Any = channel.stream_stream("/lakelog.rpc.v1.SnapshotService/CommitStream")
    answers = made(iter([b""]), metadata=metadata("bob"), timeout=10)
    with pytest.raises(grpc.RpcError):
        next(answers)
    return from_rpc_error(answers, kind=CallKind.READ, method="CommitStream", target="t", deadline_s=10)


def commit(server: RunningServer, name: str = "bob") -> None:
    client = GrpcMetastore(server.target, token=TOKEN[name])
    try:
        client.stage_attempt(["a" * 32], "w")
        client.commit(CommitRequest("w", 1, (Change("a" * 32, SnapshotKind.APPEND, 0, 1),), "b" * 32))
    finally:
        client.close()


def test_one_readers_idle_watches_leave_room_for_others(start_server: Start) -> None:
    server = start_server(access=ACCESS, limits=SHARED)
    with channels(server, 4) as (first, second, third, other):
        watches = [watch for channel in (first, second, third) for watch in open_watches(channel, "ann", 100)]
        wait_until(lambda: len(refused(watches)) == 300 - 36)
        reasons = {error.reason for error in refused(watches)}
        assert reasons == {"TOO_MANY_CALLS"}
        assert all(isinstance(error, Unavailable) for error in refused(watches))
        texts = " ".join({error.message for error in refused(watches)})
        assert "The caller ann has 36 streams open, and 36 is the limit. The rest up to 40 is kept" in texts
        assert "The connection ipv4:127.0.0.1:" in texts
        assert "raise --max-streams" in texts
        others = open_watches(other, "eve", 10)
        wait_until(lambda: len(server.use_cases.watched) == 46)
        assert not refused(others)
        assert call(first, "CatalogService/ListDatabases", "ann") is None, "streams take no calls"
        assert call(other, "CatalogService/ListDatabases", "eve") is None
        commit(server)


def test_control_without_shares_one_readers_idle_watches_shut_all_others_out(start_server: Start) -> None:
    server = start_server(access=ACCESS, limits=UNSHARED)
    with channels(server, 2) as (first, other):
        watches = open_watches(first, "ann", 200)
        wait_until(lambda: len(refused(watches)) == 40)
        others = open_watches(other, "eve", 1)
        wait_until(lambda: bool(refused(others)))
        error = refused_stream_of_commits(other)
        assert "160 streams open, and 160 is the limit" in error.message


def holding(name: str) -> tuple[ScriptedUseCases, asyncio.Event]:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    return ScriptedUseCases(before={name: hold}), release


def test_reads_of_all_callers_together_leave_the_reserve_to_commits(start_server: Start) -> None:
    use_cases, release = holding("list_tables")
    server = start_server(use_cases, access=ACCESS, limits=CallLimits(max_calls=20, working=20))
    with channels(server, 4) as (*opened, other):
        held = []
        for channel, name in zip(opened, TOKEN, strict=True):
            made: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
            held += [made.future(b"", timeout=60, metadata=metadata(name)) for _ in range(15)]
        wait_until(lambda: use_cases.calls.count("list_tables") == 18 and sum(each.done() for each in held) == 45 - 18)
        refusal = call(other, "CatalogService/ListDatabases", "eve")
        assert refusal is not None
        assert "The service has 18 calls open, and 18 is the limit. The rest up to 20" in refusal.message
        commit(server)
        still = call(other, "CatalogService/GetTable", "eve")
        assert still is not None, "a reader takes no reserve, also by a call that commits need"
        server.loop.call_soon_threadsafe(release.set)
        wait_until(lambda: all(each.done() for each in held))
        assert call(other, "CatalogService/ListDatabases", "eve") is None


def test_control_without_a_reserve_reads_keep_commits_out(start_server: Start) -> None:
    use_cases, release = holding("list_tables")
    server = start_server(
        use_cases, access=ACCESS, limits=CallLimits(max_calls=20, commit_reserve=0, caller_share=1, working=20)
    )
    with channels(server, 2) as opened:
        held = []
        for channel in opened:
            made: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
            held += [made.future(b"", timeout=60, metadata=metadata("ann")) for _ in range(15)]
        wait_until(lambda: use_cases.calls.count("list_tables") == 20)
        refusal = call(opened[0], "SnapshotService/StageAttempt", "bob")
        assert refusal is not None
        assert refusal.reason == "TOO_MANY_CALLS"
        server.loop.call_soon_threadsafe(release.set)
        wait_until(lambda: all(each.done() for each in held))


def on_loop(server: RunningServer, look: Callable[[Admission], V]) -> V:
    async def run() -> V:
        return look(server.server._interceptor.admission)

    seen: V = server.run(run())
    return seen


def arriving(server: RunningServer) -> dict[str | None, int]:
    return on_loop(server, lambda admission: dict(admission.arrivals.counts))


def test_calls_whose_request_never_comes_are_counted_and_end(start_server: Start) -> None:
    server = start_server(access=ACCESS, limits=CallLimits(max_calls=160, receive_s=1.0))
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait(60)
        yield from ()

    with channels(server, 2) as (first, other):
        made: Any = first.stream_stream("/lakelog.rpc.v1.CatalogService/ListTables")
        held = [made(silent(), metadata=metadata("ann")) for _ in range(30)]
        # Eight are left to gRPC, and 18 have places, in two rounds of a second and one of less.
        wait_until(lambda: sum(each.done() for each in held) == 4)
        assert {error.reason for error in refused(held)} == {"TOO_MANY_CALLS"}
        # They wait for their own caller's turn, nobody else's.
        assert call(other, "CatalogService/ListTables", "eve") is None
        wait_until(lambda: sum(each.done() for each in held) == 22)
        assert any("did not arrive in time: within 1 s" in error.message for error in refused(held))
        assert arriving(server) == {"ann": 8}
        assert call(first, "CatalogService/ListTables", "ann") is None, "also beyond the eight"
        for each in held:
            each.cancel()
        wait_until(lambda: not arriving(server))
        never.set()
    assert server.use_cases.finished.count("list_tables") == 2


def test_control_if_all_are_left_to_grpc_calls_whose_request_never_comes_have_no_limit_and_no_end(
    start_server: Start,
) -> None:
    server = start_server(access=ACCESS, limits=CallLimits(max_calls=16, receive_s=0.1, receiving=1000))
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait(60)
        yield from ()

    with channels(server, 1) as (channel,):
        made: Any = channel.stream_stream("/lakelog.rpc.v1.CatalogService/ListTables")
        held = [made(silent(), metadata=metadata("ann")) for _ in range(30)]
        wait_until(lambda: arriving(server) == {"ann": 30})
        time.sleep(0.3)
        assert not refused(held)
        for each in held:
            each.cancel()
        wait_until(lambda: not arriving(server))
        never.set()


@pytest.mark.parametrize("keeps", [True, False], ids=["protected", "control"])
def test_a_mutation_keeps_its_place_until_it_is_completed_though_its_caller_is_gone(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    if not keeps:
        begin = Running.start
        monkeypatch.setattr(Running, "start", lambda *args, **options: (begin(*args, **options)[0], None))
    most = 16 if keeps else 40
    use_cases, release = holding("register_writer")
    server = start_server(use_cases, access=ACCESS, limits=CallLimits(max_calls=16, working=16))
    with channels(server, 1) as (channel,):
        made: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/RegisterWriter")
        abandoned = 0
        while use_cases.calls.count("register_writer") < most:
            running = made.future(b"", timeout=10, metadata=metadata("bob"))
            seen = abandoned
            wait_until(lambda seen=seen: use_cases.calls.count("register_writer") > seen)  # type: ignore[misc]
            running.cancel()
            abandoned += 1
        if keeps:
            refusal = call(channel, "SnapshotService/RegisterWriter", "bob")
            assert refusal is not None
            assert refusal.reason == "TOO_MANY_CALLS"
        assert not use_cases.finished
        server.loop.call_soon_threadsafe(release.set)
        wait_until(lambda: call(channel, "CatalogService/ListDatabases", "bob") is None)
    wait_until(lambda: use_cases.finished.count("register_writer") == most)


def test_calls_beyond_those_that_are_worked_on_wait_and_one_given_up_meanwhile_is_never_begun(
    start_server: Start,
) -> None:
    use_cases, release = holding("list_tables")
    server = start_server(use_cases, access=ACCESS, limits=CallLimits(working=3))
    with channels(server, 2) as (first, other):
        made: Any = first.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
        held = [made.future(b"", timeout=60, metadata=metadata("ann")) for _ in range(3)]
        wait_until(lambda: use_cases.calls.count("list_tables") == 3)
        held += [made.future(b"", timeout=60, metadata=metadata("ann")) for _ in range(7)]
        wait_until(lambda: server.server._interceptor.admission.calls.open_count == 10)
        assert use_cases.calls.count("list_tables") == 3
        assert call(other, "CatalogService/ListDatabases", "eve") is None, "each caller has its own turns"
        for each in held[5:]:
            each.cancel()
        wait_until(lambda: server.server._interceptor.admission.calls.open_count == 5)
        server.loop.call_soon_threadsafe(release.set)
        for each in held[:5]:
            each.result()
        assert use_cases.calls.count("list_tables") == 5
        commit(server)
        assert server.server._interceptor.admission.working.is_empty


def test_a_caller_that_does_not_read_its_large_plans_delays_no_large_commit(start_server: Start) -> None:
    use_cases, release = holding("plan")
    server = start_server(use_cases, access=ACCESS, large_request_bytes=100_000)
    plan = snapshots_pb2.PlanRequest(table_uuid="a" * 32, buckets=range(50_000)).SerializeToString()
    change = snapshots_pb2.Change(
        table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND, properties={"p": "x" * 20_000}
    )
    large = snapshots_pb2.CommitRequest(writer="w", identifier=1, changes=[change]).SerializeToString()
    with channels(server, 2) as (first, other):
        made: Any = first.unary_stream("/lakelog.rpc.v1.SnapshotService/Plan")
        held = made(plan, timeout=60, metadata=metadata("eve"))
        wait_until(lambda: "plan" in use_cases.calls)
        assert call(other, "SnapshotService/Commit", "bob", large) is None
        assert not held.done()
        server.loop.call_soon_threadsafe(release.set)
        list(held)


@pytest.mark.parametrize("held", [3, 40], ids=["all-turns", "also-those-of-receiving"])
def test_renewals_and_commits_of_a_caller_do_not_wait_behind_its_other_calls(start_server: Start, held: int) -> None:
    """Else it would lose its leases and jobs while the metastore is slow for it."""
    use_cases, release = holding("list_tables")
    server = start_server(use_cases, access=ACCESS, limits=CallLimits(working=3, call_s=5))
    with channels(server, 1) as (channel,):
        made: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
        waiting = [made.future(b"", timeout=60, metadata=metadata("bob")) for _ in range(held)]
        wait_until(lambda: server.server._interceptor.admission.calls.open_count == held)
        wait_until(lambda: use_cases.calls.count("list_tables") == 3)
        renewal = jobs_pb2.RenewLeaseRequest(name="l", epoch=1, duration_ms=1000).SerializeToString()
        assert call(channel, "JobService/RenewLease", "bob", renewal) is None
        staged = snapshots_pb2.StageAttemptRequest(table_uuids=["a" * 32], writer="w").SerializeToString()
        assert call(channel, "SnapshotService/StageAttempt", "bob", staged) is None
        server.loop.call_soon_threadsafe(release.set)
        for each in waiting:
            each.result()
    assert server.server._interceptor.admission.working.is_empty


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_health_is_answered_over_other_connections_whatever_one_holds_open(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    if not is_bounded:
        monkeypatch.setattr(CallLimits, "of_probes", lambda self: dataclasses.replace(OF_PROBES, connection=1000))
    server = start_server(limits=CallLimits(max_calls=16))
    with channels(server, 2) as (first, other):
        watch: Any = first.unary_stream("/grpc.health.v1.Health/Watch")
        held = [watch(b"") for _ in range(40)]
        allowed = 16 if is_bounded else 40
        wait_until(lambda: on_loop(server, lambda admission: admission._probes.open_count) == allowed)
        wait_until(lambda: sum(each.done() for each in held) == 40 - allowed)
        check: Any = other.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=10)


@pytest.mark.parametrize("takes_certificates", [False, True])
def test_an_unknown_caller_is_refused_by_its_headers_alone(start_server: Start, takes_certificates: bool) -> None:
    """Else gRPC would take 64 MiB from each call of callers without a token.

    The control is a server for which the caller could have a certificate: it knows that only with the request.
    """
    server = start_server(access=dataclasses.replace(ACCESS, any_certificate=takes_certificates))
    sent = threading.Event()

    def later() -> Iterator[bytes]:
        sent.wait(30)
        yield b""

    with channels(server, 1) as (channel,):
        made: Any = channel.stream_unary("/lakelog.rpc.v1.SnapshotService/Commit")
        refused_call = made.future(later(), timeout=30)
        if takes_certificates:
            wait_until(lambda: on_loop(server, lambda admission: admission.arrivals.counts.total()) == 1)
            assert not refused_call.done()
        else:
            assert refused_call.exception(timeout=20) is not None
        sent.set()
        assert refused_call.exception(timeout=20).code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_connection_sends_the_requests_of_its_health_checks_one_by_one(start_server: Start) -> None:
    """Anyone can send them, and gRPC takes 64 MiB for each. Other connections do not wait."""
    server = start_server(access=ACCESS)
    sent = threading.Event()

    def later() -> Iterator[bytes]:
        sent.wait(30)
        yield b""

    def waiting(admission: Admission) -> list[int]:
        return [room.waiting_count for room, _ in admission.receiving_probes._rooms.values()]

    with channels(server, 2) as (first, other):
        made: Any = first.stream_unary("/grpc.health.v1.Health/Check")
        held = [made.future(later(), timeout=30) for _ in range(3)]
        wait_until(lambda: on_loop(server, waiting) == [2])
        check: Any = other.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=10)
        sent.set()
        for each in held:
            assert each.result(timeout=20)
    wait_until(lambda: on_loop(server, lambda admission: admission.receiving_probes.is_empty))


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_connections_beyond_their_number_are_refused_and_open_ones_go_on(start_server: Start, is_bounded: bool) -> None:
    server = start_server(max_connections=3 if is_bounded else 4000)
    with channels(server, 3) as opened:
        check: list[Any] = [channel.unary_unary("/grpc.health.v1.Health/Check") for channel in opened]
        for each in check:
            assert each(b"", timeout=10) is not None
        with channels(server, 1) as (more,):
            one_more: Any = more.unary_unary("/grpc.health.v1.Health/Check")
            with pytest.raises(grpc.RpcError) if is_bounded else contextlib.nullcontext():
                one_more(b"", timeout=2)
        for each in check:
            assert each(b"", timeout=10) is not None


def test_a_client_that_is_refused_waits_and_is_served_once_there_is_room(start_server: Start, connect: Connect) -> None:
    use_cases, release = holding("list_tables")
    server = start_server(use_cases, limits=CallLimits(max_calls=2))
    with channels(server, 1) as (channel,):
        made: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
        held = [made.future(b"", timeout=30) for _ in range(2)]
        wait_until(lambda: use_cases.calls.count("list_tables") == 2)
        client = connect(server.target)
        with pytest.raises(Unavailable, match=r"Tried \d+ times"):
            client.list_databases()
        threading.Timer(0.3, lambda: server.loop.call_soon_threadsafe(release.set)).start()
        assert client.list_databases() == []
        for each in held:
            each.result()
