from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from lakelog.log.kafka import KafkaLog, KafkaSettings
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.protocol import Log, LogProducer, LogReader
from lakelog.log.records import TopicSpec

_numbers = itertools.count(1)
PREFIX = f"tr-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def kafka_settings(request: pytest.FixtureRequest) -> KafkaSettings:
    servers = os.environ.get("LAKELOG_TEST_KAFKA") or request.getfixturevalue("kafka_broker")
    return KafkaSettings({"bootstrap.servers": servers})


@pytest.fixture
def kafka_log(kafka_settings: KafkaSettings) -> KafkaLog:
    return KafkaLog(kafka_settings)


@pytest.fixture(params=["memory", "kafka"])
def log(request: pytest.FixtureRequest) -> Log:
    if request.param == "memory":
        return MemoryLog(request.getfixturevalue("cluster"))
    kafka: KafkaLog = request.getfixturevalue("kafka_log")
    return kafka


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"{PREFIX}-{next(_numbers)}"


@pytest.fixture
def topic(log: Log, new_name: Callable[[], str]) -> Iterator[str]:
    name = new_name()
    admin = log.open_admin()
    admin.create_topic(TopicSpec(name, 2))
    yield name
    admin.delete_topic(name)
    admin.close()


@pytest.fixture
def open_producer(log: Log, topic: str) -> Iterator[Callable[[], LogProducer]]:
    opened: list[LogProducer] = []

    def open_one() -> LogProducer:
        opened.append(log.open_producer(topic, f"{topic}-publisher", f"{topic}-position"))
        return opened[-1]

    yield open_one
    for producer in opened:
        producer.close()


@pytest.fixture
def reader(log: Log, topic: str) -> Iterator[LogReader]:
    reader = log.open_reader(topic)
    yield reader
    reader.close()
