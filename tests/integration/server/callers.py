"""Callers with tokens, and calls of any gRPC client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from lakelog.client.connection.status import CallKind, from_rpc_error
from lakelog.errors import LakelogError
from lakelog.serving.access import Access, parse_token_file
from tests.integration.server.running_server import RunningServer

TOKEN = {name: f"{name}-token-0123456789" for name in ("ann", "bob", "eve")}
ACCESS = Access(
    tokens=parse_token_file(
        f"ann reader {TOKEN['ann']}\nbob writer {TOKEN['bob']}\neve reader {TOKEN['eve']}\n", "tokens"
    ).tokens
)


@contextlib.contextmanager
def channels(server: RunningServer, count: int) -> Iterator[list[grpc.Channel]]:
    with contextlib.ExitStack() as stack:
        options = [("grpc.use_local_subchannel_pool", 1)]
        yield [stack.enter_context(grpc.insecure_channel(server.target, options=options)) for _ in range(count)]


def metadata(name: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKEN[name]}"),)


def call(channel: grpc.Channel, method: str, name: str, request: bytes = b"") -> LakelogError | None:
    """The error of a call; None: it was answered."""
    try:
        made: Any = channel.unary_unary(f"/lakelog.rpc.v1.{method}")
        made(request, timeout=10, metadata=metadata(name))
    except grpc.RpcError as error:
        return from_rpc_error(error, kind=CallKind.READ, method=method, target="t", deadline_s=10)
    return None


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
