"""A topic of a real broker brought into a table by the service, killed around its commits: each row once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.e2e.writer.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SOON = ("--lease-seconds", "3")


class Topic:
    """A topic of the world's own."""

    def __init__(self, servers: str, name: str, partitions: int) -> None:
        self.servers = servers
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._admin.create_topics([NewTopic(name, partitions)])[name].result(30)
        self._partitions = partitions

    def send(self, first: int, count: int, *, abort: bool = False) -> None:
        """Rows that are unique, in one transaction over all partitions."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"of-{self.name}", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for row in range(first, first + count):
            value = json.dumps({"id": row, "name": f"name {row}"})
            producer.produce(self.name, value.encode(), partition=row % self._partitions)
        producer.flush(30)
        if abort:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def write_pipeline(world: World, topic: Topic) -> Path:
    file = world.folder / "pipeline.yaml"
    file.write_text(
        f"name: {world.name}\ntable: {world.table}\nmode: {world.mode}\n"
        f"source: {{type: kafka, bootstrap_servers: '{topic.servers}', topic: {topic.name}, format: json}}\n"
        f"trigger: {{available_now: true}}\ncheckpoint: ./state\n"
    )
    return file


@pytest.mark.parametrize("seed", range(4), ids=["committed", "counted", "planned", "written"])
def test_killed_at_every_step(world: World, kafka_broker: str, seed: int) -> None:
    """Each push takes one of the steps, and `test_writer` another one for pipelines of files: see there.

    One of the two steps comes before the commit, the other one after it.
    """
    step = ("committed", "counted", "planned", "written")[seed]
    table = world.use_table_with_key("input")
    topic = Topic(kafka_broker, f"wr-{world.name}", 2)
    write_pipeline(world, topic)
    topic.send(0, 100)
    topic.send(1000, 30, abort=True)
    topic.send(100, 70)
    writer = world.start(*SOON, fault=f"{step}:0")
    assert writer.wait() == -signal.SIGKILL, writer.text()
    # Between what was planned and what is done, the topic goes on.
    topic.send(170, 10)
    world.next_row = 180
    assert world.start(*SOON).wait() == 0, world.writers[-1].text()
    assert world.has_all_rows_once()
    # Of what is done anew of the batch, nothing is there twice: the changelog has each row as it came.
    changes = table.changes().to_arrow()
    assert set(changes.column("_row_kind").to_pylist()) <= {"+I", "+U"}
    assert sorted(changes.column("id").to_pylist()) == list(range(180))
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.total_rows, report.lag, report.last_error) == ("stopped", world.next_row, 0, "")
    assert report.position.startswith("offsets 0:")
    # The table itself says how far it is.
    reported = world.catalog.table(world.table).snapshots().column("properties").to_pylist()[-1]
    (offsets,) = json.loads(dict(reported)["pipeline.offsets"])
    assert offsets["topic"] == topic.name
    assert report.position == "offsets " + ", ".join(f"{p}:{end}" for p, end in enumerate(offsets["offsets"]))
