"""Topics of tables' logs: made, dropped, restored and begun anew with their tables, and never left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from lakelog.client.grpc_metastore import GrpcMetastore
from lakelog.client.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.errors import AlreadyExists, CommitConflict, InvalidArgument, NotFound, PermissionDenied, Unavailable
from lakelog.format.log_state import LogInfo
from lakelog.format.table import TableInfo, TableName
from metastore import log_topics
from metastore.brokers import Brokers
from metastore.inprocess import InProcessMetastore
from metastore.log_store import LogTopic, TopicLife
from metastore.memory import MemoryStore
from metastore.postgres import migrate
from metastore.service import MetastoreService
from metastore.store import Store, Transaction, run_transaction
from metastore.topic_work import make_topic

from .conftest import WAREHOUSE, open_in_process
from .log_brokers import LOG, FakeBrokers
from .making import SCHEMA, append
from .serving import serving

NAME = TableName("shop", "orders")
NAMED = {"kafka.topic": "changes"}


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest, brokers: FakeBrokers) -> Iterator[InProcessMetastore]:
    def make_service(store: Store) -> MetastoreService:
        return MetastoreService(store, WAREHOUSE, brokers=brokers.make())

    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    if request.param == "memory":
        opened = InProcessMetastore(open_store, make_service)
    else:
        opened = open_in_process(request.getfixturevalue("migrated_url"), make_service=make_service)
    try:
        # Tests alone say when its steps are done.
        opened.stop_background()
        opened.create_database("shop")
        yield opened
    finally:
        opened.close()


def make(
    metastore: Metastore, options: Mapping[str, str] | None = None, *, name: TableName = NAME, keyed: bool = True
) -> TableInfo:
    key = ["id"] if keyed else []
    return metastore.create_table(name, SCHEMA, primary_key=key, options={**LOG, **(options or {})})[0]


def work_off(metastore: InProcessMetastore) -> int:
    return metastore.run(metastore.service.log_topics.work_off())


def list_unsettled(metastore: InProcessMetastore) -> list[LogTopic]:
    async def find(tx: Transaction) -> list[LogTopic]:
        return await tx.list_unsettled_topics(0, 100)

    return metastore.run(run_transaction(metastore.store, find))


def put(metastore: InProcessMetastore, topic: LogTopic) -> None:
    async def write(tx: Transaction) -> None:
        await tx.put_log_topic(topic)

    metastore.run(run_transaction(metastore.store, write))


def check_nothing_is_left(metastore: InProcessMetastore, name: TableName = NAME) -> None:
    work_off(metastore)
    assert list_unsettled(metastore) == []
    assert metastore.list_logs() == []
    with pytest.raises(NotFound):
        metastore.get_table(name)


def test_a_topic_is_made_with_its_table(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore, {"bucket": "4", "log.retention": "1 d"})
    log = metastore.get_log(table.table_uuid)
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
    assert metastore.list_logs() == [log]
    assert list_unsettled(metastore) == []


def test_a_table_without_a_log_has_none(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table, _ = metastore.create_table(NAME, SCHEMA, primary_key=["id"])
    with pytest.raises(NotFound, match=r"shop\.orders has no log"):
        metastore.get_log(table.table_uuid)
    with pytest.raises(NotFound, match=r"shop\.orders has no log"):
        metastore.restart_log(table.table_uuid)
    assert metastore.list_logs() == []
    assert brokers.asked == []


def test_a_topic_is_dropped_with_its_table(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    log = metastore.get_log(make(metastore).table_uuid)
    metastore.drop_table(NAME)
    assert metastore.list_logs() == []
    with pytest.raises(NotFound):
        metastore.get_log(log.table_uuid)
    assert work_off(metastore) == 1
    assert brokers.find(log.topic) is None
    assert list_unsettled(metastore) == []


def test_topics_are_dropped_with_their_database(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    topics = [metastore.get_log(make(metastore, name=TableName("shop", name)).table_uuid).topic for name in ("a", "b")]
    metastore.drop_database("shop", cascade=True)
    assert work_off(metastore) == 2
    assert [brokers.find(topic) for topic in topics] == [None, None]


def test_a_drop_waits_for_no_broker(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    log = metastore.get_log(make(metastore).table_uuid)
    brokers.is_away = True
    metastore.drop_table(NAME)
    assert work_off(metastore) == 0
    (left,) = list_unsettled(metastore)
    assert (left.life, left.problem) == (TopicLife.DROPPING, "No broker answers at kafka:9092.")
    # Another table of the name is none of its business.
    brokers.is_away = False
    other = metastore.get_log(make(metastore).table_uuid)
    assert other.topic != log.topic
    assert work_off(metastore) == 1
    assert brokers.find(log.topic) is None
    assert brokers.find(other.topic) is not None


@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_that_the_user_names_is_never_deleted(
    metastore: InProcessMetastore, brokers: FakeBrokers, exists: bool
) -> None:
    if exists:
        brokers.make_topic("changes", 2)
    log = metastore.get_log(make(metastore, NAMED, keyed=False).table_uuid)
    assert (log.topic, log.is_named) == ("changes", True)
    metastore.drop_table(NAME)
    work_off(metastore)
    found = brokers.find("changes")
    assert found is not None
    assert found.topic_id == log.topic_id
    assert list_unsettled(metastore) == []


@pytest.mark.parametrize(
    ("settings", "options", "parts"),
    [
        ({}, {"bucket": "4"}, ["has 1 partitions and needs 4"]),
        ({"cleanup_policy": "compact"}, {"log.changelog-mode": "all"}, ["cleanup.policy is compact"]),
        ({"message_timestamp_type": "CreateTime"}, {}, ["must be LogAppendTime"]),
        ({"max_message_bytes": "1000"}, {}, ["max.message.bytes is 1000"]),
        ({"retention_ms": "1000"}, {"log.changelog-mode": "all", "log.retention": "1 d"}, ["retention.ms is 1000"]),
    ],
)
def test_a_topic_that_does_not_fit_is_refused(
    metastore: InProcessMetastore,
    brokers: FakeBrokers,
    settings: dict[str, str],
    options: dict[str, str],
    parts: list[str],
) -> None:
    mode = {} if "log.changelog-mode" in options else {"cleanup_policy": "compact"}
    brokers.make_topic("changes", 1, **mode, **settings)
    with pytest.raises(InvalidArgument, match="The topic changes cannot hold") as caught:
        make(metastore, {**NAMED, **options})
    for part in parts:
        assert part in caught.value.message
    assert brokers.find("changes") is not None
    check_nothing_is_left(metastore)


def test_a_topic_that_could_never_be_written_to_is_not_made(
    metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    brokers.defaults["min.insync.replicas"] = "2"
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas is 2, but only 1 brokers"):
        make(metastore)
    assert brokers.cluster.find_topic("changes") is None
    with pytest.raises(InvalidArgument):
        make(metastore, NAMED)
    # We had made it a moment ago: no one else has it.
    assert brokers.find("changes") is None
    check_nothing_is_left(metastore)


@pytest.mark.parametrize("options", [{}, NAMED])
def test_no_table_is_made_where_no_broker_answers(
    metastore: InProcessMetastore, brokers: FakeBrokers, options: dict[str, str]
) -> None:
    brokers.is_away = True
    with pytest.raises(Unavailable, match="No broker answers") as caught:
        make(metastore, options)
    assert caught.value.reason == "BROKERS_UNAVAILABLE"
    brokers.is_away = False
    check_nothing_is_left(metastore)
    # The name is free.
    make(metastore)


def test_too_few_brokers_are_told(metastore: InProcessMetastore) -> None:
    with pytest.raises(Unavailable, match="cannot hold 3 replicas"):
        make(metastore, {"log.system.replication": "3"})
    check_nothing_is_left(metastore)


def test_brokers_must_be_allowed(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    with pytest.raises(PermissionDenied, match="'kafka:9092,kafka:9093'") as caught:
        make(metastore, {"kafka.bootstrap.servers": "elsewhere:9092"})
    assert caught.value.reason == "BROKERS_NOT_ALLOWED"
    make(metastore, {"kafka.bootstrap.servers": "KAFKA:9093"})
    assert all("elsewhere" not in str(options) for options in brokers.asked)
    with pytest.raises(PermissionDenied, match="'elsewhere:1'"):
        metastore.alter_table(
            metastore.get_table(NAME).table_uuid,
            set_options={"kafka.bootstrap.servers": "elsewhere:1"},
            unset_options=[],
        )


def test_which_of_several_clusters_is_said() -> None:
    several = Brokers([("a:1",), ("b:1", "b:2")])
    with pytest.raises(InvalidArgument, match=r"There are 2 clusters.*'a:1' or 'b:1,b:2'"):
        several.settle(LOG)
    assert several.settle({**LOG, "kafka.bootstrap.servers": "b:2"})["kafka.bootstrap.servers"] == "b:2"
    with pytest.raises(PermissionDenied):
        several.settle({**LOG, "kafka.bootstrap.servers": "a:1,b:1"})
    with pytest.raises(PermissionDenied, match="--kafka-brokers"):
        Brokers().settle(LOG)
    assert Brokers().settle({"bucket": "2"}) == {"bucket": "2"}


def test_no_topic_is_made_for_a_table_that_is_there(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore)
    brokers.asked.clear()
    with pytest.raises(AlreadyExists):
        make(metastore)
    same, created = metastore.create_table(NAME, SCHEMA, primary_key=["id"], options=LOG, if_not_exists=True)
    assert (same.table_uuid, created) == (table.table_uuid, False)
    with pytest.raises(NotFound, match="Database 'nowhere'"):
        make(metastore, name=TableName("nowhere", "orders"))
    assert brokers.asked == []


def test_a_topic_holds_the_log_of_one_table(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    make(metastore, NAMED)
    with pytest.raises(AlreadyExists, match=r"topic changes is the log of table shop\.orders already"):
        make(metastore, NAMED, name=TableName("shop", "other"))
    metastore.drop_table(NAME)
    # Then it is free.
    assert metastore.get_log(make(metastore, NAMED).table_uuid).generation == 1


def test_a_restored_table_begins_a_log_of_its_own(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore, {"bucket": "4"})
    first = metastore.get_log(table.table_uuid)
    append(metastore, table, identifier=1)
    metastore.drop_table(NAME)
    brokers.is_away = True
    metastore.restore_table(NAME)
    waiting = metastore.get_log(table.table_uuid)
    assert (waiting.generation, waiting.starts_after, waiting.topic_id) == (2, 1, "")
    assert "is not made yet" in waiting.problem
    assert work_off(metastore) == 0
    assert "No broker answers" in metastore.get_log(table.table_uuid).problem
    brokers.is_away = False
    assert work_off(metastore) == 2
    log = metastore.get_log(table.table_uuid)
    assert (log.topic, log.problem) == (f"{first.topic}_2", "")
    made = brokers.find(log.topic)
    assert made is not None
    assert made.topic_id == log.topic_id
    assert brokers.find(first.topic) is None
    metastore.drop_table(NAME)
    work_off(metastore)
    metastore.restore_table(NAME)
    assert metastore.get_log(table.table_uuid).generation == 3
    assert len(metastore.list_logs()) == 1


def test_a_restored_table_has_its_named_topic_again(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore, NAMED)
    before = metastore.get_log(table.table_uuid)
    metastore.drop_table(NAME)
    metastore.restore_table(NAME)
    work_off(metastore)
    log = metastore.get_log(table.table_uuid)
    assert (log.generation, log.topic, log.topic_id) == (2, "changes", before.topic_id)


def test_a_topic_follows_the_options(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore, keyed=False)
    log = metastore.get_log(table.table_uuid)
    set_options = {"log.retention": "2 d", "log.system.partitions": "6", "log.max-record-size": "2 mb"}
    metastore.alter_table(table.table_uuid, set_options=set_options, unset_options=[])
    topic = brokers.find(log.topic)
    assert topic is not None
    assert (topic.partitions, topic.settings["retention.ms"]) == (6, "172800000")
    assert topic.settings["max.message.bytes"] == str((2 << 20) + 512)
    assert metastore.get_log(table.table_uuid).options["log.retention"] == "2 d"
    # Records that are on their way may be as large as before.
    metastore.alter_table(
        table.table_uuid, set_options={"log.max-record-size": "1 mb"}, unset_options=["log.retention"]
    )
    assert brokers.settings(log.topic)["max.message.bytes"] == str((2 << 20) + 512)
    assert brokers.settings(log.topic)["retention.ms"] == "604800000"


def test_options_stay_where_the_topic_does_not_follow(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore, keyed=False)
    log = metastore.get_log(table.table_uuid)

    def alter() -> None:
        metastore.alter_table(table.table_uuid, set_options={"log.retention": "2 d"}, unset_options=[])

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
    assert metastore.get_table(NAME).options == table.options
    assert metastore.get_log(table.table_uuid) == log


def test_other_options_ask_no_broker(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore)
    brokers.is_away = True
    metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[])
    assert metastore.get_table(NAME).options["write-only"] == "true"


def test_brokers_with_another_topic_are_told(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore)
    log = metastore.get_log(table.table_uuid)
    brokers.cluster.delete_topic(log.topic)
    brokers.make_topic(log.topic, cleanup_policy="compact")
    metastore.alter_table(table.table_uuid, set_options={"kafka.bootstrap.servers": "kafka:9093"}, unset_options=[])
    assert "lakelog log restart" in metastore.get_log(table.table_uuid).problem
    assert metastore.restart_log(table.table_uuid).problem == ""


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_log_begins_anew(metastore: InProcessMetastore, brokers: FakeBrokers, is_gone: bool) -> None:
    table = make(metastore, {"bucket": "2"})
    before = metastore.get_log(table.table_uuid)
    append(metastore, table, identifier=1)
    if is_gone:
        brokers.cluster.delete_topic(before.topic)
    log = metastore.restart_log(table.table_uuid)
    assert log == metastore.get_log(table.table_uuid)
    assert (log.topic, log.generation, log.starts_after) == (before.topic, 2, 1)
    found = brokers.find(log.topic)
    assert found is not None
    assert found.topic_id == log.topic_id
    assert (log.topic_id != before.topic_id) is is_gone
    assert metastore.list_logs() == [log]


def test_a_log_begins_anew_in_a_topic_that_fits(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    table = make(metastore)
    log = metastore.get_log(table.table_uuid)
    brokers.settings(log.topic)["max.message.bytes"] = "1"
    with pytest.raises(InvalidArgument, match=r"max\.message\.bytes"):
        metastore.restart_log(table.table_uuid)
    brokers.is_away = True
    with pytest.raises(Unavailable):
        metastore.restart_log(table.table_uuid)
    assert metastore.get_log(table.table_uuid) == log


def make_left(brokers: FakeBrokers, *, is_named: bool) -> LogTopic:
    """What a metastore leaves that dies before it makes the table."""
    brokers.make_topic("left")
    uuid = "0" * 31 + ("1" if is_named else "2")
    return LogTopic(uuid, 1, "left", "", 0, is_named, TopicLife.CREATING, brokers_options())


def brokers_options() -> dict[str, str]:
    return {**LOG, "kafka.bootstrap.servers": "kafka:9092"}


@pytest.mark.parametrize("is_named", [False, True])
def test_what_the_dead_have_left_is_dropped(
    metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    put(metastore, make_left(brokers, is_named=is_named))
    # It may still be at work.
    assert work_off(metastore) == 0
    monkeypatch.setattr(log_topics, "ABANDONED_MS", 0)
    assert work_off(metastore) == 1
    assert (brokers.find("left") is not None) is is_named
    check_nothing_is_left(metastore)


def test_a_topic_that_was_given_up_makes_no_table(
    metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was slow finds its topic dropped: its table is not made."""
    monkeypatch.setattr(log_topics, "ABANDONED_MS", 0)

    def slow(*args: object, **kwargs: object) -> object:
        state = make_topic(*args, **kwargs)  # type: ignore[arg-type]
        metastore.run(metastore.service.log_topics.work_off())
        return state

    monkeypatch.setattr("metastore.log_topics.make_topic", slow)
    with pytest.raises(Unavailable, match="was given up"):
        make(metastore)
    monkeypatch.setattr("metastore.log_topics.make_topic", make_topic)
    check_nothing_is_left(metastore)


