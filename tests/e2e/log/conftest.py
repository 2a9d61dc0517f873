from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from lakelog.log.kafka import KafkaLog, KafkaSettings
from lakelog.log.records import TopicSpec
from lakelog.testing.kafka_proxy import KafkaProxy
from lakelog.testing.log_recording import Recorder
from tests.e2e.log.scripted import Scripted

_numbers = itertools.count(1)
PREFIX = f"ck-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def kafka_servers(request: pytest.FixtureRequest) -> str:
    servers: str = os.environ.get("LAKELOG_TEST_KAFKA") or request.getfixturevalue("kafka_broker")
    return servers


@pytest.fixture
def proxy(kafka_servers: str) -> Iterator[KafkaProxy]:
    with KafkaProxy(int(kafka_servers.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
def scripted(kafka_servers: str, proxy: KafkaProxy, tmp_path: Path) -> Iterator[Scripted]:
    """A topic of two partitions, publishers that reach it through the proxy, and a plain consumer that does not."""
    topic = f"{PREFIX}-{next(_numbers)}"
    direct = KafkaLog(KafkaSettings({"bootstrap.servers": kafka_servers}))
    admin = direct.open_admin()
    admin.create_topic(TopicSpec(topic, 2))
    log = KafkaLog(KafkaSettings({"bootstrap.servers": proxy.target}))
    seeing_all = {"bootstrap.servers": kafka_servers, "group.id": topic, "isolation.level": "read_uncommitted"}
    with Recorder(kafka_servers, topic, tmp_path / "seen.jsonl") as recorder:
        scripted = Scripted(log, topic, recorder, Consumer(seeing_all))
        yield scripted
        scripted.close()
    admin.delete_topic(topic)
    admin.close()
