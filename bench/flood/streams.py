"""Streams of commits that a hostile or broken client opens. As in `bench.flood.abuses`, each runs until it is ended."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from typing import Any, Final

import grpc

from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.rpc.commit import to_proto_commit_request
from lakelog.rpc.v1 import snapshots_pb2

_STREAM: Final = "/lakelog.rpc.v1.SnapshotService/CommitStream"
_OPTIONS: Final = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
_HOLD_S: Final = 3600
_STREAMS: Final = 1000
_LARGE_BYTES: Final = 60_000
"""About as many bytes as the properties of a commit may have."""


def idle_streams(target: str, table: str, begun: Event) -> None:
    """A thousand streams over one connection that send nothing, opened again every few seconds."""
    while True:
        with grpc.insecure_channel(target, options=_OPTIONS) as channel:
            open_stream: Any = channel.stream_stream(_STREAM)
            held = [open_stream(_never()) for _ in range(_STREAMS)]
            begun.set()
            time.sleep(3)
            del held


def unread_streams(target: str, table: str, begun: Event) -> None:
    """Twenty streams that send small commits as fast as they can and read no answer."""
    _send(target, begun, 20, lambda number: _commits(table, f"unread-{number}"))


def large_streams(target: str, table: str, begun: Event) -> None:
    """Twenty streams that send large commits as fast as they can and read no answer."""
    _send(target, begun, 20, lambda number: _commits(table, f"large-{number}", _LARGE_BYTES))


def new_writers(target: str, table: str, begun: Event) -> None:
    """Commits under thousands of new names of writers, over one stream whose answers are read."""
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        open_stream: Any = channel.stream_stream(_STREAM)
        messages = (_message(table, f"new-{number}", 1) for number in itertools.count())
        for _ in open_stream(messages):
            begun.set()


def abandoned_streams(target: str, table: str, begun: Event) -> None:
    """Streams that are left in the midst of their commits, again and again."""
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        open_stream: Any = channel.stream_stream(_STREAM)
        for number in itertools.count():
            running = open_stream(_commits(table, f"left-{number}", _LARGE_BYTES))
            begun.set()
            time.sleep(0.05)
            running.cancel()


def _send(target: str, begun: Event, count: int, messages: Callable[[int], Iterator[bytes]]) -> None:
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        open_stream: Any = channel.stream_stream(_STREAM)
        held = [open_stream(messages(number)) for number in range(count)]
        begun.set()
        time.sleep(_HOLD_S)
        del held


def _commits(table: str, writer: str, size: int = 0) -> Iterator[bytes]:
    for number in itertools.count(1):
        yield _message(table, writer, number, size)


def _message(table: str, writer: str, identifier: int, size: int = 0) -> bytes:
    properties = {"text": "x" * size} if size else {}
    change = Change(table, SnapshotKind.APPEND, 0, -1, properties=properties, allow_empty=True)
    commit = to_proto_commit_request(CommitRequest(writer, identifier, (change,)))
    return snapshots_pb2.CommitStreamRequest(commit=commit).SerializeToString()


def _never() -> Iterator[bytes]:
    time.sleep(_HOLD_S)
    yield b""


STREAMS: Final = {
    "idle-streams": idle_streams,
    "unread-streams": unread_streams,
    "large-streams": large_streams,
    "new-writers": new_writers,
    "abandoned-streams": abandoned_streams,
}
