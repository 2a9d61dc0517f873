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

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.support.spark.given_session import GivenSession
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_numbers = itertools.count(1)


@pytest.mark.usefixtures("reads")
def test_changes_of_debezium_become_a_table(
    tmp_path: Path, stack: EmbeddedStack, catalog: Catalog, spark: SparkSession, kafka_broker: str,
) -> None:  # fmt: skip
    catalog.create_database("lab", if_not_exists=True)
    name = f"changes{next(_numbers)}"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    options = {"bucket": "2", "changelog-producer": "input"}
    table = catalog.create_table(f"lab.{name}", schema, primary_key=["id"], options=options)
    topic = f"it-{name}"
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    other = f"it-{name}-more"
    for made in admin.create_topics([NewTopic(topic, 1), NewTopic(other, 2)]).values():
        made.result(30)
    tea, cup, pot = {"id": 1, "name": "tea"}, {"id": 1, "name": "cup"}, {"id": 2, "name": "pot"}
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0})

    def send(op: str, before: dict[str, object] | None, after: dict[str, object] | None) -> None:
        producer.produce(topic, json.dumps({"before": before, "after": after, "op": op}).encode(), partition=0)

    def run() -> ExitStatus:
        metastore, target = open_catalog(config, pipeline)
        service, _ = make_service(
            config, pipeline, metastore, target, make_events(), GivenSession(spark), structlog.get_logger()
        )
        return service.run()

    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: {name}\ntable: lab.{name}\nmode: upsert\ntrigger: {{available_now: true}}\ncheckpoint: ./state\n"
        f"source: {{type: kafka, bootstrap_servers: '{kafka_broker}', topic: [{topic}, {other}], "
        "format: debezium-json, max_records_per_batch: 5}\n"
        "bad_records: dead-letter\ndead_letters: ./dead\n"
    )
    parsed = parse_config(["run", str(file)], {"LAKELOG_TARGET": stack.target})
    assert isinstance(parsed, Config)
    config: Config = parsed
    pipeline = read_pipeline(file)
    # Nothing is there yet.
    assert run() is ExitStatus.FINE
    send("c", None, tea)
    send("r", None, pot)
    send("u", tea, cup)
    send("?", None, None)
    send("d", pot, None)
    # A batch of its own, in which no row is.
    producer.produce(topic, None, partition=0)
    producer.flush(30)
    assert run() is ExitStatus.FINE
    assert table.scan().to_arrow().to_pylist() == [cup]
    changes = [(row["_row_kind"], row["id"], row["name"]) for row in table.changes().to_arrow().to_pylist()]
    assert sorted(changes) == [
        ("+I", 1, "tea"), ("+I", 2, "pot"), ("+U", 1, "cup"), ("-D", 2, "pot"), ("-U", 1, "tea"),
    ]  # fmt: skip
    (letter,) = [json.loads(found.read_text()) for found in (tmp_path / "dead").iterdir()]
    assert (letter["topic"], letter["partition"], letter["offset"]) == (topic, 0, 3)
    send("c", None, pot)
    # Of the other topic, and a delete that only its key tells of.
    jug, mug = {"id": 3, "name": "jug"}, {"id": 4, "name": "mug"}
    for key, value in ((3, ("c", jug)), (3, ("d", None)), (4, ("c", mug))):
        message = {"before": None, "after": value[1], "op": value[0]}
        producer.produce(other, json.dumps(message).encode(), key=json.dumps({"id": key}).encode(), partition=1)
    producer.flush(30)
    assert run() is ExitStatus.FINE
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [cup, pot, mug]
    reported = json.loads(dict(table.snapshots().column("properties").to_pylist()[-1])["pipeline.offsets"])
    assert [(each["topic"], each["offsets"]) for each in reported] == [(topic, [7]), (other, [0, 3])]
    assert table.snapshots().column("identifier").to_pylist()[-1] == 2
