"""Makes what the example's pipeline and stream need: a topic and two tables. Leaves what is there as it is."""

from __future__ import annotations

import sys
import time

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # It exports it by its docs.

import lakelog

BROKERS, TOPIC = "kafka:9092", "events"
GIVE_UP_AFTER_S = 300.0


def make_topic(brokers: str) -> None:
    """Makes the topic of the pipeline."""
    admin = AdminClient({"bootstrap.servers": brokers, "socket.timeout.ms": 10_000})
    topic = admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)], request_timeout=10)[TOPIC]
    try:
        topic.result(timeout=15)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def make_tables(brokers: str) -> None:
    """Makes demo.events, with a log in Kafka, and demo.totals."""
    key, amount = pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.float64())
    log = {"bucket": "2", "log.system": "kafka", "kafka.bootstrap.servers": brokers}
    with lakelog.connect() as catalog:
        catalog.create_database("demo", if_not_exists=True)
        events = pa.schema([key, pa.field("name", pa.string()), amount])
        catalog.create_table("demo.events", events, primary_key=["id"], options=log, if_not_exists=True)
        totals = pa.schema([key, amount])
        catalog.create_table("demo.totals", totals, primary_key=["id"], if_not_exists=True)


def main() -> int:
    """Waits for the metastore and the broker, which start at the same time."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else BROKERS
    give_up_s = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        try:
            make_topic(brokers)
            make_tables(brokers)
        except (lakelog.LakelogError, KafkaException) as error:
            reason = " ".join(str(error).split())
            if time.monotonic() > give_up_s:
                sys.stderr.write(f"example: it cannot be made: {reason}\n")
                return 1
            sys.stdout.write(f"example: not yet: {reason}\n")
            sys.stdout.flush()
            time.sleep(3)
        else:
            sys.stdout.write("example: the topic events and the tables demo.events and demo.totals are there\n")
            return 0


if __name__ == "__main__":
    sys.exit(main())
