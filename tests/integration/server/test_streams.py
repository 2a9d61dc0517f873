"""Commit streams and watches over a real server, whole, broken and drained."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.errors import (
    CommitConflict,
    Fenced,
    InternalError,
    InvalidArgument,
    OutcomeUnknown,
    ResourceExhausted,
    SnapshotExpired,
    Unavailable,
)
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.rpc.services import Stubs
from lakelog.rpc.unary import SERVICES
from lakelog.rpc.v1 import snapshots_pb2
from metastore.server.servicers import snapshots as snapshot_servicer
from tests.integration.server.running_server import RunningServer, ScriptedUseCases, snapshot
from tests.integration.server.tcp_proxy import TcpProxy

Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]
TABLE_UUID = "a" * 32


def commit(identifier: int, writer: str = "w") -> CommitRequest:
    return CommitRequest(writer, identifier, (Change(TABLE_UUID, SnapshotKind.APPEND, 0, 1),), "b" * 32)


def wait_until(condition: Callable[[], bool], timeout_s: float = 5) -> None:
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, "it never came to be"
        time.sleep(0.01)


@pytest.fixture
def proxy_to() -> Iterator[Callable[[RunningServer], TcpProxy]]:
    made: list[TcpProxy] = []

    def make(server: RunningServer) -> TcpProxy:
        made.append(TcpProxy(server.port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def test_commits_on_a_stream_begin_in_order_overlap_and_are_answered_in_order(
    start_server: Start, connect: Connect
) -> None:
    # The first takes longest: were they not overlapping, this would take 20 * 0.1 s and more.
    use_cases = ScriptedUseCases(commit_delay_s=lambda request: 0.3 if request.identifier == 1 else 0.1)
    pipeline = connect(start_server(use_cases).target).open_commit_pipeline()
    began = time.monotonic()
    done: list[int] = []
    futures = []
    for identifier in range(1, 41):
        future = pipeline.submit(commit(identifier))
        future.add_done_callback(lambda _, identifier=identifier: done.append(identifier))  # type: ignore[misc]
        futures.append(future)
    pipeline.close()
    assert time.monotonic() - began < 1.5
    assert use_cases.commit_order == list(range(1, 41))
    assert done == list(range(1, 41))
    assert [future.result().results[0].snapshot_id for future in futures] == list(range(1, 41))


def test_one_commit_that_fails_stops_none_after_it(start_server: Start, connect: Connect) -> None:
    numbers = itertools.count(1)

    async def refuse_the_second() -> None:
        if next(numbers) == 2:
            raise CommitConflict("taken", metadata={"retry": "never"})

    pipeline = connect(
        start_server(ScriptedUseCases(before={"commit": refuse_the_second})).target
    ).open_commit_pipeline()
    first, second, third = [pipeline.submit(commit(identifier)) for identifier in (1, 2, 3)]
    pipeline.close()
    assert first.result().results[0].snapshot_id == 1
    with pytest.raises(CommitConflict, match="taken") as caught:
        second.result()
    assert caught.value.metadata == {"retry": "never"}
    assert third.result().results[0].snapshot_id == 3


def test_at_most_so_many_are_in_flight(start_server: Start, connect: Connect) -> None:
    use_cases = ScriptedUseCases(commit_delay_s=lambda request: 0.2)
    pipeline = connect(start_server(use_cases).target).open_commit_pipeline(max_in_flight=3)
    began = time.monotonic()
    for identifier in range(6):
        pipeline.submit(commit(identifier))
    assert time.monotonic() - began > 0.15, "the fourth had to wait for the first"
    pipeline.close()
    assert len(use_cases.commit_order) == 6


def test_the_server_reads_no_further_ahead_than_it_may(start_server: Start, connect: Connect) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    use_cases = ScriptedUseCases(before={"commit": hold})
    server = start_server(use_cases, max_in_flight=4)
    pipeline = connect(server.target).open_commit_pipeline(max_in_flight=100)
    futures = [pipeline.submit(commit(identifier)) for identifier in range(50)]
    time.sleep(0.5)
    # Those in the queue, the one that is waited for and the one that waits for room.
    assert len(use_cases.commit_order) <= 6
    server.loop.call_soon_threadsafe(release.set)
    pipeline.close()
    assert all(future.result() for future in futures)


def test_a_broken_stream_leaves_open_commits_unknown_and_later_ones_unsent(
    start_server: Start, connect: Connect, proxy_to: Callable[[RunningServer], TcpProxy]
) -> None:
    use_cases = ScriptedUseCases()
    server = start_server(use_cases)
    proxy = proxy_to(server)
    pipeline = connect(proxy.target).open_commit_pipeline()
    assert pipeline.submit(commit(1)).result(5)
    proxy.hold_answers = True
    lost = pipeline.submit(commit(2))
    wait_until(lambda: 2 in use_cases.commit_order)
    proxy.cut()
    with pytest.raises(OutcomeUnknown, match="may have taken effect"):
        lost.result(5)
    with pytest.raises(Unavailable, match="not sent"):
        pipeline.submit(commit(3))
    pipeline.close()
    assert use_cases.commit_order == [1, 2]
    # Repeated on a new pipeline it is answered with the first result.
    again = connect(server.target).open_commit_pipeline()
    assert again.submit(commit(2)).result(5) == use_cases.committed["w", 2]
    again.close()


def test_a_stream_without_answers_is_cut(start_server: Start, connect: Connect) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    server = start_server(ScriptedUseCases(before={"commit": hold}))
    client = connect(server.target, retries=RetryPolicy(commit_total_s=0.5))
    pipeline = client.open_commit_pipeline()
    future = pipeline.submit(commit(1))
    with pytest.raises(OutcomeUnknown):
        future.result(10)
    pipeline.close()
    server.loop.call_soon_threadsafe(release.set)


def test_a_pipeline_that_is_closed_takes_nothing(start_server: Start, connect: Connect) -> None:
    client = connect(start_server().target)
    pipeline = client.open_commit_pipeline()
    pipeline.close()
    pipeline.close()
    with pytest.raises((InvalidArgument, Unavailable)):
        pipeline.submit(commit(1))
    with pytest.raises(InvalidArgument, match="max_in_flight is 0"):
        client.open_commit_pipeline(max_in_flight=0)


def test_a_commit_whose_answer_was_cut_off_is_answered_with_its_first_result(
    start_server: Start, connect: Connect, proxy_to: Callable[[RunningServer], TcpProxy]
) -> None:
    use_cases = ScriptedUseCases()
    server = start_server(use_cases)
    proxy = proxy_to(server)
    client = connect(proxy.target)
    client.list_databases()
    proxy.hold_answers = True

    def cut_and_heal() -> None:
        wait_until(lambda: bool(use_cases.commit_order))
        proxy.cut()
        proxy.hold_answers = False

    healer = threading.Thread(target=cut_and_heal)
    healer.start()
    # Without the health check, which would be held too.
    result = client.commit(commit(1))
    healer.join()
    assert len(use_cases.commit_order) >= 2, "it was not repeated, so nothing was cut"
    assert result == use_cases.committed["w", 1]


def test_a_commit_that_is_never_answered_is_unknown(
    start_server: Start, connect: Connect, proxy_to: Callable[[RunningServer], TcpProxy]
) -> None:
    use_cases = ScriptedUseCases()
    proxy = proxy_to(start_server(use_cases))
    client = connect(proxy.target, retries=RetryPolicy(commit_total_s=1, max_backoff_s=0.1))
    client.list_databases()
    proxy.hold_answers = True

    def cut() -> None:
        wait_until(lambda: bool(use_cases.commit_order))
        proxy.refuse = True
        proxy.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(OutcomeUnknown):
        client.commit(commit(1))
    cutter.join()


def test_after_an_unknown_try_a_refusal_of_the_caller_proves_nothing(start_server: Start, connect: Connect) -> None:
    numbers = itertools.count(1)

    async def fail() -> None:
        if next(numbers) == 1:
            raise OutcomeUnknown("connection lost during COMMIT")
        raise ResourceExhausted("too many")

    client = connect(start_server(ScriptedUseCases(before={"commit": fail})).target)
    with pytest.raises(OutcomeUnknown, match="Repeating it brought: too many"):
        client.commit(commit(1))


def test_after_an_unknown_try_the_gates_verdict_counts(start_server: Start, connect: Connect) -> None:
    numbers = itertools.count(1)

    async def fail() -> None:
        if next(numbers) == 1:
            raise OutcomeUnknown("connection lost during COMMIT")
        raise Fenced("epoch 2")

    client = connect(start_server(ScriptedUseCases(before={"commit": fail})).target)
    with pytest.raises(Fenced):
        client.commit(commit(1))


# Watches


def follow(client: GrpcMetastore, seen: list[int], after: int = 0) -> tuple[Any, threading.Thread]:
    watch = client.watch([WatchPosition(TABLE_UUID, after)])

    def read() -> None:
        for event in watch:
            seen.extend(found.snapshot_id for found in event.snapshots)

    thread = threading.Thread(target=read)
    thread.start()
    return watch, thread


def test_a_watch_reports_snapshots_until_it_is_closed_from_another_thread(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(heartbeat_s=0.05)
    seen: list[int] = []
    watch, thread = follow(connect(server.target), seen, after=3)
    server.push(WatchEvent(TABLE_UUID, (snapshot(4), snapshot(5))))
    wait_until(lambda: seen == [4, 5])
    time.sleep(0.2)  # Signs of life are no events.
    server.push(WatchEvent(TABLE_UUID, (snapshot(6),)))
    wait_until(lambda: seen == [4, 5, 6])
    watch.close()
    watch.close()
    thread.join(5)
    assert not thread.is_alive()
    assert list(watch) == []


def test_a_watch_comes_back_from_where_it_was(
    start_server: Start, connect: Connect, proxy_to: Callable[[RunningServer], TcpProxy]
) -> None:
    use_cases = ScriptedUseCases()
    server = start_server(use_cases)
    proxy = proxy_to(server)
    seen: list[int] = []
    watch, thread = follow(connect(proxy.target), seen)
    server.push(WatchEvent(TABLE_UUID, (snapshot(1), snapshot(2))))
    wait_until(lambda: seen == [1, 2])
    proxy.cut()
    wait_until(lambda: len(use_cases.watched) == 2)
    assert use_cases.watched[1] == [WatchPosition(TABLE_UUID, 2, snapshot(2).snapshot_uuid)]
    # What the server tells again is not told again.
    server.push(WatchEvent(TABLE_UUID, (snapshot(2), snapshot(3))))
    wait_until(lambda: seen == [1, 2, 3])
    watch.close()
    thread.join(5)


def test_a_large_event_is_cut_into_messages_and_loses_nothing(start_server: Start, connect: Connect) -> None:
    server = start_server()
    seen: list[int] = []
    watch, thread = follow(connect(server.target), seen)
    server.push(WatchEvent(TABLE_UUID, tuple(snapshot(number) for number in range(1, 1001))))
    wait_until(lambda: len(seen) == 1000)
    assert seen == list(range(1, 1001))
    watch.close()
    thread.join(5)


def test_a_gap_is_a_defect_that_is_not_passed_on(start_server: Start, connect: Connect) -> None:
    server = start_server()
    watch = connect(server.target).watch([WatchPosition(TABLE_UUID, 0)])
    server.push(WatchEvent(TABLE_UUID, (snapshot(2),)))
    with pytest.raises(InternalError, match="left out snapshots between 0 and 2"):
        next(iter(watch))


def test_a_watch_ends_with_the_last_table_dropped(start_server: Start, connect: Connect) -> None:
    server = start_server()
    watch = connect(server.target).watch([WatchPosition(TABLE_UUID, 0)])
    server.push(WatchEvent(TABLE_UUID, (snapshot(1),), dropped=True))
    (event,) = watch
    assert event.dropped
    assert [found.snapshot_id for found in event.snapshots] == [1]


def test_a_watch_passes_on_what_ended_it(start_server: Start, connect: Connect) -> None:
    server = start_server()
    watch = connect(server.target).watch([WatchPosition(TABLE_UUID, 0)])
    server.push(SnapshotExpired("The oldest is 7."))
    with pytest.raises(SnapshotExpired, match="The oldest is 7"):
        next(iter(watch))


def test_a_slow_watcher_comes_back_but_not_for_ever(start_server: Start, connect: Connect) -> None:
    server = start_server()
    watch = connect(server.target).watch([WatchPosition(TABLE_UUID, 0)])
    server.push(WatchEvent(TABLE_UUID, (snapshot(1),)))
    server.push(ResourceExhausted("too slow"))
    server.push(WatchEvent(TABLE_UUID, (snapshot(2),)))
    server.push(ResourceExhausted("too slow"))
    server.push(ResourceExhausted("too slow"))
    events = iter(watch)
    assert [next(events).snapshots[0].snapshot_id for _ in range(2)] == [1, 2]
    with pytest.raises(ResourceExhausted):
        next(events)


def test_a_watch_needs_a_table(start_server: Start, connect: Connect) -> None:
    with pytest.raises(InvalidArgument, match=r"positions is empty\. Name 1 to 1000"):
        connect(start_server().target).watch([])


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_a_watch_sends_messages_of_bounded_size_however_large_its_snapshots_are(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    if not is_bounded:
        monkeypatch.setattr(snapshot_servicer, "_BYTES_OF_A_MESSAGE", 1 << 40)
    server = start_server()
    snapshots = tuple(dataclasses.replace(snapshot(n), properties={"text": "x" * 10_000}) for n in range(1, 101))
    server.push(WatchEvent(TABLE_UUID, snapshots))
    server.push(WatchEvent(TABLE_UUID, (), dropped=True))
    request = snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid=TABLE_UUID)])
    received: list[snapshots_pb2.WatchResponse] = []
    with grpc.insecure_channel(server.target) as channel:
        for response in Stubs(channel, SERVICES.values()).Watch(request, timeout=20):
            received.append(response)
            if response.dropped:
                break
    assert [each.snapshot_id for response in received for each in response.snapshots] == list(range(1, 101))
    most = max(response.ByteSize() for response in received)
    assert most < 48 * 1024 if is_bounded else most > 1_000_000
    assert [response.dropped for response in received] == [False] * (len(received) - 1) + [True]