def test_a_topic_whose_table_was_made_meanwhile_stays(
    metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(metastore)
    log = metastore.get_log(table.table_uuid)
    left = LogTopic(table.table_uuid, 1, log.topic, "", 0, False, TopicLife.CREATING, brokers_options())
    # As it was listed before the table was made.
    metastore.run(metastore.service.log_topics._work_off(left))
    assert brokers.find(log.topic) is not None
    assert metastore.get_log(table.table_uuid) == log


def test_what_is_known_of_a_purged_tables_log_is_forgotten(metastore: InProcessMetastore, brokers: FakeBrokers) -> None:
    gone = replace(make_left(brokers, is_named=True), life=TopicLife.GONE)
    put(metastore, gone)
    assert work_off(metastore) == 1
    check_nothing_is_left(metastore)


def test_a_log_is_begun_anew_once(
    metastore: InProcessMetastore, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(metastore)

    def overtaken(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr("metastore.log_topics.make_topic", make_topic)
        metastore.run(metastore.service.restart_log(table.table_uuid))
        return make_topic(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("metastore.log_topics.make_topic", overtaken)
    with pytest.raises(CommitConflict, match="begun anew by another"):
        metastore.restart_log(table.table_uuid)
    assert metastore.get_log(table.table_uuid).generation == 2


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_over_the_wire(postgres_url: str, brokers: FakeBrokers) -> None:
    """All of it by clients, with the steps as they run beside the requests."""
    migrate(postgres_url)

    def make_service(store: Store) -> MetastoreService:
        return MetastoreService(store, WAREHOUSE, brokers=brokers.make())

    with serving(postgres_url, make_service) as target:
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
