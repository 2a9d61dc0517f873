"""Streams of commits that are opened by the hundred, not read, sent at length, or left: what they take is given back.

Meanwhile others commit and plan.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from lakelog.serving.edge.turns import Turns
from metastore.ownership import Principal
from metastore.server.edge import requests, running
from metastore.server.edge.call_limits import CallLimits
from metastore.server.servicers import snapshots
from tests.integration.server.callers import ACCESS, call, channels, metadata, wait_until
from tests.integration.server.running_server import RunningServer, ScriptedUseCases

Start = Callable[..., RunningServer]

STREAM = "/lakelog.rpc.v1.SnapshotService/CommitStream"
IN_FLIGHT = 16


def a_commit(identifier: int, writer: str = "slow", size: int = 0) -> snapshots_pb2.CommitRequest:
    properties = {"p": "x" * size} if size else {}
    change = snapshots_pb2.Change(
        table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND, properties=properties, bucket_count=1
    )
    return snapshots_pb2.CommitRequest(writer=writer, identifier=identifier, changes=[change], attempt_id="b" * 32)


def commits(count: int | None = None, size: int = 0) -> Iterator[bytes]:
    numbers: Iterator[int] = itertools.count(1) if count is None else iter(range(1, count + 1))
    for number in numbers:
        yield snapshots_pb2.CommitStreamRequest(commit=a_commit(number, size=size)).SerializeToString()


@dataclass
class HeldCommits(ScriptedUseCases):
    """The commits of the writer `slow` wait until they are released."""

    release: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    done: int = 0

    async def commit(self, request: CommitRequest, *, by: Principal) -> CommitResult:
        if request.writer == "slow":
            self.begun += 1
            # As at the gate: a caller that is gone withdraws nothing.
            await asyncio.shield(asyncio.ensure_future(self._wait()))
        return await super().commit(request, by=by)

    async def _wait(self) -> None:
        await self.release.wait()
        self.done += 1


def start(start_server: Start, **settings: Any) -> tuple[RunningServer, HeldCommits]:
    use_cases = HeldCommits()
    return start_server(use_cases, access=ACCESS, max_in_flight=IN_FLIGHT, **settings), use_cases


def streams_of(server: RunningServer) -> list[str]:
    """The names of the tasks that serve streams of commits."""

    async def find() -> list[str]:
        return [each.get_name() for each in asyncio.all_tasks() if each.get_name().startswith("commit")]

    names: list[str] = server.run(find())
    return names


def open_streams(server: RunningServer) -> int:
    return server.server._interceptor.admission.streams.open_count


def open_stream(channel: grpc.Channel, messages: Iterator[bytes]) -> Any:
    made: Any = channel.stream_stream(STREAM)
    return made(messages, metadata=metadata("bob"))


def room_used(server: RunningServer) -> int:
    return server.server._requests._room.used


def release(server: RunningServer, use_cases: HeldCommits) -> None:
    server.loop.call_soon_threadsafe(use_cases.release.set)


def others_go_on(channel: grpc.Channel) -> None:
    request = a_commit(1, writer="other", size=20_000).SerializeToString()
    assert call(channel, "SnapshotService/Commit", "bob", request) is None
    assert call(channel, "CatalogService/ListDatabases", "eve") is None


def test_one_callers_streams_leave_places_to_others_and_go_with_their_connection(start_server: Start) -> None:
    server, _ = start(start_server, limits=CallLimits(max_streams=160))
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        never.wait(60)
        yield from ()

    with channels(server, 1) as (other,):
        with channels(server, 3) as opened:
            held = [open_stream(channel, silent()) for channel in opened * 30]
            wait_until(lambda: sum(each.done() for each in held) == 90 - 40 and open_streams(server) == 40)
            others_go_on(other)
            watch: Any = other.unary_stream("/lakelog.rpc.v1.SnapshotService/Watch")
            watched = watch(b"", metadata=metadata("eve"))
            wait_until(lambda: open_streams(server) == 41)
            watched.cancel()
        wait_until(lambda: open_streams(server) == 0)
        wait_until(lambda: not streams_of(server))
        never.set()


def test_a_stream_whose_answers_are_not_read_has_few_commits_at_once(start_server: Start) -> None:
    """It sends as fast as it can, and is left in the midst of its commits."""
    server, use_cases = start(start_server)
    with channels(server, 2) as (first, other):
        stream = open_stream(first, commits())
        wait_until(lambda: use_cases.begun == IN_FLIGHT)
        others_go_on(other)
        assert use_cases.begun == IN_FLIGHT
        stream.cancel()
        wait_until(lambda: open_streams(server) == 0)
        assert use_cases.done == 0
        release(server, use_cases)
        wait_until(lambda: use_cases.done == IN_FLIGHT)
        wait_until(lambda: not streams_of(server))
        others_go_on(other)


@pytest.mark.parametrize("is_shared", [True, False], ids=["protected", "control"])
def test_all_streams_of_a_caller_have_few_commits_at_once(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """Twenty streams that are not read had 5,000 commits under way, and other calls waited for a second."""
    if not is_shared:
        monkeypatch.setattr(snapshots, "Turns", lambda _: Turns(1000))
    use_cases = HeldCommits()
    # Callers are not identified here, so that each connection is one.
    server = start_server(use_cases, max_in_flight=IN_FLIGHT)
    with channels(server, 2) as (first, other):
        held = [open_stream(first, commits()) for _ in range(3)]
        # Without the limit: the one that is answered next, those that wait to be answered, and one that waits to.
        alone = IN_FLIGHT if is_shared else 3 * (IN_FLIGHT + 2)
        wait_until(lambda: use_cases.begun == alone)
        # Another connection has turns of its own.
        held.append(open_stream(other, commits(5)))
        wait_until(lambda: use_cases.begun == alone + 5)
        others_go_on(other)
        assert use_cases.begun == alone + 5
        release(server, use_cases)
        # Streams whose turns were taken by others go on.
        answers = [snapshots_pb2.CommitStreamResponse.FromString(next(each)) for each in held]
        assert [each.WhichOneof("outcome") for each in answers] == ["committed"] * 4
        for each in held:
            each.cancel()
        wait_until(lambda: open_streams(server) == 0 and not streams_of(server))


def test_large_commits_of_one_stream_take_no_more_than_the_room_until_they_are_done(start_server: Start) -> None:
    server, use_cases = start(start_server, large_request_bytes=400_000)
    with channels(server, 2) as (first, other):
        stream = open_stream(first, commits(40, size=50_000))
        # Three quarters of the room are for commits.
        wait_until(lambda: use_cases.begun == 5)
        assert 250_000 < room_used(server) <= 300_000
        assert call(other, "CatalogService/ListDatabases", "eve") is None
        stream.cancel()
        wait_until(lambda: open_streams(server) == 0)
        assert room_used(server) > 250_000, "its commits still hold their messages"
        release(server, use_cases)
        wait_until(lambda: room_used(server) == 0 and not streams_of(server))
        others_go_on(other)


def test_a_half_closed_stream_gets_all_answers(start_server: Start) -> None:
    server, use_cases = start(start_server)
    release(server, use_cases)
    with channels(server, 1) as (channel,):
        stream = open_stream(channel, commits(100))
        answers = [snapshots_pb2.CommitStreamResponse.FromString(each) for each in stream]
    assert [each.WhichOneof("outcome") for each in answers] == ["committed"] * 100
    wait_until(lambda: open_streams(server) == 0 and not streams_of(server))


@pytest.mark.parametrize("is_held", [True, False], ids=["protected", "control"])
def test_a_large_commit_whose_caller_is_gone_keeps_its_room_until_it_is_done(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    if not is_held:
        begin = running.Running.start
        monkeypatch.setattr(
            running.Running, "start", lambda self, method, work, is_large: begin(self, method, work, is_large=False)
        )
    server, use_cases = start(start_server)
    admission = server.server._interceptor.admission
    with channels(server, 1) as (channel,):
        made: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/Commit")
        given_up = made.future(a_commit(1, size=50_000).SerializeToString(), metadata=metadata("bob"))
        wait_until(lambda: use_cases.begun == 1)
        given_up.cancel()
        if is_held:
            # Its end on the server comes before the answer to a later call.
            assert call(channel, "CatalogService/ListDatabases", "bob") is None
            assert room_used(server) > 50_000
            assert admission.calls.open_count == 1
        else:
            wait_until(lambda: room_used(server) == 0)
            assert use_cases.done == 0
        release(server, use_cases)
        wait_until(lambda: room_used(server) == 0 and admission.calls.open_count == 0)


PLAN = snapshots_pb2.PlanRequest(table_uuid="a" * 32, buckets=range(50_000)).SerializeToString()
"""More than all plans have room for together in the server below."""

WATCH = snapshots_pb2.WatchRequest(
    positions=[snapshots_pb2.WatchPosition(table_uuid=f"{number:032x}") for number in range(800)]
).SerializeToString()


@pytest.mark.parametrize("forgets", [True, False], ids=["protected", "control"])
def test_plans_and_watches_that_are_not_read_take_no_room(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    if not forgets:
        monkeypatch.setattr(snapshots, "forget_request", lambda: None)
    server, use_cases = start(start_server, large_request_bytes=100_000)
    unread = asyncio.Event()

    async def hold() -> None:
        await unread.wait()

    use_cases.before["watch"] = hold
    with channels(server, 2) as (first, other):
        watch: Any = first.unary_stream("/lakelog.rpc.v1.SnapshotService/Watch")
        watched = watch(WATCH, metadata=metadata("eve"))
        wait_until(lambda: "watch" in use_cases.calls)
        assert (room_used(server) == 0) is forgets
        plan: Any = first.unary_stream("/lakelog.rpc.v1.SnapshotService/Plan")
        use_cases.plan_chunks = []
        use_cases.before["plan_end"] = hold
        held = plan(PLAN, metadata=metadata("eve"))
        next(held)
        of_plans = server.server._requests._room_of_plans
        assert (of_plans.used == 0) is forgets
        if forgets:
            another: Any = other.unary_stream("/lakelog.rpc.v1.SnapshotService/Plan")
            assert next(another(PLAN, metadata=metadata("ann"), timeout=30))
        server.loop.call_soon_threadsafe(unread.set)
        watched.cancel()
        held.cancel()
        wait_until(lambda: room_used(server) == 0 and of_plans.used == 0)


def test_a_cancelled_request_keeps_its_room_until_its_thread_is_done() -> None:
    """A thread cannot be stopped."""

    async def run() -> None:
        received = requests.Requests({}, 400_000)
        bounds = type("Bounds", (), {"check_size": lambda self, data: None, "check_entries": lambda self, data: None})()
        received.bounds["m"] = bounds  # type: ignore[index]
        begun, release = threading.Event(), threading.Event()

        def parse(data: bytes) -> Any:
            begun.set()
            release.wait(30)

        reading = asyncio.ensure_future(received.read("m", b"x" * 50_000, parse))
        await asyncio.to_thread(begun.wait, 30)
        for _ in range(3):
            reading.cancel()
            await asyncio.sleep(0)
            assert received._room.used == 50_000
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert received._room.used == 0
        received.close()

    asyncio.run(run())
