"""Counts flights from their log: a plain Kafka consumer, which knows nothing of lakelog.

Usage: `python delays.py BROKERS TOPIC FILE`. Each record has the row before and the row after, so the counts need no
memory of single flights. A file holds the counts together with their offsets. It is replaced as a whole, so a kill at
any moment neither loses a record nor counts one twice.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

Numbers = dict[str, dict[str, int]]


def count(numbers: Numbers, flight: dict[str, Any] | None, sign: int) -> None:
    """Adds a flight to the numbers (1), or subtracts it (-1)."""
    if flight is None:
        return
    numbers["by_status"][flight["status"]] += sign
    if flight["arr_delay"] is not None:
        numbers["arrivals"][flight["carrier"]] += sign
        numbers["delay_minutes"][flight["carrier"]] += sign * flight["arr_delay"]


def load(file: Path) -> tuple[Numbers, dict[int, int]]:
    """The last saved numbers, and the offsets from which to go on, by partition."""
    known = json.loads(file.read_text()) if file.exists() else {"numbers": {}, "offsets": {}}
    numbers: Numbers = defaultdict(lambda: defaultdict(int))
    for name, by_key in known["numbers"].items():
        numbers[name].update(by_key)
    return numbers, {int(partition): offset for partition, offset in known["offsets"].items()}


def save(file: Path, numbers: Numbers, offsets: dict[int, int]) -> None:
    """Replaces the file as a whole."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"numbers": numbers, "offsets": offsets}))
    os.replace(part, file)


def main(brokers: str, topic: str, file: Path) -> None:
    """Follows the log until it is killed."""
    numbers, offsets = load(file)
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "delays",
            # Only committed records: this is all that a consumer has to set.
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    partitions = sorted(found.partitions)
    consumer.assign([TopicPartition(topic, number, offsets.get(number, OFFSET_BEGINNING)) for number in partitions])
    while True:
        messages = consumer.consume(num_messages=5000, timeout=0.2)
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    continue
                raise KafkaException(error)
            change = json.loads(message.value() or b"{}")
            count(numbers, change["before"], -1)
            count(numbers, change["after"], 1)
        if messages:
            # The offset after each partition's last message; negative if there was none yet.
            places = consumer.position(consumer.assignment())
            offsets |= {place.partition: place.offset for place in places if place.offset >= 0}
            save(file, numbers, offsets)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
