"""What a real broker and a real connection do to the log: reliability R2, R6, R10, and bad input."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.errors import HistoryDiverged, InvalidArgument, NotFound, SnapshotExpired, Unavailable
from lakelog.log.kafka import KafkaLog, KafkaSettings, connecting, settings
from lakelog.log.kafka.errors import get_cause
from lakelog.log.kafka.sending import producer as producer_module
from lakelog.log.kafka.sending.producer import KafkaProducer
from lakelog.log.protocol import LogProducer, LogReader
from lakelog.log.records import TopicSpec
from lakelog.options.declared.log import LARGEST_RECORD_BYTES
from tests.contract.log.making import (
    await_equal,
    leave_open,
    make_position,
    make_records,
    make_snapshot,
    publish,
    read_values,
)

OpenProducer = Callable[[], LogProducer]


@pytest.fixture
def log(kafka_log: KafkaLog) -> KafkaLog:
    return kafka_log


@pytest.fixture
def other_admin(kafka_settings: KafkaSettings) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka_settings.servers})


def cut_connections(settings: KafkaSettings) -> int:
    """Breaks all connections of this process to the broker; returns how many there were."""
    port = int(settings.servers.rpartition(":")[2])
    cut = 0
    for connection in psutil.Process().net_connections("tcp"):
        if connection.raddr and connection.raddr.port == port and connection.fd >= 0:
            # Some end by themselves meanwhile.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fd)) as same:
                same.shutdown(socket.SHUT_RDWR)
                cut += 1
    return cut


def fetch_on(reader: LogReader, allowed: set[bytes]) -> None:
    """Fetches for ten seconds, and sees these values at most."""
    for _ in range(40):
        assert set(reader.fetch(10, 0.25).values.to_pylist()) <= allowed


def test_a_broken_connection_ends_going_on(
    open_producer: OpenProducer, reader: LogReader, kafka_settings: KafkaSettings
) -> None:
    producer = open_producer()
    assert isinstance(producer, KafkaProducer)
    assert "not been started" in producer.find_duplicate_risk()
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"]))
    assert producer.can_go_on
    producer.begin()
    assert "is open" in producer.find_duplicate_risk()
    producer.send(make_records(0, ["a=2"]), make_snapshot(2))
    assert cut_connections(kafka_settings) > 0
    # The client library connects again by itself and gets through with it, but what it sent before may still arrive.
    producer.commit(make_position(2))
    assert producer.find_duplicate_risk()
    assert producer.find_duplicate_risk()
    assert producer.start() == make_position(2)
    assert producer.can_go_on
    publish(producer, 3, make_records(0, ["a=3"]))
    assert read_values(reader, {0: 0}, 3) == {0: ["a=1", "a=2", "a=3"]}


class Unanswered:
    """A client that waits for its group's coordinator, which has moved to another broker, for ever."""

    def __init__(self, client: Producer) -> None:
        self._client = client
        self.may_go_on = threading.Event()
        self.late: list[KafkaException] = []
        self.ended = threading.Event()

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self.may_go_on.wait(20)
        try:
            self._client.send_offsets_to_transaction(*arguments)
        except KafkaException as e:
            self.late.append(e)
            raise
        finally:
            self.ended.set()

    def __len__(self) -> int:
        return len(self._client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_a_position_that_no_one_takes_leads_to_a_producer_reinit(
    open_producer: OpenProducer, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the table would stand still until somebody ends the process, without a word in its status."""
    producer = open_producer()
    assert isinstance(producer, KafkaProducer)
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"]))
    stuck = Unanswered(producer._get_client())
    producer._client = stuck  # type: ignore[assignment]
    producer.begin()
    producer.send(make_records(0, ["a=2"]), make_snapshot(2))
    with monkeypatch.context() as patch:
        patch.setattr(producer_module, "_POSITION_TIMEOUT_S", 0.3)
        with pytest.raises(Unavailable, match=r"could not send its records and position.*no answer"):
            producer.commit(make_position(2))
    assert producer.start() == make_position(1)
    # What is sent at last is of a producer that has been fenced.
    stuck.may_go_on.set()
    assert stuck.ended.wait(30)
    assert [get_cause(error).fatal() for error in stuck.late] == [True]
    publish(producer, 2, make_records(0, ["a=2"]))
    assert read_values(reader, {0: 0}, 2) == {0: ["a=1", "a=2"]}
    producer.close()
    assert open_producer().start() == make_position(2)


@pytest.mark.parametrize("read_by", ["client", "topic"])
def test_a_record_that_is_too_large(
    open_producer: OpenProducer, log: KafkaLog, topic: str, reader: LogReader, read_by: str
) -> None:
    if read_by == "topic":
        admin = log.open_admin()
        admin.alter_topic(topic, {"max.message.bytes": "1000"})
        admin.close()
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"]))
    large = os.urandom(1000).hex() if read_by == "topic" else "x" * (LARGEST_RECORD_BYTES + 1000)
    with pytest.raises(InvalidArgument) as caught:
        publish(producer, 2, make_records(0, ["a=2", large]))
    assert caught.value.reason == "RECORD_TOO_LARGE"
    assert not producer.can_go_on
    assert producer.start() == make_position(1)
    publish(producer, 2, make_records(0, ["a=2"]))
    assert read_values(reader, {0: 0}, 2) == {0: ["a=1", "a=2"]}


def test_a_record_of_when_larger_ones_were_allowed(
    kafka_settings: KafkaSettings, topic: str, reader: LogReader
) -> None:
    lowered = KafkaLog(replace(kafka_settings, max_record_bytes=1 << 10))
    producer = lowered.open_producer(topic, f"{topic}-publisher", f"{topic}-position")
    producer.start()
    large = os.urandom(100_000).hex()
    publish(producer, 1, make_records(0, ["a=1", large, "a=2"]))
    assert read_values(reader, {0: 0}, 3) == {0: ["a=1", large, "a=2"]}
    producer.close()


def test_uncommitted_records_that_are_too_large(log: KafkaLog, topic: str) -> None:
    admin = log.open_admin()
    admin.alter_topic(topic, {"max.message.bytes": "1000"})
    admin.close()
    sender = log.open_uncommitted_sender(topic)
    sender.send(make_records(0, [os.urandom(1000).hex(), "a=1"]), "f" * 32)
    with pytest.raises(InvalidArgument, match=f"the topic {topic}: .*arge") as caught:
        sender.flush(10)
    assert caught.value.reason == "RECORD_TOO_LARGE"
    sender.close()


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "ANSWER_TIMEOUT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
    log = KafkaLog(KafkaSettings({"bootstrap.servers": nowhere}))
    producer = log.open_producer("t", "publisher", "position")
    with pytest.raises(Unavailable, match=nowhere):
        producer.start()
    producer.close()
    reader = log.open_reader("t")
    with pytest.raises(Unavailable, match=nowhere):
        reader.assign({0: 0})
    reader.close()
    sender = log.open_uncommitted_sender("t")
    with pytest.raises(Unavailable, match=nowhere):
        sender.send(make_records(0, ["a=1"]), "f" * 32)
    sender.close()


def test_a_log_that_is_too_short(open_producer: OpenProducer, reader: LogReader, other_admin: AdminClient) -> None:
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(0, ["a=1", "a=2", "a=3"]), make_records(1, ["b=1"]))
    topic = reader._topic  # type: ignore[attr-defined]

    def cut(offset: int) -> None:
        mark = TopicPartition(topic, 0, offset)
        other_admin.delete_records([mark])[mark].result()

    cut(2)
    reader.assign({0: 1, 1: 0})
    with pytest.raises(SnapshotExpired) as caught:
        fetch_on(reader, {b"b=1"})
    assert caught.value.reason == "LOG_TOO_SHORT"
    assert {key: caught.value.metadata[key] for key in ("partition", "offset", "earliest", "latest")} == {
        "partition": "0",
        "offset": "1",
        "earliest": "2",
        "latest": "4",
    }
    with pytest.raises(SnapshotExpired):
        reader.fetch(10, 0)
    assert read_values(reader, {0: 2}, 1) == {0: ["a=3"]}
    # All that was there is gone.
    cut(4)
    await_equal(reader.list_offsets, (4, 2))
    await_equal(lambda: reader.list_offsets(timestamp_ms=0), (4, 0))
    assert [tail.partition for tail in reader.read_tail()] == [1]


def test_a_topic_recreated_after_its_reader(
    open_producer: OpenProducer, log: KafkaLog, topic: str, reader: LogReader
) -> None:
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"] * 50))
    assert len(read_values(reader, {0: 0}, 50)[0]) == 50
    admin = log.open_admin()
    admin.delete_topic(topic)
    admin.create_topic(TopicSpec(topic, 2))
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"]))
    with pytest.raises((SnapshotExpired, NotFound)):
        fetch_on(reader, set())
    admin.close()


def test_records_of_others(kafka_settings: KafkaSettings, topic: str, reader: LogReader) -> None:
    other = Producer({"bootstrap.servers": kafka_settings.servers})
    other.produce(topic, b"plain", partition=0)
    other.produce(topic, b"odd", partition=0, headers=[("snapshot", b"7x"), ("idx", b"-1"), ("uuid", b"")])
    other.produce(topic, b"\xff", partition=0, headers=[("snapshot", None), ("idx", b"\xff"), ("snapshot", b"9" * 30)])
    other.produce(topic, b"many", partition=0, headers=[("snapshot", b"1"), ("snapshot", b"2")])
    other.flush()
    reader.assign({0: 0})
    records = reader.fetch(10, 10)
    assert records.values.to_pylist() == [b"plain", b"odd", b"\xff", b"many"]
    assert records.snapshot_ids.to_pylist() == [None, None, None, 2]
    assert records.indexes.null_count == 4
    assert [tail.snapshot for tail in reader.read_tail()] == [None]


def test_a_position_that_somebody_else_has_committed(
    open_producer: OpenProducer, kafka_settings: KafkaSettings, topic: str
) -> None:
    other = Consumer({"bootstrap.servers": kafka_settings.servers, "group.id": f"{topic}-position"})
    other.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    other.close()
    with pytest.raises(HistoryDiverged, match=f"{topic}-position"):
        open_producer().start()


def test_more_than_the_client_keeps_in_memory(
    open_producer: OpenProducer, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_a_small_queue(kafka: KafkaSettings, transactional_id: str) -> dict[str, Any]:
        return {**settings.to_transactional_config(kafka, transactional_id), "queue.buffering.max.messages": 100}

    monkeypatch.setattr(producer_module, "to_transactional_config", with_a_small_queue)
    producer = open_producer()
    producer.start()
    values = [f"a={n}" for n in range(5000)]
    assert publish(producer, 1, make_records(0, list(values))) == {0: 5000}
    assert read_values(reader, {0: 0}, 5000) == {0: values}


def test_what_is_left_open_by_a_dead_producer_is_ended_by_the_next(
    open_producer: OpenProducer, reader: LogReader
) -> None:
    dead, next_one = open_producer(), open_producer()
    dead.start()
    leave_open(dead, reader, 1, make_records(0, ["x=1"]), make_records(1, ["x=1"]))
    await_equal(reader.list_offsets, (0, 0))
    assert next_one.start() is None
    # Fenced and ended: nothing holds readers back any more.
    await_equal(reader.list_offsets, (2, 2))
    assert next_one.can_go_on


def test_a_record_stands_in_the_partition_that_it_was_sent_to(
    open_producer: OpenProducer, reader: LogReader, kafka_settings: KafkaSettings, topic: str
) -> None:
    keys = [f"{number}=1" for number in range(20)]
    producer = open_producer()
    producer.start()
    publish(producer, 1, make_records(1, list(keys)))
    assert read_values(reader, {0: 0, 1: 0}, 20) == {1: keys}
    # The control: a client that chooses by itself spreads the same keys.
    other = Producer({"bootstrap.servers": kafka_settings.servers})
    chosen: set[int | None] = set()
    for key in keys:
        other.produce(topic, b"x", key=key.partition("=")[0], on_delivery=lambda _, sent: chosen.add(sent.partition()))
    assert other.flush(10) == 0
    assert chosen == {0, 1}
