"""A client whose reader service is silent: a server that answers when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest

from lakelog.client.connection.reader_target import parse_reader_targets
from lakelog.client.connection.retry import RetryPolicy
from lakelog.errors import Unavailable
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema
from lakelog.reads.streams.batch import Position
from lakelog.reads.streams.open_stream import OpenStream
from lakelog.reads.streams.remote_stream import open_remote_stream
from lakelog.reads.streams.request import StreamRequest
from lakelog.rpc.services import to_handler
from lakelog.rpc.v1 import reader_pb2

WAIT_S = 20.0
TABLE = TableInfo(
    "0" * 32, TableName("shop", "t"), "", TableSchema(0, pa.schema([("n", pa.int64())]), (), ()), {}, 0, 0
)


class SlowReader:
    """Its first stream keeps positions, but does not say so before `may_answer`; the others say so at once."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int]] = []
        self.streams = 0
        self.silent_streams = 1
        self.came_back = threading.Event()
        self.may_answer = threading.Event()

    def Subscribe(  # noqa: N802
        self, request_iterator: Iterator[reader_pb2.SubscribeRequest], context: Any
    ) -> Iterator[reader_pb2.SubscribeResponse]:
        """Begins a stream of a consumer in which nothing happens."""
        self.streams += 1
        number = self.streams
        next(request_iterator)
        if number == 2:
            self.came_back.set()
        point = reader_pb2.ResumePoint(table_uuid=TABLE.table_uuid, epoch=1)
        yield reader_pb2.SubscribeResponse(opened=reader_pb2.SubscribeOpened(tables=[point]))
        for request in request_iterator:
            assert request.WhichOneof("request") == "keep"
            self.kept.append((number, request.keep.positions[0].snapshot_id))
            if number <= self.silent_streams:
                self.may_answer.wait(WAIT_S)
            yield reader_pb2.SubscribeResponse(kept=reader_pb2.KeptPositions())


def serve(service: SlowReader, server: grpc.Server) -> None:
    server.add_generic_rpc_handlers([to_handler(reader_pb2.DESCRIPTOR.services_by_name["ReaderService"], service)])


@pytest.fixture
def service() -> SlowReader:
    return SlowReader()


@pytest.fixture
def stream(service: SlowReader) -> Iterator[OpenStream]:
    server = grpc.server(ThreadPoolExecutor(4))
    serve(service, server)
    reader = parse_reader_targets(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", tls=None, token=None)
    server.start()
    opened = open_remote_stream(
        reader,
        [TABLE],
        StreamRequest({"consumer-id": "etl"}),
        policy=RetryPolicy(total_s=0.3, watch_total_s=WAIT_S, spread_s=0.1),
    )
    yield opened
    opened.follower.close()
    service.may_answer.set()
    server.stop(None).wait(WAIT_S)


def at(snapshot_id: int) -> dict[str, Position]:
    return {str(TABLE.name): Position(snapshot_id, f"{snapshot_id:032d}")}


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_question(
    service: SlowReader, stream: OpenStream
) -> None:
    # Kept by the second stream, which is asked when the first was silent for too long.
    stream.keep(at(1))
    assert service.came_back.is_set()
    service.may_answer.set()
    # The late answer would be there before the question.
    stream.keep(at(2))
    assert service.kept == [(1, 1), (2, 1), (2, 2)]


def test_who_waits_for_rows_of_a_server_that_is_silent_goes_on_at_another(
    service: SlowReader, stream: OpenStream
) -> None:
    following = threading.Thread(target=lambda: list(stream.follower.follow()))
    following.start()
    stream.keep(at(1))
    assert service.came_back.wait(WAIT_S)
    stream.keep(at(3))
    stream.follower.close()
    following.join(WAIT_S)
    assert not following.is_alive()
    assert service.kept == [(1, 1), (2, 1), (2, 3)]


def test_a_missing_answer_is_reported_in_the_end(service: SlowReader) -> None:
    server = grpc.server(ThreadPoolExecutor(8))
    serve(service, server)
    service.silent_streams = 100
    reader = parse_reader_targets(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", tls=None, token=None)
    server.start()
    policy = RetryPolicy(total_s=0.2, watch_total_s=0.5, spread_s=0.1)
    stream = open_remote_stream(reader, [TABLE], StreamRequest({"consumer-id": "etl"}), policy=policy)
    try:
        with pytest.raises(Unavailable, match="did not answer in time"):
            stream.keep(at(1))
    finally:
        stream.follower.close()
        service.may_answer.set()
        server.stop(None).wait(WAIT_S)


def test_a_position_is_not_said_to_be_kept_when_the_stream_is_closed(service: SlowReader, stream: OpenStream) -> None:
    service.may_answer.set()
    stream.keep(at(1))
    stream.follower.close()
    with pytest.raises(Unavailable, match="closed before the service said that its position is kept") as caught:
        stream.keep(at(2))
    assert caught.value.reason == "CLOSED"
    assert service.kept == [(1, 1)]
