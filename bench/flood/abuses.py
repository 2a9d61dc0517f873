"""The acts of a hostile or broken client. Each runs in a process of its own until it is ended.

To add one: write a function of a target, a table's uuid and an event that is set once the abuse has begun, and put it
into `ABUSES`. It never returns, or returns when it has nothing left to do; refusals are expected.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from typing import Any, Final

import grpc

from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2

Abuse = Callable[[str, str, Event], None]

_SNAPSHOTS: Final = "/lakelog.rpc.v1.SnapshotService/"
_CATALOG: Final = "/lakelog.rpc.v1.CatalogService/"
_OPTIONS: Final = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
_EMPTY_ENTRIES: Final = 4 << 20
_HOLD_S: Final = 3600
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@contextlib.contextmanager
def _channel(target: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        yield channel


def _repeat(target: str, begun: Event, *calls: tuple[str, bytes], at_once: int = 2) -> None:
    """Sends the same requests again and again, some at once."""
    with _channel(target) as channel:
        methods: list[tuple[Any, bytes]] = [(channel.unary_unary(method), request) for method, request in calls]
        while True:
            running = [method.future(request, timeout=60) for method, request in methods for _ in range(at_once)]
            begun.set()
            for call in running:
                call.exception()


def empty_messages(target: str, table: str, begun: Event) -> None:
    """Requests of 8 MB that are millions of empty entries."""
    field = {"Commit": 7, "Watch": 1, "ListLatest": 1}
    calls = [(f"{_SNAPSHOTS}{name}", bytes((number << 3 | 2, 0)) * _EMPTY_ENTRIES) for name, number in field.items()]
    _repeat(target, begun, *calls)


def unknown_fields(target: str, table: str, begun: Event) -> None:
    """Commits of 8 MB that hold nothing but fields that no one knows."""
    _repeat(target, begun, (f"{_SNAPSHOTS}Commit", b"\xa0\x1f\x00" * (_EMPTY_ENTRIES * 2 // 3)), at_once=4)


def nested(target: str, table: str, begun: Event) -> None:
    """Predicates of plans, nested a hundred thousand deep."""
    inner = b""
    while len(inner) < 400_000:
        inner = _wrapped(1, _wrapped(1, inner))
    _repeat(target, begun, (f"{_SNAPSHOTS}Plan", _wrapped(5, inner)), at_once=8)


def idle_watches(target: str, table: str, begun: Event) -> None:
    """As many watches as three connections open, 3000 at most; the client reads none of them."""
    request = snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid=table)])
    with contextlib.ExitStack() as stack:
        held: list[Any] = []
        for _ in range(3):
            watch: Any = stack.enter_context(_channel(target)).unary_stream(f"{_SNAPSHOTS}Watch")
            held += [watch(request.SerializeToString()) for _ in range(1000)]
        begun.set()
        time.sleep(_HOLD_S)


def half_open_calls(target: str, table: str, begun: Event) -> None:
    """Calls that send their headers and never a request; refused calls are started again."""
    with _channel(target) as channel:
        call: Any = channel.stream_stream(f"{_CATALOG}ListDatabases")
        while True:
            held = [call(_never()) for _ in range(500)]
            begun.set()
            time.sleep(1)
            for each in held:
                each.cancel()


def connections(target: str, table: str, begun: Event) -> None:
    """3000 connections that send nothing after their first bytes, opened again every few seconds."""
    host, _, port = target.rpartition(":")
    while True:
        held = []
        for _ in range(3000):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection((host, int(port)), timeout=5))
                held[-1].sendall(_PREFACE)
        begun.set()
        time.sleep(3)
        for each in held:
            each.close()


def slow_readers(target: str, table: str, begun: Event) -> None:
    """Watches with megabytes to send; the client reads none of them."""
    positions = [snapshots_pb2.WatchPosition(table_uuid=table)]
    request = snapshots_pb2.WatchRequest(positions=positions).SerializeToString()
    with _channel(target) as channel:
        watch: Any = channel.unary_stream(f"{_SNAPSHOTS}Watch")
        held = [watch(request) for _ in range(200)]
        begun.set()
        time.sleep(_HOLD_S)
        del held


def abandoned_calls(target: str, table: str, begun: Event) -> None:
    """Calls with and without an effect that the client gives up right after sending them."""
    create = catalog_pb2.CreateDatabaseRequest(name="abandoned", if_not_exists=True).SerializeToString()
    plan = snapshots_pb2.PlanRequest(table_uuid=table).SerializeToString()
    with _channel(target) as channel:
        mutate: Any = channel.unary_unary(f"{_CATALOG}CreateDatabase")
        read: Any = channel.unary_unary(f"{_SNAPSHOTS}Plan")
        while True:
            running = [
                method.future(request) for method, request in ((mutate, create), (read, plan)) for _ in range(20)
            ]
            begun.set()
            time.sleep(0.02)
            for call in running:
                call.cancel()


def _never() -> Iterator[bytes]:
    time.sleep(_HOLD_S)
    yield b""


def _wrapped(number: int, inside: bytes) -> bytes:
    """A length-delimited field of a message."""
    length, size = b"", len(inside)
    while size > 127:
        length += bytes((size & 127 | 128,))
        size >>= 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + inside


ABUSES: Final[dict[str, Abuse]] = {
    "empty-messages": empty_messages,
    "unknown-fields": unknown_fields,
    "nested": nested,
    "idle-watches": idle_watches,
    "half-open": half_open_calls,
    "connections": connections,
    "slow-readers": slow_readers,
    "abandoned": abandoned_calls,
}
