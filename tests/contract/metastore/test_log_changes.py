"""Logs of tables that are restored, altered, or begun anew."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import AlreadyExists, CommitConflict, InvalidArgument, NotFound, Unavailable
from lakelog.format.tables.table import TableName
from lakelog.log.memory import MemoryLog
from metastore.logs.topic_work import alter_topic
from metastore.ownership import EVERYONE
from metastore.testing import InProcessMetastore
from tests.support.log.log_brokers import FakeBrokers

from .log_tables import commit_segments
from .topic_tables import NAME, NAMED, make, work_off


def test_a_restored_table_begins_a_log_of_its_own(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore, {"bucket": "4"})
    first = log_metastore.get_log(table.table_uuid)
    commit_segments(log_metastore, table, 1)
    log_metastore.drop_table(NAME)
    brokers.is_away = True
    log_metastore.restore_table(NAME)
    waiting = log_metastore.get_log(table.table_uuid)
    assert (waiting.generation, waiting.starts_after, waiting.topic_id) == (2, 1, "")
    assert "is not made yet" in waiting.problem
    assert work_off(log_metastore) == 0
    assert "No broker answers" in log_metastore.get_log(table.table_uuid).problem
    brokers.is_away = False
    assert work_off(log_metastore) == 2
    log = log_metastore.get_log(table.table_uuid)
    assert (log.topic, log.problem) == (f"{first.topic}_2", "")
    made = brokers.find(log.topic)
    assert made is not None
    assert made.topic_id == log.topic_id
    assert brokers.find(first.topic) is None
    log_metastore.drop_table(NAME)
    work_off(log_metastore)
    log_metastore.restore_table(NAME)
    assert log_metastore.get_log(table.table_uuid).generation == 3
    assert len(log_metastore.list_logs()) == 1


def test_a_restored_table_has_its_named_topic_again(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore, NAMED)
    before = log_metastore.get_log(table.table_uuid)
    log_metastore.drop_table(NAME)
    log_metastore.restore_table(NAME)
    work_off(log_metastore)
    log = log_metastore.get_log(table.table_uuid)
    assert (log.generation, log.topic, log.topic_id) == (2, "changes", before.topic_id)


def test_a_topic_follows_the_options(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore, keyed=False)
    log = log_metastore.get_log(table.table_uuid)
    brokers.settings(log.topic)["retention.bytes"] = "1000"
    set_options = {"log.retention": "2 d", "log.system.partitions": "6", "log.max-record-size": "2 mb"}
    log_metastore.alter_table(table.table_uuid, set_options=set_options, unset_options=[])
    topic = brokers.find(log.topic)
    assert topic is not None
    assert (topic.partitions, topic.settings["retention.ms"]) == (6, "172800000")
    assert topic.settings["retention.bytes"] == "-1", "else records might go sooner"
    assert topic.settings["max.message.bytes"] == str((2 << 20) + 512)
    assert log_metastore.get_log(table.table_uuid).options["log.retention"] == "2 d"
    # Records that are on their way may be as large as before.
    log_metastore.alter_table(
        table.table_uuid, set_options={"log.max-record-size": "1 mb"}, unset_options=["log.retention"]
    )
    assert brokers.settings(log.topic)["max.message.bytes"] == str((2 << 20) + 512)
    assert brokers.settings(log.topic)["retention.ms"] == "604800000"


def test_options_stay_where_the_topic_does_not_follow(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore, keyed=False)
    log = log_metastore.get_log(table.table_uuid)

    def alter() -> None:
        log_metastore.alter_table(table.table_uuid, set_options={"log.retention": "2 d"}, unset_options=[])

    brokers.is_away = True
    with pytest.raises(Unavailable):
        alter()
    brokers.is_away = False
    brokers.settings(log.topic)["message.timestamp.type"] = "CreateTime"
    with pytest.raises(InvalidArgument, match="must be LogAppendTime"):
        alter()
    assert brokers.settings(log.topic)["retention.ms"] == "604800000"
    brokers.cluster.delete_topic(log.topic)
    with pytest.raises(NotFound, match="There is no topic"):
        alter()
    assert log_metastore.get_table(NAME).options == table.options
    assert log_metastore.get_log(table.table_uuid) == log


def test_other_options_ask_no_broker(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore)
    brokers.is_away = True
    log_metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[])
    assert log_metastore.get_table(NAME).options["write-only"] == "true"


def test_brokers_with_another_topic_are_reported(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore)
    log = log_metastore.get_log(table.table_uuid)
    brokers.cluster.delete_topic(log.topic)
    brokers.make_topic(log.topic, cleanup_policy="compact", min_compaction_lag_ms="3600000")
    log_metastore.alter_table(table.table_uuid, set_options={"kafka.bootstrap.servers": "kafka:9093"}, unset_options=[])
    assert "lakelog log restart" in log_metastore.get_log(table.table_uuid).problem
    assert log_metastore.restart_log(table.table_uuid).problem == ""


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_log_restarts(log_metastore: InProcessMetastore, brokers: FakeBrokers, is_gone: bool) -> None:
    table = make(log_metastore, {"bucket": "4"})
    before = log_metastore.get_log(table.table_uuid)
    commit_segments(log_metastore, table, 1)
    if is_gone:
        brokers.cluster.delete_topic(before.topic)
    log = log_metastore.restart_log(table.table_uuid)
    assert log == log_metastore.get_log(table.table_uuid)
    assert (log.topic, log.generation, log.starts_after) == (before.topic, 2, 1)
    found = brokers.find(log.topic)
    assert found is not None
    assert found.topic_id == log.topic_id
    assert (log.topic_id != before.topic_id) is is_gone
    assert log_metastore.list_logs() == [log]


def test_a_log_restarts_in_a_topic_that_fits(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore)
    log = log_metastore.get_log(table.table_uuid)
    brokers.settings(log.topic)["max.message.bytes"] = "1"
    with pytest.raises(InvalidArgument, match=r"max\.message\.bytes"):
        log_metastore.restart_log(table.table_uuid)
    brokers.is_away = True
    with pytest.raises(Unavailable):
        log_metastore.restart_log(table.table_uuid)
    assert log_metastore.get_log(table.table_uuid) == log


@pytest.mark.parametrize("meanwhile", ["altered", "restarted"])
def test_a_log_that_changes_meanwhile_is_not_altered(
    log_metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    table = make(log_metastore, keyed=False)
    use_cases = log_metastore.use_cases

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr("metastore.logs.topics.alter_topic", alter_topic)
        if meanwhile == "altered":
            options = {"log.retention": "9 d"}
            log_metastore.run(
                use_cases.catalog.alter_table(table.table_uuid, set_options=options, unset_options=[], by=EVERYONE)
            )
        else:
            log_metastore.run(use_cases.log_topics.restart_log(table.table_uuid))
        return alter_topic(*args)

    monkeypatch.setattr("metastore.logs.topics.alter_topic", overtaken)
    with pytest.raises(CommitConflict) as refused:
        log_metastore.alter_table(table.table_uuid, set_options={"log.system.partitions": "3"}, unset_options=[])
    assert refused.value.reason == {"altered": "TABLE_ALTERED", "restarted": "LOG_RESTARTED"}[meanwhile]
    assert "log.system.partitions" not in log_metastore.get_table(NAME).options


def test_brokers_that_are_not_named_any_more_are_those_of_the_operator(log_metastore: InProcessMetastore) -> None:
    table = make(log_metastore, {"kafka.bootstrap.servers": "kafka:9093"})
    altered = log_metastore.alter_table(table.table_uuid, set_options={}, unset_options=["kafka.bootstrap.servers"])
    assert altered.options["kafka.bootstrap.servers"] == "kafka:9092,kafka:9093"


def test_a_table_whose_named_topic_another_has_by_now_is_not_restored(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    table = make(log_metastore, NAMED | {"bucket": "4"})
    commit_segments(log_metastore, table, 1)
    log_metastore.drop_table(NAME)
    other = TableName("shop", "other")
    make(log_metastore, NAMED, name=other)
    reported = (
        r"shop\.orders cannot be restored now: .* topic changes, which is the log of table shop\.other by now.* "
        r"Drop shop\.other first \(lakelog table drop shop\.other\)"
    )
    with pytest.raises(AlreadyExists, match=reported) as caught:
        log_metastore.restore_table(NAME)
    assert (caught.value.reason, caught.value.metadata["table"]) == ("TOPIC_IN_USE", "shop.other")
    assert [each.name for each in log_metastore.list_dropped_tables("shop")] == [NAME]
    assert [each.name for each in log_metastore.list_logs()] == [other]
    # The way out that is told is one.
    log_metastore.drop_table(other)
    assert log_metastore.restore_table(NAME).table.latest_snapshot_id == 1
    work_off(log_metastore)
    log = log_metastore.get_log(table.table_uuid)
    assert (log.generation, log.starts_after, log.problem) == (2, 1, "")


def test_of_two_dropped_tables_of_one_topic_one_is_restored(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    """Also while the topic waits for its brokers, or was deleted and made anew between them, so that no id tells."""
    first = make(log_metastore, NAMED)
    log_metastore.drop_table(NAME)
    admin = MemoryLog(brokers.cluster).open_admin()
    admin.delete_topic("changes")
    second = make(log_metastore, NAMED)
    log_metastore.drop_table(NAME)
    brokers.is_away = True
    log_metastore.restore_table(NAME, table_uuid=first.table_uuid)
    again = TableName("shop", "again")
    with pytest.raises(AlreadyExists, match=r"the log of table shop\.orders by now"):
        log_metastore.restore_table(NAME, table_uuid=second.table_uuid, new_name=again)
    log_metastore.drop_table(NAME)
    log_metastore.restore_table(NAME, table_uuid=second.table_uuid, new_name=again)
    brokers.is_away = False
    work_off(log_metastore)
    assert log_metastore.get_log(second.table_uuid).problem == ""


def test_a_topic_of_the_name_at_other_brokers_keeps_no_one_from_coming_back(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    """Who takes the topic before the brokers are asked is named later, with a way out."""
    table = make(log_metastore, NAMED | {"kafka.bootstrap.servers": "kafka:9092"})
    admin = MemoryLog(brokers.cluster).open_admin()
    log_metastore.drop_table(NAME)
    admin.delete_topic("changes")
    other = TableName("shop", "other")
    make(log_metastore, NAMED | {"kafka.bootstrap.servers": "kafka:9093"}, name=other)
    log_metastore.restore_table(NAME)
    work_off(log_metastore)
    reported = log_metastore.get_log(table.table_uuid).problem
    assert "is the log of table shop.other already" in reported
    assert reported.endswith(
        "A table's 'kafka.topic' cannot change. Drop shop.other: the log can begin once that is gone."
    )
    log_metastore.drop_table(other)
    work_off(log_metastore)
    assert log_metastore.get_log(table.table_uuid).problem == ""
