"""A server that is told to end: what is under way is finished, watches are sent away."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import (
    Unavailable,
)
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from tests.integration.server.running_server import RunningServer, ScriptedUseCases
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


def test_drain_lets_calls_finish_and_ends_watches(start_server: Start, connect: Connect) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    use_cases = ScriptedUseCases(before={"list_tables": hold})
    server = start_server(use_cases, grace_s=10)
    client = connect(server.target, retries=RetryPolicy(watch_total_s=0.2, max_backoff_s=0.1))
    answers: list[Any] = []
    call = threading.Thread(target=lambda: answers.append(client.list_tables("shop")))
    call.start()
    ended: list[Exception] = []

    def watch() -> None:
        try:
            list(client.watch([WatchPosition(TABLE_UUID, 0)]))
        except Unavailable as error:
            ended.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wait_until(lambda: "list_tables" in use_cases.calls and "watch" in use_cases.calls)
    began = time.monotonic()
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    time.sleep(0.3)
    assert not server.server.health.serving
    assert stopper.is_alive(), "it waits for the call"
    server.loop.call_soon_threadsafe(release.set)
    stopper.join(10)
    assert time.monotonic() - began < 5, "watches do not use the grace up"
    # The watch looks for another server before it gives up.
    for thread in (call, watcher):
        thread.join(20)
    assert answers == [["orders"]]
    assert ended


def test_drain_answers_the_commits_that_a_stream_has_sent(start_server: Start, connect: Connect) -> None:
    use_cases = ScriptedUseCases(commit_delay_s=lambda request: 0.3)
    server = start_server(use_cases, grace_s=10)
    pipeline = connect(server.target).open_commit_pipeline()
    futures = [pipeline.submit(commit(identifier)) for identifier in range(5)]
    wait_until(lambda: len(use_cases.commit_order) == 5)
    server.stop()
    assert [bool(future.result(5)) for future in futures] == [True] * 5
    pipeline.close()


def test_drain_also_answers_the_commit_that_waits_for_its_turn(start_server: Start, connect: Connect) -> None:
    """It has been read, so the client cannot know whether it was committed; what was not read ends unknown."""
    use_cases = ScriptedUseCases(commit_delay_s=lambda request: 1)
    server = start_server(use_cases, max_in_flight=2, grace_s=10)
    pipeline = connect(server.target).open_commit_pipeline()
    futures = [pipeline.submit(commit(identifier)) for identifier in range(5)]
    wait_until(lambda: len(use_cases.commit_order) == 2)
    time.sleep(0.3)
    server.stop()
    assert [each.exception(5) is None for each in futures] == [True, True, True, False, False]
    assert len(use_cases.commit_order) == 3
    pipeline.close()


def test_drain_waits_for_a_mutation_that_outlives_the_grace(start_server: Start) -> None:
    async def sleep() -> None:
        await asyncio.sleep(1)

    use_cases = ScriptedUseCases(before={"drop_table": sleep})
    server = start_server(use_cases, grace_s=0.1)
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/DropTable")
        answer = call.future(b"", timeout=10)
        wait_until(lambda: "drop_table" in use_cases.calls)
        server.stop()
        with pytest.raises(grpc.RpcError):
            answer.result()
    assert use_cases.finished == ["drop_table"]
