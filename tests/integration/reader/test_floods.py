"""The reader service under clients that take too much: empty entries by the million, and all subscriptions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.replicas import Replica

from .rows import SUBSCRIPTIONS, Start, items, make_append

_SUBSCRIBE = "/lakelog.rpc.v1.ReaderService/Subscribe"
_ENTRIES = 1 << 20


def _of(number: int, inside: bytes) -> bytes:
    length, size = b"", len(inside)
    while size > 127:
        length += bytes((size & 127 | 128,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + inside


def _failure(channel: grpc.Channel, *requests: bytes, token: str | None = None) -> tuple[grpc.StatusCode, str]:
    call: Any = channel.stream_stream(_SUBSCRIBE)
    metadata = None if token is None else (("authorization", f"Bearer {token}"),)
    answers = call(iter(requests), timeout=60, metadata=metadata)
    with pytest.raises(grpc.RpcError):
        list(answers)
    return answers.code(), answers.details()


@pytest.mark.parametrize(
    ("request_bytes", "field"),
    [
        (_of(1, b"\x0a\x00" * _ENTRIES), "SubscribeStart.tables"),
        (_of(1, b"\x1a\x00" * _ENTRIES), "SubscribeStart.resume"),
        (_of(3, b"\x0a\x00" * _ENTRIES), "KeepPositions.positions"),
        (_of(1, b"\xa0\x1f\x00" * _ENTRIES), "SubscribeStart"),
    ],
)
def test_empty_entries_are_refused_before_they_are_made(
    shared_replica: Replica, request_bytes: bytes, field: str
) -> None:
    with grpc.insecure_channel(shared_replica.target) as channel:
        code, text = _failure(channel, request_bytes)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert f"Subscribe: {field} has more than" in text
    shared_replica.wait_for(SUBSCRIPTIONS, 0)


def test_one_caller_has_a_part_of_the_subscriptions(
    catalog: Catalog, database: str, start_replica: Start, tmp_path: Path
) -> None:
    table = make_append(catalog, database)
    ann, bob = "ann-token-0123456789", "bob-token-0123456789"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann reader {ann}\nbob reader {bob}\n")
    replica = start_replica("--token-file", str(tokens), "--max-subscriptions", "4")
    start = reader_pb2.SubscribeRequest(
        start=reader_pb2.SubscribeStart(tables=[reader_pb2.StreamTable(name=table.name)])
    ).SerializeToString()
    left = threading.Event()
    with grpc.insecure_channel(replica.target) as channel, contextlib.ExitStack() as stack:
        stack.callback(left.set)
        subscribe: Any = channel.stream_stream(_SUBSCRIBE)

        def hold(token: str) -> None:
            answers = subscribe(_open(start, left), timeout=60, metadata=(("authorization", f"Bearer {token}"),))
            stack.callback(answers.cancel)
            next(answers)

        hold(ann)
        hold(ann)
        code, text = _failure(channel, start, token=ann)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "ann has 2 subscriptions open" in text
        assert "--caller-share" in text
        hold(bob)


def test_health_checks_without_a_token_leave_room_for_subscriptions(
    catalog: Catalog, database: str, start_replica: Start
) -> None:
    table = make_append(catalog, database)
    replica = start_replica("--max-subscriptions", "4")
    left = threading.Event()
    with grpc.insecure_channel(replica.target) as first, contextlib.ExitStack() as stack:
        stack.callback(left.set)
        watch: Any = first.unary_stream("/grpc.health.v1.Health/Watch")
        held = [watch(b"") for _ in range(60)]
        for each in held:
            stack.callback(each.cancel)
        wait_until(lambda: sum(each.done() for each in held) == 60 - 16)
        reflection: Any = first.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        refused = reflection(iter(()), timeout=30)
        assert list_refusal(refused) is grpc.StatusCode.RESOURCE_EXHAUSTED
        other = stack.enter_context(_channel_of_its_own(replica))
        check: Any = other.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=30)
        next(_subscribe(other, stack, table, left))


def test_subscriptions_that_are_not_read_or_are_left_keep_no_others_waiting(
    catalog: Catalog, database: str, start_replica: Start
) -> None:
    """They have filters, and there is more to send than is sent before it is read."""
    table = make_append(catalog, database)
    table.append(items(*range(20_000), v="x" * 200))
    replica = start_replica("--max-subscriptions", "24")
    process = psutil.Process(replica.process.pid)
    left = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.callback(left.set)
        other = stack.enter_context(_channel_of_its_own(replica))
        next(_subscribe(other, stack, table, left))
        threads = process.num_threads()
        for _ in range(2):
            with _channel_of_its_own(replica) as first:
                unread = [_subscribe(first, stack, table, left, f"id >= {number}") for number in range(40)]
                # One is of the other caller, and the rest is refused.
                replica.wait_for(SUBSCRIPTIONS, 24)
                wait_until(lambda unread=unread: sum(each.done() for each in unread) == 40 - 23)  # type: ignore[misc]
                assert process.memory_info().rss < 600 << 20
            replica.wait_for(SUBSCRIPTIONS, 1)
        # Besides the threads of the pools, which stay, each subscription had one.
        wait_until(lambda: process.num_threads() < threads + 2 * 23)
        next(_subscribe(other, stack, table, left, "id = 5"))


@contextlib.contextmanager
def _channel_of_its_own(replica: Replica) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(replica.target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel


def _subscribe(
    channel: grpc.Channel, stack: contextlib.ExitStack, table: Table, left: threading.Event, condition: str = ""
) -> Any:
    streamed = reader_pb2.StreamTable(name=table.name, filter=condition or None)
    start = reader_pb2.SubscribeStart(tables=[streamed], max_bytes=256 << 20)
    subscribe: Any = channel.stream_stream(_SUBSCRIBE)
    answers = subscribe(_open(reader_pb2.SubscribeRequest(start=start).SerializeToString(), left), timeout=120)
    stack.callback(answers.cancel)
    return answers


def list_refusal(answers: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError):
        list(answers)
    code: grpc.StatusCode = answers.code()
    return code


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


def _open(start: bytes, left: threading.Event) -> Iterator[bytes]:
    yield start
    left.wait(60)
