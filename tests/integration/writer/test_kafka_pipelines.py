"""Topics of a real broker brought into tables by the writer's service in the session of the tests."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import lakelog.spark
from lakelog.catalog import Catalog
from lakelog.embedded.stack import EmbeddedStack
from writer.config import Config, parse_config
from writer.ending import Ending
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_numbers = itertools.count(1)


def test_changes_of_debezium_become_a_table(
    tmp_path: Path, stack: EmbeddedStack, catalog: Catalog, spark: SparkSession, kafka_broker: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(lakelog.spark, "build_session", lambda *_: spark, raising=False)
    catalog.create_database("lab", if_not_exists=True)
    name = f"changes{next(_numbers)}"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    options = {"bucket": "2", "changelog-producer": "input"}
    table = catalog.create_table(f"lab.{name}", schema, primary_key=["id"], options=options)
    topic = f"it-{name}"
    admin = AdminClient({"bootstrap.servers": kafka_broker})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    tea, cup, pot = {"id": 1, "name": "tea"}, {"id": 1, "name": "cup"}, {"id": 2, "name": "pot"}
    producer = Producer({"bootstrap.servers": kafka_broker})
    for op, before, after in [
        ("c", None, tea), ("r", None, pot), ("u", tea, cup), ("?", None, None), ("d", pot, None),
    ]:  # fmt: skip
        producer.produce(topic, json.dumps({"before": before, "after": after, "op": op}).encode(), partition=0)
    producer.produce(topic, None, partition=0)
    producer.flush(30)
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: {name}\ntable: lab.{name}\nmode: upsert\ntrigger: {{available_now: true}}\ncheckpoint: ./state\n"
        f"source: {{type: kafka, bootstrap_servers: '{kafka_broker}', topic: {topic}, format: debezium-json}}\n"
        "bad_records: dead-letter\ndead_letters: ./dead\n"
    )
    config = parse_config(["run", str(file)], {"LAKELOG_TARGET": stack.target})
    assert isinstance(config, Config)
    pipeline = read_pipeline(file)
    metastore, target = open_catalog(config, pipeline)
    service = make_service(config, pipeline, metastore, target, make_events(), structlog.get_logger())
    assert service.run() is Ending.FINE
    assert table.scan().to_arrow().to_pylist() == [cup]
    changes = [(row["_row_kind"], row["id"], row["name"]) for row in table.changes(raw=True).to_arrow().to_pylist()]
    assert sorted(changes) == [
        ("+I", 1, "tea"), ("+I", 2, "pot"), ("+U", 1, "cup"), ("-D", 2, "pot"), ("-U", 1, "tea"),
    ]  # fmt: skip
    (letter,) = [json.loads(line) for found in (tmp_path / "dead").iterdir() for line in found.open()]
    assert (letter["topic"], letter["partition"], letter["offset"]) == (topic, 0, 3)
