"""A topic of a real broker in which hostile records stand between good ones, read by the service in both modes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.e2e.writer.world import World
from tests.support.hostile_records import AVRO_SCHEMA, HOSTILE, SCHEMA_NUMBER, make_good

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SOON = ("--lease-seconds", "3", "--spark-master", "local[1]")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("item", pa.string()),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("sizes", pa.list_(pa.int64())),
    ]
)


def send(servers: str, topic: str, format_: str) -> tuple[list[int], list[bytes | None]]:
    """Sends each hostile record of a format between two good ones; returns the ids of these, and all values."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    large = {"max.message.bytes": "4000000"}
    admin.create_topics([NewTopic(topic, 1, config=large)])[topic].result(30)
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 4_000_000, "log_level": 0})
    values: list[bytes | None] = [make_good(format_, 0)]
    keys = [b'{"id": 0}']
    for number, record in enumerate(HOSTILE[format_].values(), 1):
        values += [record.value, make_good(format_, number)]
        keys += [record.key, b'{"id": 1}']
    for key, value in zip(keys, values, strict=True):
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0
    return list(range(len(HOSTILE[format_]) + 1)), values


def write_pipeline(world: World, servers: str, topic: str, format_: str, more: str) -> Path:
    file = world.folder / "pipeline.yaml"
    schema = f"schema_id: {SCHEMA_NUMBER}\n  schema_file: ./orders.avsc\n" if format_ == "avro" else ""
    (world.folder / "orders.avsc").write_text(AVRO_SCHEMA)
    file.write_text(
        f"name: {world.name}\ntable: {world.table}\nmode: {world.mode}\ncheckpoint: ./state\n{more}"
        f"trigger: {{available_now: true}}\nsource:\n  type: kafka\n  bootstrap_servers: '{servers}'\n"
        f"  topic: {topic}\n  format: {format_}\n  max_records_per_batch: 25\n  missing_columns: 'null'\n  {schema}"
    )
    return file


@pytest.mark.parametrize("seed", range(4))
def test_hostile_records_stop_the_pipeline_or_are_put_aside(world: World, kafka_broker: str, seed: int) -> None:
    """It stops at the first one, takes nothing; started again for dead letters, it takes each good row once."""
    format_ = ("json", "avro", "debezium-json", "json")[seed]
    # Without a key, a row that comes twice is there twice; messages of Debezium need one.
    world.mode = "upsert" if format_ == "debezium-json" else "append"
    world.catalog.drop_table(world.table)
    key = ["id"] if world.mode == "upsert" else []
    world.catalog.create_table(world.table, SCHEMA, primary_key=key)
    topic = f"hostile-{world.name}-{seed}"
    ids, values = send(kafka_broker, topic, format_)

    write_pipeline(world, kafka_broker, topic, format_, "bad_records: stop\n")
    stopped = world.start(*SOON)
    assert stopped.wait() == 3, stopped.text()
    assert f"offset 1 of partition 0 of topic '{topic}'" in stopped.text()
    assert "bad_records: dead-letter" in stopped.text()
    assert world.snapshots() == 0

    write_pipeline(world, kafka_broker, topic, format_, "bad_records: dead-letter\ndead_letters: ./letters\n")
    ended = world.start(*SOON)
    assert ended.wait() == 0, ended.text()

    assert world.ids() == ids
    letters = [
        json.loads(line)
        for file in (world.folder / "letters").glob("*.jsonl")
        for line in file.read_text().split("\n")
        if line
    ]
    assert sorted(letter["offset"] for letter in letters) == list(range(1, len(values), 2))
    assert {(letter["topic"], letter["partition"]) for letter in letters} == {(topic, 0)}
    assert all(letter["reason"] for letter in letters)
