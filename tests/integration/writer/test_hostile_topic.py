"""A topic of a real broker in which hostile records stand between good ones, read by the writer in both modes."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.support.hostile_records import AVRO_SCHEMA, HOSTILE, SCHEMA_NUMBER, make_good
from tests.support.spark.given_session import GivenSession
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_numbers = itertools.count(1)
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


@dataclass
class Lab:
    """A folder, and runs of the pipeline in it until all records are read."""

    folder: Path
    stack: EmbeddedStack
    session: GivenSession

    def run(self, text: str) -> ExitStatus:
        file = self.folder / "pipeline.yaml"
        file.write_text(text)
        config = parse_config(["run", str(file)], {"LAKELOG_TARGET": self.stack.target})
        assert isinstance(config, Config)
        pipeline = read_pipeline(file)
        metastore, target = open_catalog(config, pipeline)
        service, _ = make_service(
            config, pipeline, metastore, target, make_events(), self.session, structlog.get_logger()
        )
        return service.run()


@pytest.fixture
def lab(tmp_path: Path, stack: EmbeddedStack, spark: SparkSession) -> Lab:
    return Lab(tmp_path, stack, GivenSession(spark))


@pytest.mark.parametrize("seed", range(4))
def test_hostile_records_stop_the_pipeline_or_are_put_aside(
    lab: Lab, catalog: Catalog, kafka_broker: str, seed: int
) -> None:
    """It stops at the first one, takes nothing; started again for dead letters, it takes each good row once."""
    format_ = ("json", "avro", "debezium-json", "json")[seed]
    # Without a key, a row that comes twice is there twice; messages of Debezium need one.
    mode, key = ("upsert", ["id"]) if format_ == "debezium-json" else ("append", [])
    name = f"hostile{next(_numbers)}"
    catalog.create_database("lab", if_not_exists=True)
    table = catalog.create_table(f"lab.{name}", SCHEMA, primary_key=key)
    ids, values = send(kafka_broker, name, format_)
    (lab.folder / "orders.avsc").write_text(AVRO_SCHEMA)
    schema = f"schema_id: {SCHEMA_NUMBER}\n  schema_file: ./orders.avsc\n" if format_ == "avro" else ""

    def text(more: str) -> str:
        return (
            f"name: {name}\ntable: {table.name}\nmode: {mode}\ncheckpoint: ./state\n{more}"
            f"trigger: {{available_now: true}}\nsource:\n  type: kafka\n  bootstrap_servers: '{kafka_broker}'\n"
            f"  topic: {name}\n  format: {format_}\n  max_records_per_batch: 25\n  missing_columns: 'null'\n  {schema}"
        )

    assert lab.run(text("bad_records: stop\n")) is ExitStatus.BAD_RECORD
    (stopped,) = [found for found in catalog.metastore.list_pipelines() if found.name == name]
    assert f"offset 1 of partition 0 of topic '{name}'" in stopped.last_error
    assert "bad_records: dead-letter" in stopped.last_error
    assert table.snapshots().num_rows == 0

    assert lab.run(text("bad_records: dead-letter\ndead_letters: ./letters\n")) is ExitStatus.FINE
    assert sorted(table.scan(["id"]).to_arrow().column("id").to_pylist()) == ids
    letters = [
        json.loads(line)
        for file in (lab.folder / "letters").glob("*.jsonl")
        for line in file.read_text().split("\n")
        if line
    ]
    assert sorted(letter["offset"] for letter in letters) == list(range(1, len(values), 2))
    assert {(letter["topic"], letter["partition"]) for letter in letters} == {(name, 0)}
    assert all(letter["reason"] for letter in letters)
