"""Publishers that follow a script, over the real producer: what they publish are numbered snapshots of three rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lakelog.format.types.rowkind import RowKind
from lakelog.log.protocol import Log
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot
from lakelog.testing.log_history import ROWS_SCHEMA, SNAPSHOTS_SCHEMA, LogViolation, check_log
from lakelog.testing.log_recording import Recorder, read_recording

ROWS = 3
WAIT_S = 10.0
PARTITIONS = (0, 1, 0)
"""Of the rows of a snapshot: behind the second one the first partition is in the transaction already."""

SCHEMA = pa.schema([("v", pa.string())])


@dataclass
class Publisher:
    """Publishes what comes next by the rule R2, or without it.

    Args:
        producer: The real one.
        topic: Its topic.
        uncommitted: Sees what nobody should.
        goes_on_anyhow: Ask nobody whether the next transaction may begin: the control.
        position: What it knows to be published.
    """

    producer: Any
    topic: str
    uncommitted: Consumer
    goes_on_anyhow: bool = False
    position: int = 0
    producer_reinits: int = 0

    def start(self) -> None:
        found = self.producer.start()
        self.position = 0 if found is None else found.snapshot_id
        self.producer_reinits += 1

    def publish_next(self, in_the_middle: Callable[[], object] = lambda: None) -> None:
        """One snapshot in a transaction of its own; something happens when its first row has arrived."""
        if not self.producer_reinits or not (self.goes_on_anyhow or self.producer.can_go_on):
            self.start()
        self.send(in_the_middle)
        self.commit()

    def send(self, in_the_middle: Callable[[], object] = lambda: None) -> None:
        """Begins a transaction with the rows of the next snapshot."""
        number = self.position + 1
        self.producer.begin()
        for idx, partition in enumerate(PARTITIONS):
            value = pa.array([f'{{"v": "{number}.{idx}"}}'.encode()], pa.binary())
            kinds = np.array([RowKind.INSERT], np.int8)
            records = EncodedRecords(partition, None, value, kinds, np.array([idx], np.int64))
            self.producer.send(records, LogSnapshot(number, to_uuid(number)))
            if idx == 0:
                self.wait_for(f"{number}.{idx}")
                in_the_middle()

    def wait_for(self, value: str) -> None:
        """Until a row of the first partition stands in the topic, committed or not."""
        give_up_s = time.monotonic() + WAIT_S
        self.uncommitted.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        while time.monotonic() < give_up_s:
            found = [message.value() for message in self.uncommitted.consume(100, 0.1) if message.error() is None]
            if f'{{"v": "{value}"}}'.encode() in found:
                return
        raise AssertionError(f"{value} did not arrive")

    def commit(self) -> None:
        self.producer.commit(LogPosition(self.position + 1, to_uuid(self.position + 1)))
        self.position += 1


@dataclass
class Scripted:
    """A topic, its publishers, and who watches."""

    log: Log
    topic: str
    recorder: Recorder
    uncommitted: Consumer
    publishers: list[Publisher] = field(default_factory=list)

    def open_publisher(self, *, process: str = "", goes_on_anyhow: bool = False) -> Publisher:
        """One more; with a `process` under an id of its own."""
        producer = self.log.open_producer(self.topic, f"{self.topic}{process}", f"{self.topic}-position")
        self.publishers.append(Publisher(producer, self.topic, self.uncommitted, goes_on_anyhow))
        return self.publishers[-1]

    def wait_until_seen(self, value: str) -> None:
        """Until the plain consumer has a row."""
        give_up_s = time.monotonic() + WAIT_S
        while f'"{value}\\"' not in self.recorder.out.read_text():
            assert time.monotonic() < give_up_s, f"nobody saw {value}"
            time.sleep(0.01)

    def find_violations(self, published: int) -> set[LogViolation]:
        """What a plain consumer has to say, once so many snapshots should be there."""
        numbers = range(1, published + 1)
        snapshots = pa.table(
            [list(numbers), [to_uuid(number) for number in numbers], [0] * published, [True] * published],
            schema=SNAPSHOTS_SCHEMA,
        )
        brought = [(number, idx) for number in numbers for idx in range(ROWS)]
        count = len(brought)
        values = [f"{number}.{idx}" for number, idx in brought]
        rows = pa.table([[number for number, _ in brought], ["+I"] * count, [None] * count, values], schema=ROWS_SCHEMA)
        seen = read_recording(self.recorder.stop(), SCHEMA, (), row=["v"], log_format="json")
        return {finding.violation for finding in check_log(seen, snapshots, rows)}

    def close(self) -> None:
        for publisher in self.publishers:
            publisher.producer.close()
        self.uncommitted.close()


def to_uuid(number: int) -> str:
    return f"{number:032x}"
