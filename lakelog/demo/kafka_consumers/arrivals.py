"""Measures how long rows were on their way: a plain Kafka consumer, which knows nothing of lakelog.

Usage: `python arrivals.py BROKERS TOPIC FILE`. Each row has its time of writing (`written_ns`, by this machine's
    clock).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition


def main(brokers: str, topic: str, file: Path) -> None:
    """Writes a line for each row, until it is killed: the row's number, and its delay in milliseconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "arrivals",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    with file.open("a", buffering=1) as lines:
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            row = json.loads(message.value() or b"{}")["after"]
            lines.write(json.dumps({"id": row["id"], "ms": (time.time_ns() - row["written_ns"]) / 1e6}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
