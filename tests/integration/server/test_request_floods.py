"""Requests of millions of empty entries: refused before anything is made of them, whatever the method and the shape.

What is measured is memory, not time: how far the peak of this process, which is client and server, rises during the
call. The control is the same request with the counting switched off.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from lakelog.serving.edge.request_bounds import RequestBounds
from metastore.server.edge import requests
from metastore.server.edge.requests import Requests
from metastore.server.servicers.commit_stream import CommitStream
from tests.integration.server.running_server import RunningServer, ScriptedUseCases, failure_of
from tests.support.peak_memory import peak_growth

Start = Callable[..., RunningServer]

ENTRIES = 1 << 20
"""Two megabytes on the wire; some 100 MB and more as objects."""

MIB = 1 << 20
LITTLE = 40 * MIB
"""The bytes of the request, several times: client and server copy them, and gRPC between them."""


def of(number: int, inside: bytes = b"") -> bytes:
    length, size = b"", len(inside)
    while size > 127:
        length += bytes((size & 127 | 128,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + inside


FLOODS = {
    "changes": ("SnapshotService/Commit", of(7) * ENTRIES, "CommitRequest.changes"),
    "files": ("SnapshotService/Commit", of(7, of(4) * ENTRIES), "Change.add_files"),
    "statistics": ("SnapshotService/Commit", of(7, of(4, of(10, of(1) * (ENTRIES * 5 // 2)))), "FileStatistics"),
    "positions": ("SnapshotService/Watch", of(1) * ENTRIES, "Watch"),
    "tables": ("SnapshotService/ListLatest", of(1) * ENTRIES, "ListLatest"),
    "operands": ("SnapshotService/Plan", of(5, of(1, of(1) * ENTRIES)), "PredicateList.operands"),
    "options": ("CatalogService/CreateTable", of(6) * ENTRIES, "CreateTableRequest.options"),
    "changelogs": ("SnapshotService/AttachChangelogs", of(7) * ENTRIES, "AttachChangelogsRequest.changelogs"),
    "unknown fields": ("SnapshotService/Commit", b"\xa0\x1f\x00" * ENTRIES, "CommitRequest"),
}


def an_append() -> snapshots_pb2.Change:
    return snapshots_pb2.Change(table_uuid="a" * 32, kind=types_pb2.SNAPSHOT_KIND_APPEND)


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_empty_entries_is_refused_and_costs_its_bytes_only(start_server: Start, flood: str) -> None:
    method, request, names = FLOODS[flood]
    server = start_server()
    failure_of(server.target, method, b"\xff")

    def send() -> None:
        code, text = failure_of(server.target, method, request, timeout_s=60)
        assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert names in text
        assert "which is the limit" in text or "is the limit" in text

    assert peak_growth(send) < LITTLE
    assert isinstance(server.use_cases, ScriptedUseCases)
    assert not server.use_cases.calls


@pytest.mark.parametrize("flood", ["changes", "files"])
def test_control_without_counting_the_same_bytes_take_many_times_their_size(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    monkeypatch.setattr(RequestBounds, "check_entries", lambda self, data: None)
    method, request, _ = FLOODS[flood]
    server = start_server()
    failure_of(server.target, method, b"\xff")

    def send() -> None:
        failure_of(server.target, method, request, timeout_s=120)

    assert peak_growth(send) > 2 * LITTLE


def test_a_flood_in_a_stream_of_commits_ends_the_stream_and_what_came_before_is_answered(start_server: Start) -> None:
    server = start_server()
    good = snapshots_pb2.CommitStreamRequest(
        commit=snapshots_pb2.CommitRequest(
            writer="w",
            identifier=1,
            changes=[an_append()],
        )
    ).SerializeToString()
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.stream_stream("/lakelog.rpc.v1.SnapshotService/CommitStream")
        answers = call(iter([good, of(1, of(7) * ENTRIES), good]))
        assert snapshots_pb2.CommitStreamResponse.FromString(next(answers)).HasField("committed")
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "CommitStream: CommitRequest.changes has more than 256 entries" in error.details()


async def read_without_waiting(self: CommitStream, context: Any) -> None:
    """Reads a stream of commits, and starts each one before the one in front of it is parsed."""

    async def commit(arrived: Any) -> Any:
        received = await self._requests.finish(arrived)
        translated, show_error = await self._translate(received)
        await self._take_turn(received)
        return await self._commit(received, translated, show_error)

    while (arrived := await context.read()) is not grpc.aio.EOF:
        await self._answers.put(asyncio.create_task(commit(arrived), name="commit"))
    await self._answers.put(None)


@pytest.mark.parametrize("waits", [True, False], ids=["protected", "control"])
def test_large_commits_of_a_stream_keep_their_order_though_threads_read_them(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    original = requests._read

    def read_slowly(bounds: RequestBounds, data: bytes, parse: Any) -> Any:
        if len(data) > requests.SMALL_BYTES:
            time.sleep(0.01)
        return original(bounds, data, parse)

    monkeypatch.setattr(requests, "_read", read_slowly)
    if not waits:
        monkeypatch.setattr(CommitStream, "_read", read_without_waiting)
    server = start_server()

    def commit(identifier: int) -> bytes:
        # Every third one is large and is read by a thread.
        files = 2000 if identifier % 3 == 0 else 1
        change = an_append()
        for number in range(files):
            change.add_files.add(path=f"data/{'b' * 32}/{number}.parquet")
        request = snapshots_pb2.CommitRequest(writer="w", identifier=identifier, changes=[change])
        return snapshots_pb2.CommitStreamRequest(commit=request).SerializeToString()

    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.stream_stream("/lakelog.rpc.v1.SnapshotService/CommitStream")
        answers = list(call(iter([commit(identifier) for identifier in range(1, 31)])))
    assert len(answers) == 30
    assert (server.use_cases.commit_order == list(range(1, 31))) is waits
    assert sorted(server.use_cases.commit_order) == list(range(1, 31))


@pytest.mark.parametrize("is_protected", [True, False], ids=["protected", "control"])
def test_large_requests_are_parsed_beside_the_event_loop(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, is_protected: bool
) -> None:
    sizes = (100, requests.SMALL_BYTES + 100, 300_000)
    if not is_protected:
        monkeypatch.setattr(requests, "SMALL_BYTES", 1 << 30)
    threads: dict[int, str] = {}
    original = requests._read

    def note(bounds: RequestBounds, data: bytes, parse: Any) -> Any:
        threads[len(data)] = threading.current_thread().name
        return original(bounds, data, parse)

    monkeypatch.setattr(requests, "_read", note)
    server = start_server()
    for size in sizes:
        change = an_append()
        while change.ByteSize() < size:
            change.add_files.add(path="p" * 50)
        request = snapshots_pb2.CommitRequest(writer="w", identifier=size, changes=[change])
        with grpc.insecure_channel(server.target) as channel:
            call: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/Commit")
            call(request.SerializeToString(), timeout=30)
    beside = {size: name.startswith("requests") for size, name in threads.items()}
    assert [beside[size] for size in sorted(beside)] == [False, is_protected, is_protected]


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_large_requests_beyond_the_room_wait_and_are_all_answered(start_server: Start, is_bounded: bool) -> None:
    use_cases = ScriptedUseCases(commit_delay_s=lambda request: 0.02)
    server = start_server(use_cases, large_request_bytes=100_000 if is_bounded else 1 << 30)
    change = an_append()
    while change.ByteSize() < 60_000:
        change.add_files.add(path="p" * 50)
    room = server.server._requests._room
    most = 0
    original = Requests._in_thread

    async def watched(self: Requests, work: Any) -> Any:
        nonlocal most
        most = max(most, room.used)
        return await original(self, work)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Requests, "_in_thread", watched)
        with grpc.insecure_channel(server.target) as channel:
            call: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/Commit")
            running = [
                call.future(
                    snapshots_pb2.CommitRequest(writer="w", identifier=i, changes=[change]).SerializeToString(),
                    timeout=60,
                )
                for i in range(20)
            ]
            for each in running:
                each.result()
    assert most >= 60_000
    assert (most <= 100_000) is is_bounded
    assert room.used == 0
