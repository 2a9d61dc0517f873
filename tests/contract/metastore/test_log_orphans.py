"""Whatever dies or is slow while topics are made leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.errors import CommitConflict, Unavailable
from lakelog.format.tables.table import TableName
from metastore.logs import topics as log_topics
from metastore.logs.topic_work import make_topic
from metastore.store.logs import LogTopic, TopicLife
from metastore.testing import InProcessMetastore
from tests.support.log.log_brokers import LOG, FakeBrokers

from .topic_tables import NAME, check_nothing_is_left, make, put, wait_until, work_off


def make_left(brokers: FakeBrokers, *, is_named: bool) -> LogTopic:
    """What a metastore leaves that dies before it makes the table."""
    brokers.make_topic("left")
    uuid = "0" * 31 + ("1" if is_named else "2")
    return LogTopic(uuid, 1, "left", "", 0, is_named, TopicLife.CREATING, brokers_options())


def brokers_options() -> dict[str, str]:
    return {**LOG, "kafka.bootstrap.servers": "kafka:9092"}


@pytest.mark.parametrize("is_named", [False, True])
def test_what_the_dead_have_left_is_dropped(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    put(log_metastore, make_left(brokers, is_named=is_named))
    # It may still be at work.
    assert work_off(log_metastore) == 0
    monkeypatch.setattr(log_topics, "ABANDONED_MS", 0)
    assert work_off(log_metastore) == 1
    assert (brokers.find("left") is not None) is is_named
    check_nothing_is_left(log_metastore)


def test_a_topic_that_was_given_up_makes_no_table(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was slow finds its topic dropped: its table is not made."""
    monkeypatch.setattr(log_topics, "ABANDONED_MS", 0)

    def slow(*args: object, **kwargs: object) -> object:
        state = make_topic(*args, **kwargs)  # type: ignore[arg-type]
        log_metastore.run(log_metastore.use_cases.log_topics.work_off())
        return state

    monkeypatch.setattr("metastore.logs.topics.make_topic", slow)
    with pytest.raises(Unavailable, match="was given up"):
        make(log_metastore)
    monkeypatch.setattr("metastore.logs.topics.make_topic", make_topic)
    check_nothing_is_left(log_metastore)


def test_a_topic_that_is_made_for_a_table_that_is_dropped_again_is_dropped(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(log_metastore)
    log_metastore.drop_table(NAME)
    log_metastore.restore_table(NAME)
    topic = log_metastore.get_log(table.table_uuid).topic

    def drop_meanwhile(*args: object, **kwargs: object) -> object:
        state = make_topic(*args, **kwargs)  # type: ignore[arg-type]
        log_metastore.drop_table(NAME)
        return state

    monkeypatch.setattr("metastore.logs.topics.make_topic", drop_meanwhile)
    work_off(log_metastore)
    monkeypatch.setattr("metastore.logs.topics.make_topic", make_topic)
    assert brokers.find(topic) is not None, "it was made in vain"
    check_nothing_is_left(log_metastore)
    assert brokers.find(topic) is None


def test_a_topic_whose_table_was_made_meanwhile_stays(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(log_metastore)
    log = log_metastore.get_log(table.table_uuid)
    left = LogTopic(table.table_uuid, 1, log.topic, "", 0, False, TopicLife.CREATING, brokers_options())
    # As it was listed before the table was made.
    log_metastore.run(log_metastore.use_cases.log_topics._work_off(left))
    assert brokers.find(log.topic) is not None
    assert log_metastore.get_log(table.table_uuid) == log


def test_what_is_known_of_a_purged_tables_log_is_forgotten(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    gone = replace(make_left(brokers, is_named=True), life=TopicLife.GONE)
    put(log_metastore, gone)
    assert work_off(log_metastore) == 1
    check_nothing_is_left(log_metastore)


def test_a_log_is_restarted_once(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(log_metastore)

    def overtaken(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr("metastore.logs.topics.make_topic", make_topic)
        log_metastore.run(log_metastore.use_cases.log_topics.restart_log(table.table_uuid))
        return make_topic(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("metastore.logs.topics.make_topic", overtaken)
    with pytest.raises(CommitConflict, match="restarted by another"):
        log_metastore.restart_log(table.table_uuid)
    assert log_metastore.get_log(table.table_uuid).generation == 2


def test_brokers_that_do_not_answer_keep_no_others_waiting(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    slow = {"kafka.bootstrap.servers": "kafka:9093"}
    log = log_metastore.get_log(make(log_metastore).table_uuid)
    late = log_metastore.get_log(make(log_metastore, slow, name=TableName("shop", "late")).table_uuid)
    brokers.second_answers.clear()
    log_metastore.drop_database("shop", cascade=True)
    step = log_metastore.start(log_metastore.use_cases.log_topics.work_off())
    wait_until(lambda: brokers.find(log.topic) is None)
    assert brokers.find(late.topic) is not None
    brokers.second_answers.set()
    assert step.result(20) == 2
    assert brokers.find(late.topic) is None
