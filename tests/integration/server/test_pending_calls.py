"""Calls that arrive faster than the event loop takes them: none is cancelled, and compressed ones are refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from metastore.server import grpc_server
from tests.integration.server.callers import channels, metadata
from tests.integration.server.running_server import RunningServer

Start = Callable[..., RunningServer]

METHOD = "/lakelog.rpc.v1.CatalogService/ListDatabases"
CONNECTIONS = 16
CALLS = 250
"""Over each connection; in all they are more than the 3000 of which gRPC by itself cancels all further ones."""


def leave_out(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves some options of gRPC out of servers that start from now on."""
    kept = tuple(option for option in grpc_server._OPTIONS if words not in option[0])
    assert kept != grpc_server._OPTIONS
    monkeypatch.setattr(grpc_server, "_OPTIONS", kept)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_calls_that_wait_for_the_event_loop_are_not_cancelled(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        leave_out("max_pending", monkeypatch)
    server = start_server()
    with channels(server, CONNECTIONS) as several:
        made: list[Any] = [channel.unary_unary(METHOD) for channel in several]
        for each in made:
            each(b"", timeout=60, metadata=metadata("ann"))
        server.loop.call_soon_threadsafe(time.sleep, 3)
        pending = [each.future(b"", timeout=60, metadata=metadata("ann")) for _ in range(CALLS) for each in made]
        codes = Counter(each.code() for each in pending)
    assert (grpc.StatusCode.CANCELLED in codes) is not protected, codes


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_compressed_request_is_refused_before_it_is_expanded(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        leave_out("compression", monkeypatch)
    server = start_server()
    with channels(server, 1) as (channel,):
        call: Any = channel.unary_unary(METHOD)
        # An unknown field of zeros, which compress well.
        request = b"\xfa\x3f\x80\x80\x04" + bytes(1 << 16)
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=60, metadata=metadata("ann"), compression=grpc.Compression.Gzip)
    error: Any = caught.value
    assert (error.code() is grpc.StatusCode.UNIMPLEMENTED) is protected, error.details()
    assert ("gzip" in error.details()) is protected
