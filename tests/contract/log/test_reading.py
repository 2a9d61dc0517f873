"""Readers of committed records of any log."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import NotFound
from lakelog.log.protocol import Log, LogProducer, LogReader
from lakelog.log.records import EncodedRecords, TailRecord
from tests.contract.log.making import await_equal, leave_open, make_records, make_snapshot, publish, read_values

OpenProducer = Callable[[], LogProducer]


def test_records_come_as_they_were_sent(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    before_ms = int(time.time() * 1000)
    sent = EncodedRecords(
        1,
        pa.array([b"k1", b"", b"\x00\xff", b"k4"]),
        pa.array([b"v1", b"\x00", None, b""]),
        np.array([0, 1, 3, 2], np.int8),
        np.array([7, 8, 10, 900_000_000_000]),
        pa.array([b"1", b"2", None, b"[1, null]"]),
    )
    publish(producer, 9, sent)
    reader.assign({0: 0, 1: 0})
    records = reader.fetch(100, 10)
    assert records.partitions.tolist() == [1, 1, 1, 1]
    assert records.offsets.tolist() == [0, 1, 2, 3]
    assert all(before_ms - 5000 < t < before_ms + 60_000 for t in records.timestamps_ms.tolist())
    assert records.keys.equals(sent.keys)
    assert records.values.equals(sent.values)
    assert records.kinds.to_pylist() == [b"+I", b"-U", b"-D", b"+U"]
    assert records.snapshot_ids.to_pylist() == [9] * 4
    assert records.uuids.to_pylist() == [f"{9:032x}".encode()] * 4
    assert records.attempts.null_count == 4
    assert records.indexes.to_pylist() == sent.indexes.tolist()
    assert records.sequences.equals(sent.sequences)


def test_append_tables_have_no_keys(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    publish(producer, 1, EncodedRecords(0, None, pa.array([b"v"]), np.zeros(1, np.int8), np.zeros(1, np.int64)))
    reader.assign({0: 0})
    records = reader.fetch(100, 10)
    assert records.keys.to_pylist() == [None]
    assert records.sequences.to_pylist() == [None]


def test_reading_goes_on_where_it_stands(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(0, [f"a={n}" for n in range(10)]))
    reader.assign({0: 3})
    got: list[bytes] = []
    while len(got) < 7:
        records = reader.fetch(2, 5)
        assert 0 < len(records) <= 2
        got += records.values.to_pylist()
        assert reader.positions()[0] >= 3 + len(got)
    assert got == [f"a={n}".encode() for n in range(3, 10)]
    assert len(reader.fetch(10, 0.2)) == 0
    # Behind the end of the transaction, as behind aborted records.
    assert reader.positions() == {0: 11}
    leave_open(producer, reader, 2, make_records(0, ["x=1", "x=2"]))
    assert len(reader.fetch(10, 0.2)) == 0
    assert reader.positions() == {0: 11}
    producer.abort()
    publish(producer, 2, make_records(1, ["b=1"]))
    deadline = time.monotonic() + 5
    while reader.positions() != {0: 14} and time.monotonic() < deadline:
        assert len(reader.fetch(10, 0.2)) == 0
    assert reader.positions() == {0: 14}


def test_a_record_comes_at_once(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    reader.assign({0: 0, 1: 0})
    assert len(reader.fetch(10, 0)) == 0
    publish(producer, 1, make_records(0, ["a=1"]))
    began = time.monotonic()
    assert len(reader.fetch(1000, 30)) == 1
    assert time.monotonic() - began < 10


def test_offsets_of_times(log: Log, topic: str, open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    assert reader.list_offsets() == reader.list_offsets(earliest=True) == reader.list_offsets(timestamp_ms=5) == (0, 0)
    publish(producer, 1, make_records(0, ["a=1", "a=2"]))
    # The end of the transaction is a record, too, with a time of its own.
    await_equal(reader.list_offsets, (3, 0))
    time.sleep(0.05)
    moment_ms = int(time.time() * 1000)
    publish(producer, 2, make_records(0, ["a=3"]))
    await_equal(lambda: reader.list_offsets(timestamp_ms=moment_ms), (3, 0))
    await_equal(lambda: reader.list_offsets(timestamp_ms=0), (0, 0))
    await_equal(reader.list_offsets, (5, 0))
    assert reader.list_offsets(timestamp_ms=moment_ms + 3_600_000) == (5, 0)
    admin = log.open_admin()
    admin.add_partitions(topic, 3)
    admin.close()
    assert len(reader.list_offsets()) == 3
    assert read_values(reader, {0: 3}, 1) == {0: ["a=3"]}


def test_the_tail_is_found_after_whatever_no_one_sees(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    await_equal(reader.read_tail, [])
    leave_open(producer, reader, 1, make_records(0, ["x=1"]))
    producer.abort()
    await_equal(reader.read_tail, [])
    publish(producer, 1, make_records(0, ["a=1", "a=2"], 5), make_records(1, ["b=1"], 7))
    tail = [TailRecord(0, 3, make_snapshot(1), 7), TailRecord(1, 0, make_snapshot(1), 8)]
    await_equal(reader.read_tail, tail)
    # Many aborted records, then one that is still open.
    for number in range(3):
        leave_open(producer, reader, 2, make_records(0, [f"x={n}" for n in range(40 * number + 1)]))
        producer.abort()
    await_equal(reader.read_tail, tail)
    leave_open(producer, reader, 2, make_records(0, ["x=9"]), make_records(1, ["x=9"]))
    await_equal(reader.read_tail, tail)
    # Reading the tail disturbs nobody who follows.
    reader.assign({1: 0})
    assert reader.fetch(10, 10).values.to_pylist() == [b"b=1"]
    await_equal(reader.read_tail, tail)
    assert len(reader.fetch(10, 0.2)) == 0


def test_the_ends_of_a_topic_are_behind_what_is_committed(
    log: Log, topic: str, open_producer: OpenProducer, reader: LogReader
) -> None:
    admin = log.open_admin()
    assert admin.find_ends(topic) == (0, 0)
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(0, ["a=1", "a=2"]))
    await_equal(lambda: admin.find_ends(topic), (3, 0))
    leave_open(producer, reader, 2, make_records(0, ["x=1"]), make_records(1, ["x=1"]))
    assert admin.find_ends(topic) == (3, 0)
    with pytest.raises(NotFound):
        admin.find_ends(f"no-{topic}")
    admin.close()


def test_records_before_their_commit(log: Log, topic: str, open_producer: OpenProducer, reader: LogReader) -> None:
    sender = log.open_uncommitted_sender(topic)
    assert sender.flush(1) == {}
    sender.send(make_records(0, ["a=1", "a=2", None]), "f" * 32)
    sender.send(make_records(1, []), "f" * 32)
    sender.send(make_records(1, ["b=1"], 3), "f" * 32)
    assert sender.flush(10) == {0: 3, 1: 1}
    sender.close()
    sender.close()
    reader.assign({0: 0})
    records = reader.fetch(10, 10)
    while len(records) < 3:
        records = reader.fetch(10, 10)
    assert records.attempts.to_pylist() == [b"f" * 32] * 3
    assert records.snapshot_ids.null_count == records.uuids.null_count == 3
    assert records.indexes.to_pylist() == [0, 1, 2]
    assert [tail.snapshot for tail in reader.read_tail()] == [None, None]


def test_a_partition_that_is_not_there(reader: LogReader) -> None:
    with pytest.raises(NotFound, match="0 to 1"):
        reader.assign({2: 0})
