"""The reader service under clients that take too much: empty entries by the million, and all subscriptions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from tests.support.replicas import Replica

from .rows import SUBSCRIPTIONS, Start, make_append

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


def test_compressed_requests_are_refused(shared_replica: Replica) -> None:
    with grpc.insecure_channel(shared_replica.target, compression=grpc.Compression.Gzip) as channel:
        code, text = _failure(channel, _of(7, bytes(1 << 16)))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "gzip" in text


@pytest.mark.parametrize("is_shared", [True, False], ids=["protected", "control"])
def test_one_caller_has_a_part_of_the_subscriptions(
    catalog: Catalog, database: str, start_replica: Start, tmp_path: Path, is_shared: bool
) -> None:
    table = make_append(catalog, database)
    ann, bob = "ann-token-0123456789", "bob-token-0123456789"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann reader {ann}\nbob reader {bob}\n")
    share = () if is_shared else ("--caller-share", "1")
    replica = start_replica("--token-file", str(tokens), "--max-subscriptions", "4", *share)
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

        for _ in range(2 if is_shared else 4):
            hold(ann)
        code, text = _failure(channel, start, token=ann if is_shared else bob)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        if not is_shared:
            assert "has 4 subscriptions open, which is its limit" in text
            return
        assert "ann has 2 subscriptions open" in text
        assert "--caller-share" in text
        hold(bob)


def _open(start: bytes, left: threading.Event) -> Iterator[bytes]:
    yield start
    left.wait(60)
