"""Brokers that allow each service what docs/log-operations.md names: it is enough, and what is missing is told."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lakelog.errors import PermissionDenied
from lakelog.log.kafka import open_kafka_log
from lakelog.log.protocol import Log, LogProducer
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot, TopicSpec
from lakelog.log.secrets import Secrets
from tests.support.certificates import TestAuthority
from tests.support.log.kafka_broker import require_kafka
from tests.support.log.secured_kafka import SecuredKafka

pytestmark = pytest.mark.e2e

TOPIC, SNAPSHOT = "shop_orders_1", LogSnapshot(1, "a" * 32)
RIGHTS = {
    "metastore": {"topic shop_": "create describe describe_configs alter alter_configs delete"},
    "publisher": {
        "topic shop_": "write read describe_configs",
        "transactional_id lakelog-": "write",
        "group lakelog-": "read",
    },
    "writer": {"topic shop_": "write"},
    "reader": {"topic shop_": "read"},
    "pipeline": {"topic shop_": "read describe_configs"},
}
"""As docs/log-operations.md has them; `read` and `write` include `describe`."""


class GuardedKafka(SecuredKafka):
    """Allows nobody anything that was not granted, but those without a name."""

    def _settings(self, data: Path) -> dict[str, str]:
        guard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        return {**super()._settings(data), "authorizer.class.name": guard, "super.users": "User:ANONYMOUS"}

    def grant(self, user: str, what: str, operations: str) -> None:
        """Lets a user do something with all of a kind whose names begin so."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        kind, name = what.split()
        rights = [
            AclBinding(
                ResourceType[kind.upper()],
                name,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                AclOperation[each.upper()],
                AclPermissionType.ALLOW,
            )
            for each in operations.split()
        ]
        for answer in admin.create_acls(rights).values():
            answer.result(20)


OpenLog = Callable[[str], Log]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[GuardedKafka, OpenLog]]:
    require_kafka()
    with tempfile.TemporaryDirectory(prefix="ll-acl-", ignore_cleanup_errors=True) as name:
        authority = TestAuthority(Path(name) / "authority")
        with GuardedKafka(Path(name), authority) as kafka:
            secrets = {
                "LAKELOG_SECRET_password": "right",
                "LAKELOG_SECRET_ca": authority.ca.certificate.read_text(),
            }

            def open_log(user: str) -> Log:
                options = {
                    "kafka.bootstrap.servers": kafka.sasl_servers,
                    "kafka.security.protocol": "sasl_ssl",
                    "kafka.sasl.mechanism": "scram-sha-512",
                    "kafka.sasl.username": user,
                    "kafka.sasl.password": "secret:password",
                    "kafka.ssl.ca.pem": "secret:ca",
                }
                return open_kafka_log(options, Secrets(secrets))

            for user, rights in RIGHTS.items():
                kafka.set_password(user, "right")
                for what, operations in rights.items():
                    kafka.grant(user, what, operations)
            kafka.set_password("without-group", "right")
            for what in ("topic shop_", "transactional_id lakelog-"):
                kafka.grant("without-group", what, RIGHTS["publisher"][what])
            kafka.set_password("without-write", "right")
            for what, operations in {**RIGHTS["publisher"], "topic shop_": "read describe_configs"}.items():
                kafka.grant("without-write", what, operations)
            with closing(open_log("metastore").open_admin()) as admin:
                admin.create_topic(TopicSpec(TOPIC, 2))
            yield kafka, open_log


def make_record() -> EncodedRecords:
    return EncodedRecords(0, None, pa.array([b"x"]), np.zeros(1, np.int8), np.zeros(1, np.int64))


def publish(log: Log) -> None:
    with closing(log.open_producer(TOPIC, "lakelog-1-0", "lakelog-1-1")) as producer:
        producer.start()
        producer.begin()
        producer.send(make_record(), SNAPSHOT)
        producer.commit(LogPosition(1, SNAPSHOT.snapshot_uuid))


def send_on(producer: LogProducer) -> None:
    """Sends records until it fails."""
    while True:
        producer.send(make_record(), SNAPSHOT)


def read(log: Log) -> int:
    with closing(log.open_reader(TOPIC)) as reader:
        reader.assign({0: 0})
        count = len(reader.fetch(1, 20))
        # Brokers also say what they think of the group that a consumer names: that comes later.
        return count + len(reader.fetch(10, 2))


def test_the_rights_that_are_named_are_enough(guarded: tuple[GuardedKafka, OpenLog]) -> None:
    _, open_log = guarded
    with closing(open_log("metastore").open_admin()) as admin:
        assert admin.find_topic(TOPIC) is not None
        assert admin.find_ends(TOPIC) == (0, 0)
        admin.alter_topic(TOPIC, {"retention.ms": "100000000"})
        admin.add_partitions(TOPIC, 3)
    publisher = open_log("publisher")
    publish(publisher)
    with closing(publisher.open_admin()) as admin, closing(publisher.open_reader(TOPIC)) as reader:
        assert admin.find_topic(TOPIC) is not None
        assert [each.snapshot for each in reader.read_tail()] == [SNAPSHOT]
    with closing(open_log("writer").open_uncommitted_sender(TOPIC)) as sender:
        sender.send(make_record(), "b" * 32)
        assert sender.flush(20) is not None
    assert read(open_log("reader")) == 2
    with closing(open_log("pipeline").open_admin()) as admin:
        assert admin.find_topic(TOPIC) is not None
    assert read(open_log("pipeline")) == 2
    with closing(open_log("metastore").open_admin()) as admin:
        admin.create_topic(TopicSpec("shop_other", 1))
        assert admin.delete_topic("shop_other")


def test_a_right_to_a_group_that_is_missing_is_reported(guarded: tuple[GuardedKafka, OpenLog]) -> None:
    _, open_log = guarded
    with pytest.raises(PermissionDenied, match=r"consumer group lakelog-1-1 keeps: .*Group authorization failed"):
        publish(open_log("without-group"))


def test_a_right_to_write_that_is_missing_is_reported_by_whatever_meets_it(
    guarded: tuple[GuardedKafka, OpenLog],
) -> None:
    _, open_log = guarded
    with closing(open_log("without-write").open_producer(TOPIC, "lakelog-2-0", "lakelog-2-1")) as producer:
        producer.start()
        producer.begin()
        # The answer comes to the client between two records, of which the second one is not taken any more.
        with pytest.raises(PermissionDenied, match=r"could not send records: .*Topic authorization failed"):
            send_on(producer)
        producer.start()
        producer.begin()
        producer.send(make_record(), SNAPSHOT)
        with pytest.raises(PermissionDenied, match=r"could not (send|commit).*: .*Topic authorization"):
            producer.commit(LogPosition(1, SNAPSHOT.snapshot_uuid))
