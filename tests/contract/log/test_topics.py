"""Topics of any log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound, Unavailable
from lakelog.log.protocol import Log, TopicAdmin
from lakelog.log.records import TopicSpec


@pytest.fixture
def admin(log: Log) -> Iterator[TopicAdmin]:
    admin = log.open_admin()
    yield admin
    admin.close()


def test_a_topic_is_as_it_was_asked_for(admin: TopicAdmin, new_name: Callable[[], str]) -> None:
    name = new_name()
    made = admin.create_topic(TopicSpec(name, 3, retention_ms=3_600_000, compact=True, max_record_bytes=5000))
    assert admin.find_topic(name) == made
    assert (made.name, made.partitions, made.replication) == (name, 3, 1)
    assert made.settings["cleanup.policy"] == "compact,delete"
    assert made.settings["retention.ms"] == "3600000"
    assert made.settings["message.timestamp.type"] == "LogAppendTime"
    assert int(made.settings["max.message.bytes"]) > 5000
    assert made.settings["min.insync.replicas"] == "1"
    assert admin.delete_topic(name)


def test_a_topic_made_again_has_another_id(admin: TopicAdmin, new_name: Callable[[], str]) -> None:
    spec = TopicSpec(new_name(), 1)
    first = admin.create_topic(spec)
    with pytest.raises(AlreadyExists):
        admin.create_topic(spec)
    assert admin.delete_topic(spec.name)
    assert admin.find_topic(spec.name) is None
    assert not admin.delete_topic(spec.name)
    assert admin.create_topic(spec).topic_id != first.topic_id
    assert admin.delete_topic(spec.name)


def test_settings_and_partitions_change(admin: TopicAdmin, topic: str) -> None:
    admin.alter_topic(topic, {"retention.ms": "1000000"})
    found = admin.find_topic(topic)
    assert found is not None
    assert found.settings["retention.ms"] == "1000000"
    admin.add_partitions(topic, 4)
    admin.add_partitions(topic, 4)
    found = admin.find_topic(topic)
    assert found is not None
    assert found.partitions == 4
    with pytest.raises(InvalidArgument, match=r"has 4.*can only be added"):
        admin.add_partitions(topic, 3)


def test_many_topics_are_found_together(admin: TopicAdmin, new_name: Callable[[], str]) -> None:
    names = [new_name() for _ in range(5)]
    made = {name: admin.create_topic(TopicSpec(name, 2)) for name in names}
    assert admin.delete_topic(names[1])
    assert admin.find_topics(names) == {**made, names[1]: None}
    assert admin.find_topics([]) == {}


def test_what_cannot_be(admin: TopicAdmin, new_name: Callable[[], str]) -> None:
    name = new_name()
    with pytest.raises(Unavailable) as caught:
        admin.create_topic(TopicSpec(name, 1, replication=7))
    assert caught.value.reason == "TOO_FEW_BROKERS"
    assert admin.find_topic(name) is None
    with pytest.raises(NotFound):
        admin.alter_topic(name, {"retention.ms": "1"})
    with pytest.raises(NotFound):
        admin.add_partitions(name, 2)
