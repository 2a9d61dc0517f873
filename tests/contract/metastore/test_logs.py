"""Topics of tables' logs: made before their tables are, and dropped behind them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableName
from metastore.logs.brokers import Brokers
from metastore.store.logs import TopicLife
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import LOG, FakeBrokers
from tests.support.metastore.making import SCHEMA
from tests.support.metastore.opening import WAREHOUSE
from tests.support.metastore.serving import serving

from .topic_tables import NAME, NAMED, check_nothing_is_left, list_unsettled, make, wait_until, work_off


def test_a_topic_is_made_with_its_table(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore, {"bucket": "4", "log.retention": "1 d"})
    log = log_metastore.get_log(table.table_uuid)
    assert log.topic == f"shop_orders_{table.table_uuid}"
    assert (log.generation, log.starts_after, log.is_named, log.problem) == (1, 0, False, "")
    # Of a single cluster nobody need say where it is.
    assert table.options["kafka.bootstrap.servers"] == "kafka:9092,kafka:9093"
    assert log.options == {**LOG, "log.retention": "1 d", "kafka.bootstrap.servers": "kafka:9092,kafka:9093"}
    topic = brokers.find(log.topic)
    assert topic is not None
    assert (topic.topic_id, topic.partitions) == (log.topic_id, 4)
    assert topic.settings["cleanup.policy"] == "compact,delete"
    assert topic.settings["retention.ms"] == "86400000"
    assert log_metastore.list_logs() == [log]
    assert list_unsettled(log_metastore) == []


def test_a_table_without_a_log_has_none(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table, _ = log_metastore.create_table(NAME, SCHEMA, primary_key=["id"])
    with pytest.raises(NotFound, match=r"shop\.orders has no log"):
        log_metastore.get_log(table.table_uuid)
    with pytest.raises(NotFound, match=r"shop\.orders has no log"):
        log_metastore.restart_log(table.table_uuid)
    assert log_metastore.list_logs() == []
    assert brokers.requested == []


def test_a_topic_is_dropped_with_its_table(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    log = log_metastore.get_log(make(log_metastore).table_uuid)
    log_metastore.drop_table(NAME)
    assert log_metastore.list_logs() == []
    with pytest.raises(NotFound):
        log_metastore.get_log(log.table_uuid)
    assert work_off(log_metastore) == 1
    assert brokers.find(log.topic) is None
    assert list_unsettled(log_metastore) == []


def test_topics_are_dropped_with_their_database(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    topics = [
        log_metastore.get_log(make(log_metastore, name=TableName("shop", name)).table_uuid).topic for name in ("a", "b")
    ]
    log_metastore.drop_database("shop", cascade=True)
    assert work_off(log_metastore) == 2
    assert [brokers.find(topic) for topic in topics] == [None, None]


def test_a_drop_waits_for_no_broker(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    log = log_metastore.get_log(make(log_metastore).table_uuid)
    brokers.is_away = True
    log_metastore.drop_table(NAME)
    assert work_off(log_metastore) == 0
    (left,) = list_unsettled(log_metastore)
    assert (left.life, left.problem) == (TopicLife.DROPPING, "No broker answers at kafka:9092.")
    # Another table of the name is none of its business.
    brokers.is_away = False
    other = log_metastore.get_log(make(log_metastore).table_uuid)
    assert other.topic != log.topic
    assert work_off(log_metastore) == 1
    assert brokers.find(log.topic) is None
    assert brokers.find(other.topic) is not None


@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_that_the_user_names_is_never_deleted(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, exists: bool
) -> None:
    if exists:
        brokers.make_topic("changes", 2)
    log = log_metastore.get_log(make(log_metastore, NAMED, keyed=False).table_uuid)
    assert (log.topic, log.is_named) == ("changes", True)
    log_metastore.drop_table(NAME)
    work_off(log_metastore)
    found = brokers.find("changes")
    assert found is not None
    assert found.topic_id == log.topic_id
    assert list_unsettled(log_metastore) == []


@pytest.mark.parametrize(
    ("settings", "options", "parts"),
    [
        ({}, {"bucket": "4"}, ["has 1 partitions and needs 4"]),
        ({"cleanup_policy": "compact"}, {"log.changelog-mode": "all"}, ["cleanup.policy is compact"]),
        ({"message_timestamp_type": "CreateTime"}, {}, ["must be LogAppendTime"]),
        ({"max_message_bytes": "1000"}, {}, ["max.message.bytes is 1000"]),
        ({"retention_ms": "1000"}, {"log.changelog-mode": "all", "log.retention": "1 d"}, ["retention.ms is 1000"]),
        ({"retention_bytes": "9"}, {"log.changelog-mode": "all", "log.retention": "1 d"}, ["retention.bytes is 9"]),
    ],
)
def test_a_topic_that_does_not_fit_is_refused(
    log_metastore: InProcessMetastore,
    brokers: FakeBrokers,
    settings: dict[str, str],
    options: dict[str, str],
    parts: list[str],
) -> None:
    mode = {} if "log.changelog-mode" in options else {"cleanup_policy": "compact", "min_compaction_lag_ms": "3600000"}
    brokers.make_topic("changes", 1, **mode, **settings)
    with pytest.raises(InvalidArgument, match="The topic changes cannot hold") as caught:
        make(log_metastore, {**NAMED, **options})
    for part in parts:
        assert part in caught.value.message
    assert brokers.find("changes") is not None
    check_nothing_is_left(log_metastore)


def test_a_topic_that_could_never_be_written_to_is_not_made(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    brokers.defaults["min.insync.replicas"] = "2"
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas is 2, but only 1 brokers"):
        make(log_metastore)
    assert brokers.cluster.find_topic("changes") is None
    with pytest.raises(InvalidArgument):
        make(log_metastore, NAMED)
    # We had made it a moment ago: no one else has it.
    assert brokers.find("changes") is None
    check_nothing_is_left(log_metastore)


@pytest.mark.parametrize("options", [{}, NAMED])
def test_no_table_is_made_where_no_broker_answers(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, options: dict[str, str]
) -> None:
    brokers.is_away = True
    with pytest.raises(Unavailable, match="No broker answers") as caught:
        make(log_metastore, options)
    assert caught.value.reason == "BROKERS_UNAVAILABLE"
    # Nothing waits for their return: they were asked for nothing.
    assert list_unsettled(log_metastore) == []
    brokers.is_away = False
    check_nothing_is_left(log_metastore)
    # The name is free.
    make(log_metastore)


def test_too_few_brokers_are_reported(log_metastore: InProcessMetastore) -> None:
    with pytest.raises(Unavailable, match="cannot hold 3 replicas"):
        make(log_metastore, {"log.system.replication": "3"})
    check_nothing_is_left(log_metastore)


def test_brokers_must_be_allowed(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    with pytest.raises(PermissionDenied, match="'kafka:9092,kafka:9093'") as caught:
        make(log_metastore, {"kafka.bootstrap.servers": "elsewhere:9092"})
    assert caught.value.reason == "BROKERS_NOT_ALLOWED"
    make(log_metastore, {"kafka.bootstrap.servers": "KAFKA:9093"})
    assert all("elsewhere" not in str(options) for options in brokers.requested)
    with pytest.raises(PermissionDenied, match="'elsewhere:1'"):
        log_metastore.alter_table(
            log_metastore.get_table(NAME).table_uuid,
            set_options={"kafka.bootstrap.servers": "elsewhere:1"},
            unset_options=[],
        )


def test_which_of_several_clusters_is_said() -> None:
    several = Brokers([("a:1",), ("b:1", "b:2")])
    with pytest.raises(InvalidArgument, match=r"There are 2 clusters.*'a:1' or 'b:1,b:2'"):
        several.resolve(LOG)
    assert several.resolve({**LOG, "kafka.bootstrap.servers": "b:2"})["kafka.bootstrap.servers"] == "b:2"
    with pytest.raises(PermissionDenied):
        several.resolve({**LOG, "kafka.bootstrap.servers": "a:1,b:1"})
    with pytest.raises(PermissionDenied, match="--kafka-brokers"):
        Brokers().resolve(LOG)
    assert Brokers().resolve({"bucket": "2"}) == {"bucket": "2"}


def test_no_topic_is_made_for_a_table_that_is_there(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(log_metastore)
    brokers.requested.clear()
    with pytest.raises(AlreadyExists):
        make(log_metastore)
    same, created = log_metastore.create_table(NAME, SCHEMA, primary_key=["id"], options=LOG, if_not_exists=True)
    assert (same.table_uuid, created) == (table.table_uuid, False)
    with pytest.raises(NotFound, match="Database 'nowhere'"):
        make(log_metastore, name=TableName("nowhere", "orders"))
    assert brokers.requested == []


def test_a_topic_holds_the_log_of_one_table(log_metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    make(log_metastore, NAMED)
    with pytest.raises(AlreadyExists, match=r"topic changes is the log of table shop\.orders already"):
        make(log_metastore, NAMED, name=TableName("shop", "other"))
    log_metastore.drop_table(NAME)
    # Then it is free.
    assert log_metastore.get_log(make(log_metastore, NAMED).table_uuid).generation == 1


def test_over_the_wire(migrated_url: str, brokers: FakeBrokers) -> None:
    """All of it by clients, with the steps as they run beside the requests."""

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, brokers=brokers.make())

    with serving(migrated_url, make_use_cases) as target:
        metastore = GrpcMetastore(target)
        metastore.create_database("shop")
        brokers.is_away = True
        began_s = time.monotonic()
        with pytest.raises(Unavailable, match="No broker answers"):
            make(metastore)
        # The metastore has waited for them: nobody asks it again and again.
        assert time.monotonic() - began_s < 10
        brokers.is_away = False
        table = make(metastore)
        log = metastore.get_log(table.table_uuid)
        assert isinstance(log, LogInfo)
        assert metastore.list_logs() == [log]
        assert metastore.restart_log(table.table_uuid) == replace(log, generation=2)
        metastore.drop_table(NAME)
        wait_until(lambda: brokers.find(log.topic) is None)
        metastore.close()
