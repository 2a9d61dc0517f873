"""The parts of the reader service that need no network: room, messages, what is asked for."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.reads.streams.batch import StreamBatch
from lakelog.reads.streams.wire import RowsDecoder, RowsEncoder
from lakelog.rpc.v1 import reader_pb2
from reader.config import RunConfig, ServeConfig, parse_config
from reader.subscriptions.requests import to_start
from reader.subscriptions.send_window import SendWindow


def test_the_send_window_is_what_the_client_has_not_taken() -> None:
    window = SendWindow(100, 3)
    assert [window.enter(90), window.enter(90)] == [1, 2]
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(window.enter(1)))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive(), "180 bytes are on their way"
    window.taken(1)
    waiting.join(5)
    assert (found, window.sent_bytes) == ([3], 91)
    assert window.enter(0) == 4
    waiting = threading.Thread(target=lambda: found.append(window.enter(0)))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive(), "three messages are on their way"
    window.close()
    waiting.join(5)
    assert found == [3, 0]
    assert window.enter(0) == 0


def test_batches_come_back_as_they_were_in_messages_of_bounded_size() -> None:
    encoder, decoder = RowsEncoder(4000), RowsDecoder()
    data = pa.record_batch(
        {
            "id": pa.array(range(1000), pa.int64()),
            "v": pa.array([None if n % 7 == 0 else "é" * (n % 30) for n in range(1000)]),
            "d": pa.array(["a", "b"] * 500).dictionary_encode(),
        }
    )
    sent = list(encoder.encode(StreamBatch(data.slice(3, 900), 7, "a.b")))
    assert len(sent) > 5
    assert [bool(rows.schema) for rows in sent] == [True] + [False] * (len(sent) - 1)
    assert max(len(rows.batch) for rows in sent) <= 4000
    got = [decoder.decode(rows) for rows in sent]
    assert {(each.table, each.snapshot_id) for each in got} == {("a.b", 7)}
    whole = pa.Table.from_batches([each.data for each in got]).combine_chunks()
    assert whole.to_pylist() == data.slice(3, 900).to_pylist()
    assert not next(encoder.encode(StreamBatch(data.slice(0, 1), 8, "a.b"))).schema
    assert next(encoder.encode(StreamBatch(data.select(["id"]).slice(0, 1), 8, "a.b"))).schema
    none = decoder.decode(next(encoder.encode(StreamBatch(data.select([]), 8, "a.c"))))
    assert (none.data.num_rows, none.data.num_columns) == (1000, 0)


def test_a_row_that_no_message_holds_is_named() -> None:
    data = pa.record_batch({"v": ["x" * 5000]})
    with pytest.raises(
        ResourceExhausted, match=r"A row of a\.b in snapshot 7 has \d+ bytes, and a message .* holds 4000"
    ):
        list(RowsEncoder(4000).encode(StreamBatch(data, 7, "a.b")))


def start(**fields: Any) -> reader_pb2.SubscribeRequest:
    tables = [reader_pb2.StreamTable(name=name) for name in fields.pop("tables", ["a.b"])]
    return reader_pb2.SubscribeRequest(start=reader_pb2.SubscribeStart(tables=tables, **fields))


def test_what_is_asked_for_has_bounds_by_default() -> None:
    found = to_start(start())
    assert [str(name) for name, _ in found.tables] == ["a.b"]
    assert (found.max_bytes, found.max_messages, found.points) == (16 << 20, 64, ())


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (reader_pb2.SubscribeRequest(), "The first message has no start"),
        (reader_pb2.SubscribeRequest(taken=reader_pb2.TakenProgress()), "The first message has no start"),
        (start(tables=[]), "tables is empty"),
        (start(tables=["a.b", "a.b"]), r"names a\.b twice"),
        (start(tables=["ab"]), "ab"),
        (start(tables=[f"a.t{n}" for n in range(1001)]), "names 1001 tables"),
        (start(max_bytes=-1), "max_bytes=-1 is not possible"),
        (start(max_messages=10_001), "max_messages=10001 is not possible"),
        (start(resume=[reader_pb2.ResumePoint()] * 2), "has 2 points for 1 tables"),
        (start(resume=[reader_pb2.ResumePoint(received_rows=-1)]), "negative number"),
        (start(resume=[reader_pb2.ResumePoint(snapshot_id=2**62)]), "a number above 4611686018427387903"),
        (start(resume=[reader_pb2.ResumePoint(epoch=2**63 - 1)]), "a number above 4611686018427387903"),
    ],
)
def test_what_cannot_be_is_named(message: reader_pb2.SubscribeRequest, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        to_start(message)


def test_arguments_win_over_variables() -> None:
    found = parse_config(
        ["serve", "--insecure-dev", "--listen", "127.0.0.1:0"],
        {"LAKELOG_READER_LISTEN": "127.0.0.1:5", "LAKELOG_READER_MAX_SUBSCRIPTIONS": "7", "LAKELOG_TARGET": "a:1"},
    )
    assert isinstance(found, ServeConfig)
    assert (found.listen.port, found.max_subscriptions, found.target, found.access.open) == (0, 7, "a:1", True)
    run = parse_config(["run", "s.yaml", "--once"], {"LAKELOG_READER_NO_WAIT": "1"})
    assert isinstance(run, RunConfig)
    assert (run.once, run.no_wait, run.lease_s) == (True, True, 30.0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["serve"], "TLS is required"),
        (["serve", "--insecure-dev", "--listen", "10.0.0.1:7460"], "listens on loopback only"),
        (["serve", "--insecure-dev", "--listen", "7460"], "--listen: The target"),
        (["serve", "--insecure-dev", "--max-subscriptions", "0"], "--max-subscriptions=0 must be a number from 1"),
        (["serve", "--insecure-dev", "--token-file", "/nowhere"], "token file /nowhere cannot be read"),
        (["serve", "--insecure-dev", "--tls-cert", "a", "--tls-key", "b"], "exclude each other"),
        (["run", "s.yaml", "--lease-seconds", "x"], "--lease-seconds=x must be a number"),
        (["run", "s.yaml", "--spark-conf", "x=y"], "--spark-conf x=...: write it as"),
    ],
)
def test_arguments_that_cannot_be(arguments: list[str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        parse_config(arguments, {})
