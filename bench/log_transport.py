"""What the log's transport costs on a real broker: a fresh start, going on, records a second sent and read.

Run `python -m bench.log_transport HOST:PORT`; it makes a topic of its own there and removes it. Each figure is the
median, with the range. The reference of sending is the same loop without headers, transactions and position.
"""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from lakelog.log.kafka import KafkaLog, KafkaSettings
from lakelog.log.kafka.sending.producer import KafkaProducer
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot, TopicSpec

ROWS = 200_000
VALUE_BYTES = 150
ROUNDS = 5
TRANSACTIONS = 50


def make_records(partition: int, count: int) -> EncodedRecords:
    numbers = pa.array(np.arange(count))
    keys = numbers.cast(pa.string()).cast(pa.binary())
    values = pa.array([b"x" * VALUE_BYTES] * count, pa.binary())
    return EncodedRecords(partition, keys, values, np.zeros(count, np.int8), np.arange(count))


def take_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def show(name: str, figures: list[float], unit: str) -> None:
    print(f"{name:<44} {statistics.median(figures):>10.1f} {unit}   ({min(figures):.1f}-{max(figures):.1f})")


def publish(producer: KafkaProducer, number: int, records: EncodedRecords) -> None:
    snapshot = LogSnapshot(number, uuid.uuid4().hex)
    producer.begin()
    producer.send(records, snapshot)
    producer.commit(LogPosition(number, snapshot.snapshot_uuid))


def send_plainly(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4"})
    value = b"x" * VALUE_BYTES
    for number in range(ROWS):
        while True:
            try:
                producer.produce(topic, value, b"%d" % number, 0)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()


def read_all(log: KafkaLog, topic: str, count: int) -> None:
    reader = log.open_reader(topic)
    reader.assign({0: 0, 1: 0})
    got = 0
    while got < count:
        got += len(reader.fetch(20_000, 10))
    reader.close()


def measure(servers: str, topic: str) -> None:
    log = KafkaLog(KafkaSettings({"bootstrap.servers": servers}))
    producer = log.open_producer(topic, f"{topic}-publisher", f"{topic}-position")
    show("fresh start", [take_ms(producer.start) for _ in range(ROUNDS)], "ms")
    few, many = make_records(0, 100), make_records(1, ROWS)
    for number in (1, 2, 3):
        publish(producer, number, few)
    took, waited, duplicate_risks = [], [], 0
    for number in range(4, 4 + TRANSACTIONS):
        waited.append(take_ms(producer.find_duplicate_risk))
        if producer.find_duplicate_risk():
            duplicate_risks += 1
            producer.start()
        took.append(take_ms(lambda number=number: publish(producer, number, few)))  # type: ignore[misc]
    show("transaction of 100 records, going on", took, "ms")
    show("evidence behind it", waited, "ms")
    print(f"{'fresh starts among them':<44} {duplicate_risks:>10} of {TRANSACTIONS}")
    producer.start()
    rates = [ROWS / take_ms(lambda n=n: publish(producer, 100 + n, many)) for n in range(ROUNDS)]  # type: ignore[misc]
    show("sent in transactions of 200,000", rates, "k records/s")
    plain = [ROWS / take_ms(lambda: send_plainly(servers, topic)) for _ in range(ROUNDS)]
    show("sent plainly, no headers", plain, "k records/s")
    there = 100 * (3 + TRANSACTIONS) + 2 * ROUNDS * ROWS
    show("read", [there / take_ms(lambda: read_all(log, topic, there))], "k records/s")
    producer.close()


def main() -> None:
    servers = sys.argv[1]
    topic = f"lakelog-bench-{uuid.uuid4().hex[:8]}"
    admin = KafkaLog(KafkaSettings({"bootstrap.servers": servers})).open_admin()
    admin.create_topic(TopicSpec(topic, 2))
    try:
        measure(servers, topic)
    finally:
        admin.delete_topic(topic)
        admin.close()


if __name__ == "__main__":
    main()
