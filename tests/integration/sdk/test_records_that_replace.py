"""What the docs tell plain consumers of rows that are sent before their commit, and again behind it (`eventual`)."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from lakelog.log.kafka import open_kafka_log
from lakelog.log.secrets import Secrets
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes.uncommitted_sending import UncommittedChannel
from metastore.logs.brokers import Brokers
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, open_metastore
from writer.publishing.reading import snapshot_log

SCHEMA = pa.schema([("k", pa.int64())])
DOCS = Path(__file__).parents[3] / "docs" / "log.md"


@pytest.fixture
def metastore(warehouse: Path, kafka_broker: str) -> Iterator[InProcessMetastore]:
    brokers = Brokers([tuple(kafka_broker.split(","))], lambda given: open_kafka_log(given, Secrets({})))
    service = open_metastore(warehouse, brokers)
    yield service
    service.close()


def read_recipe() -> dict[str, Any]:
    """The code of the docs, as it stands there."""
    (code,) = re.findall(r"```python\n((?:(?!```).)*def take\(message\).*?)```", DOCS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def take_all(broker: str, topic: str) -> list[int]:
    """The rows that the docs' recipe finds in a topic."""
    recipe = read_recipe()
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "any", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(20)) is not None and not message.error():
            recipe["take"](message)
    finally:
        consumer.close()
    assert message is not None, "the end of the topic comes"
    return [json.loads(value)["k"] for found in recipe["rows"].values() for value in found.values()]


@pytest.mark.parametrize("off", [False, True])
def test_each_committed_row_counts_once(
    metastore: InProcessMetastore, kafka_broker: str, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    if off:
        monkeypatch.setattr(snapshot_log, "EVENTUAL", "")
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    topic = f"replaced-{uuid.uuid4().hex}"
    options = {"log.system": "kafka", "log.consistency": "eventual", "log.format": "json", "kafka.topic": topic}
    table = catalog.create_table("shop.orders", SCHEMA, options=options)
    table.append(pa.table({"k": [1, 2]}))
    flush = UncommittedChannel._flush
    with monkeypatch.context() as patch:
        # All stands in the topic, but the brokers' answers came too late.
        patch.setattr(UncommittedChannel, "_flush", lambda self, failures: flush(self, failures) and None)
        table.append(pa.table({"k": [3, 4, 5]}))
    table.append(pa.table({"k": [6]}))
    sent = [each.sent_offsets is not None for each in metastore.list_snapshots(table.uuid).snapshots]
    assert sent == [True, False, True]
    by_hand = HandPublisher(metastore, lambda info: open_kafka_log(info.options, Secrets({})), table)
    by_hand.publish()
    by_hand.close()
    catalog.close()
    once = dict.fromkeys(range(1, 7), 1)
    assert Counter(take_all(kafka_broker, topic)) == (once | {3: 2, 4: 2, 5: 2} if off else once)
