"""A consumer that knows nothing of lakelog: reads a topic with confluent-kafka alone and records what it sees.

Run it as a file, so that nothing of lakelog is imported::

    python -I lakelog/testing/plain_consumer.py --bootstrap-servers 127.0.0.1:9092 --topic orders --out seen.jsonl

Each line is a record as JSON: `partition`, `offset`, `appended_ms` (by the broker), `seen_ms` (by this machine's
clock), `snapshot` and `idx` as numbers, `uuid`, `kind`, `attempt` and `sequence` as texts, `key` and `value` as texts;
a missing one is null. It reads from the beginning, `read_committed`, until it gets SIGTERM. Then it reads up to the end
at that moment, and exits. It also reads partitions that are added later.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from typing import Any, TextIO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

WAIT_S = 10.0
REFRESH_PARTITIONS_S = 5.0


class Stop:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self.is_asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request)

    def _request(self, *_: object) -> None:
        self.is_asked = True


class PlainConsumer:
    """Reads all partitions of a topic.

    Args:
        bootstrap_servers: The brokers.
        topic: The topic.
        out: The stream for the lines.
        isolation: `read_committed`, or `read_uncommitted` to see what normal readers must not.
    """

    def __init__(self, bootstrap_servers: str, topic: str, out: TextIO, isolation: str = "read_committed") -> None:
        self._topic = topic
        self._out = out
        self._ends: dict[int, int] = {}
        self._looked_s = 0.0
        self._assigned: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                # Never used: partitions are assigned, and nothing is committed.
                "group.id": "plain-consumer",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )

    def run(self, stop: Stop) -> None:
        """Records until a stop is requested and the end is reached."""
        while not stop.is_asked:
            self._refresh_partitions()
            self._read()
        last = self._find_ends()
        give_up_s = time.monotonic() + WAIT_S
        while any(self._ends.get(number, 0) < end for number, end in last.items()):
            if time.monotonic() > give_up_s:
                raise SystemExit(f"the end was not reached within {WAIT_S:g} s: {self._ends} of {last}")
            self._read()

    def close(self) -> None:
        """Ends all connections."""
        self._consumer.close()

    def _refresh_partitions(self) -> None:
        if time.monotonic() < self._looked_s + REFRESH_PARTITIONS_S:
            return
        try:
            found = self._consumer.list_topics(self._topic, timeout=1.0).topics[self._topic].partitions
        except KafkaException:
            # The brokers are away; reading goes on when they are back.
            return
        new = set(found) - self._assigned
        if new:
            self._consumer.incremental_assign([TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in new])
            self._assigned |= new
        if self._assigned:
            self._looked_s = time.monotonic()
        else:
            time.sleep(0.1)

    def _find_ends(self) -> dict[int, int]:
        """The offsets after the last committed record and the end of its transaction, for this consumer's isolation."""
        with contextlib.suppress(KafkaException):
            return {
                number: self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=WAIT_S)[1]
                for number in self._assigned
            }
        raise SystemExit("the brokers did not say where the topic ends")

    def _read(self) -> None:
        # A call for several would wait for all of them, and the first would seem to be seen later.
        messages = self._consumer.consume(num_messages=1, timeout=0.05)
        messages += self._consumer.consume(num_messages=999, timeout=0) if messages else []
        seen_ms = time.time_ns() // 1_000_000
        lines = []
        for message in messages:
            error = message.error()
            if error is None:
                lines.append(json.dumps(to_line(message, seen_ms)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[_known(message.partition())] = _known(message.offset())
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise SystemExit(f"the topic {self._topic} cannot be read: {error}")
        if lines:
            self._out.write("\n".join(lines) + "\n")
            self._out.flush()


def to_line(message: Message, seen_ms: int) -> dict[str, Any]:
    """What the recording has of a record."""
    headers = {each[0]: each[1].decode() for each in message.headers() or () if isinstance(each[1], bytes)}
    key, value = message.key(), message.value()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "appended_ms": message.timestamp()[1],
        "seen_ms": seen_ms,
        **{name: _to_number(headers.get(name)) for name in ("snapshot", "idx")},
        **{name: headers.get(name) for name in ("uuid", "kind", "attempt", "sequence")},
        "key": None if key is None else bytes(key).decode(),
        "value": None if value is None else bytes(value).decode(),
    }


def _to_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _known(number: int | None) -> int:
    assert number is not None
    return number


def main(arguments: list[str] | None = None) -> int:
    """Runs the process."""
    parser = argparse.ArgumentParser(description="Writes down the committed records of a topic as JSON lines.")
    parser.add_argument("--bootstrap-servers", required=True, help="the brokers")
    parser.add_argument("--topic", required=True, help="the topic; it may be made later")
    parser.add_argument("--out", required=True, help="the file that is written; it begins anew")
    parser.add_argument("--isolation", default="read_committed", choices=["read_committed", "read_uncommitted"])
    chosen = parser.parse_args(arguments)
    stop = Stop()
    with open(chosen.out, "w", encoding="utf-8") as out:
        consumer = PlainConsumer(chosen.bootstrap_servers, chosen.topic, out, chosen.isolation)
        try:
            consumer.run(stop)
        finally:
            consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
