"""Topics of tables' logs at a real broker: what only it can refuse, and what it makes of what is asked."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator, Mapping

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.log.kafka import KafkaLog, open_kafka_log
from lakelog.log.protocol import TopicAdmin
from lakelog.log.records import TopicSpec
from lakelog.log.secrets import Secrets
from metastore.logs.brokers import Brokers
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.metastore.making import SCHEMA
from tests.support.metastore.opening import WAREHOUSE

from .topic_tables import list_unsettled, work_off

SECRETS = Secrets({"LAKELOG_SECRET_password": "hunter2-never-shown"})
SASL = {
    "kafka.security.protocol": "sasl_plaintext",
    "kafka.sasl.mechanism": "plain",
    "kafka.sasl.username": "me",
    "kafka.sasl.password": "secret:password",
}


def find_closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def open_log(options: Mapping[str, str]) -> KafkaLog:
    return open_kafka_log(options, SECRETS)


@pytest.fixture
def away() -> str:
    return f"127.0.0.1:{find_closed_port()}"


@pytest.fixture
def metastore(kafka_broker: str, away: str) -> Iterator[InProcessMetastore]:
    clusters = [tuple(kafka_broker.split(",")), (away,)]

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, brokers=Brokers(clusters, open_log, timeout_s=8.0))

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    opened = in_process(open_store, make_use_cases)
    opened.stop_background()
    opened.create_database("tp")
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def admin(kafka_broker: str) -> Iterator[TopicAdmin]:
    opened = open_log({"kafka.bootstrap.servers": kafka_broker}).open_admin()
    yield opened
    opened.close()


def make(metastore: InProcessMetastore, servers: str, **options: str) -> TableInfo:
    given = {"log.system": "kafka", "kafka.bootstrap.servers": servers, **options}
    return metastore.create_table(TableName("tp", "orders"), SCHEMA, primary_key=["id"], options=given)[0]


def test_a_topic_lives_with_its_table(metastore: InProcessMetastore, kafka_broker: str, admin: TopicAdmin) -> None:
    table = make(metastore, kafka_broker, bucket="3")
    log = metastore.get_log(table.table_uuid)
    topic = admin.find_topic(log.topic)
    assert topic is not None
    assert (topic.topic_id, topic.partitions) == (log.topic_id, 3)
    assert topic.settings["message.timestamp.type"] == "LogAppendTime"
    options = {"log.retention": "3 d", "log.system.partitions": "5", "log.max-record-size": "2 mb"}
    metastore.alter_table(table.table_uuid, set_options=options, unset_options=[])
    altered = admin.find_topic(log.topic)
    assert altered is not None
    assert (altered.partitions, altered.settings["cleanup.policy"]) == (5, "compact,delete")
    assert (altered.settings["retention.ms"], altered.settings["max.message.bytes"]) == ("259200000", "2097664")
    metastore.drop_table(table.name)
    assert work_off(metastore) == 1
    assert admin.find_topic(log.topic) is None
    metastore.restore_table(table.name)
    assert work_off(metastore) == 1
    again = metastore.get_log(table.table_uuid)
    admin.delete_topic(again.topic)
    begun = metastore.restart_log(table.table_uuid)
    assert (begun.topic, begun.generation, begun.topic_id != again.topic_id) == (again.topic, 3, True)
    metastore.drop_table(table.name)
    work_off(metastore)
    assert admin.find_topic(begun.topic) is None
    assert list_unsettled(metastore) == []


def test_what_a_broker_refuses_is_reported_and_leaves_nothing(
    metastore: InProcessMetastore, kafka_broker: str, away: str, admin: TopicAdmin
) -> None:
    with pytest.raises(Unavailable, match="3") as few:
        make(metastore, kafka_broker, **{"log.system.replication": "3"})
    assert few.value.metadata["cause"] == "TOO_FEW_BROKERS"
    assert work_off(metastore) == 1
    with pytest.raises(Unavailable, match=away) as none:
        make(metastore, away)
    assert none.value.reason == "BROKERS_UNAVAILABLE"
    with pytest.raises(PermissionDenied) as denied:
        make(metastore, kafka_broker, **SASL)
    assert "hunter2" not in str(denied.value) + str(denied.value.metadata)
    with pytest.raises(InvalidArgument, match="secret:unknown"):
        make(metastore, kafka_broker, **{**SASL, "kafka.sasl.password": "secret:unknown"})
    assert list_unsettled(metastore) == []
    name = f"tp-{uuid.uuid4().hex}"
    admin.create_topic(TopicSpec(name, 1, max_record_bytes=1000))
    with pytest.raises(InvalidArgument, match="has 1 partitions and needs 2") as mismatch:
        make(metastore, kafka_broker, **{"bucket": "2", "kafka.topic": name})
    # Its partitions, no compaction and nothing against too early a one, and records that are too small.
    assert mismatch.value.metadata["problems"] == "4"
    assert admin.delete_topic(name)
    assert list_unsettled(metastore) == []
    assert metastore.list_tables("tp") == []
