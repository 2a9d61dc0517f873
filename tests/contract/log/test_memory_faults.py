"""What the log in memory can be made to do, and that the harm is there which the rules stand against."""

from __future__ import annotations

import pytest

from lakelog.errors import Fenced, InvalidArgument, NotFound, OutcomeUnknown, SnapshotExpired, Unavailable
from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.log.protocol import Log, LogProducer, LogReader
from lakelog.log.records import TailRecord, TopicSpec
from tests.contract.log.making import make_position, make_records, make_snapshot, publish, read_values

TOPIC = "t"


@pytest.fixture
def log(cluster: MemoryCluster) -> Log:
    log = MemoryLog(cluster)
    log.open_admin().create_topic(TopicSpec(TOPIC, 2))
    return log


@pytest.fixture
def producer(log: Log) -> LogProducer:
    producer = log.open_producer(TOPIC, "publisher", "position")
    producer.start()
    publish(producer, 1, make_records(0, ["a=1"]))
    return producer


@pytest.fixture
def reader(log: Log) -> LogReader:
    return log.open_reader(TOPIC)


@pytest.mark.parametrize("obeys", [True, False], ids=["fresh start", "control: goes on in doubt"])
def test_a_late_end_tears_the_next_transaction_only_where_somebody_goes_on_at_a_duplicate_risk(
    cluster: MemoryCluster, producer: LogProducer, reader: LogReader, obeys: bool
) -> None:
    cluster.script(Step.COMMIT, Fault.DOUBLED)
    publish(producer, 2, make_records(0, ["a=2"]))
    assert cluster.faults.done == [(Step.COMMIT, Fault.DOUBLED)]
    assert not producer.can_go_on
    if obeys:
        assert producer.start() == make_position(2)
    producer.begin()
    producer.send(make_records(0, ["a=3"]), make_snapshot(3))
    assert cluster.deliver_late() == (0 if obeys else 1)
    producer.send(make_records(1, ["b=3"], 1), make_snapshot(3))
    # Half of a snapshot is there, or none of it; and its position is not.
    assert read_values(reader, {0: 0, 1: 0}, 2 if obeys else 3)[0][-1] == ("a=2" if obeys else "a=3")
    assert producer.start() == make_position(2)


def test_a_lost_answer_of_a_commit_is_found_by_the_next_start(
    cluster: MemoryCluster, producer: LogProducer, reader: LogReader
) -> None:
    cluster.script(Step.COMMIT, Fault.LOST_ANSWER)
    with pytest.raises(OutcomeUnknown):
        publish(producer, 2, make_records(0, ["a=2"]))
    assert not producer.can_go_on
    assert producer.start() == make_position(2)
    assert read_values(reader, {0: 0}, 2) == {0: ["a=1", "a=2"]}


@pytest.mark.parametrize("in_time", [True, False])
def test_a_lost_commit_arrives_before_the_next_start_or_never(
    cluster: MemoryCluster, producer: LogProducer, in_time: bool
) -> None:
    cluster.script(Step.COMMIT, Fault.LOST_REQUEST)
    with pytest.raises(OutcomeUnknown):
        publish(producer, 2, make_records(0, ["a=2"]))
    if in_time:
        assert cluster.deliver_late() == 1
    assert producer.start() == make_position(2 if in_time else 1)
    assert cluster.deliver_late() == 0
    assert producer.start() == make_position(2 if in_time else 1)


def test_what_was_refused_is_not_there(cluster: MemoryCluster, producer: LogProducer, reader: LogReader) -> None:
    cluster.script(Step.COMMIT, Fault.REFUSED)
    with pytest.raises(Unavailable):
        publish(producer, 2, make_records(0, ["a=2"]))
    for step in (Step.START, Step.POSITION):
        cluster.script(step, Fault.REFUSED)
        with pytest.raises(Unavailable):
            producer.start()
    producer.start()
    cluster.script(Step.SEND, Fault.TOO_LARGE)
    with pytest.raises(InvalidArgument):
        publish(producer, 2, make_records(0, ["a=2"]))
    producer.start()
    cluster.script(Step.ABORT, Fault.LOST_ANSWER)
    producer.begin()
    producer.send(make_records(0, ["a=2"]), make_snapshot(2))
    with pytest.raises(Unavailable):
        producer.abort()
    assert producer.start() == make_position(1)
    cluster.script(Step.FETCH, Fault.REFUSED)
    reader.assign({0: 0})
    with pytest.raises(Unavailable):
        reader.fetch(1, 0)
    assert read_values(reader, {0: 0}, 1) == {0: ["a=1"]}


def test_a_forgotten_position_leaves_the_tail(cluster: MemoryCluster, producer: LogProducer, reader: LogReader) -> None:
    cluster.forget_positions("position")
    assert producer.start() is None
    assert reader.read_tail() == [TailRecord(0, 0, make_snapshot(1), 1)]


def test_an_open_transaction_expires(cluster: MemoryCluster, producer: LogProducer, reader: LogReader) -> None:
    producer.begin()
    producer.send(make_records(0, ["a=2"]), make_snapshot(2))
    assert reader.list_offsets() == (2, 0)
    cluster.expire_transactions()
    assert reader.list_offsets() == (4, 0)
    with pytest.raises(Fenced):
        producer.commit(make_position(2))


def test_a_topic_is_cut_and_recreated(
    cluster: MemoryCluster, log: Log, producer: LogProducer, reader: LogReader
) -> None:
    publish(producer, 2, make_records(0, ["a=2"]))
    reader.assign({0: 1})
    cluster.cut(TOPIC, {0: 2})
    with pytest.raises(SnapshotExpired) as caught:
        reader.fetch(1, 0)
    assert caught.value.reason == "LOG_TOO_SHORT"
    assert {key: caught.value.metadata[key] for key in ("offset", "earliest", "latest")} == {
        "offset": "1",
        "earliest": "2",
        "latest": "4",
    }
    assert reader.list_offsets(earliest=True) == reader.list_offsets(timestamp_ms=0) == (2, 0)
    cluster.cut(TOPIC, {0: 4})
    assert reader.read_tail() == []
    admin = log.open_admin()
    admin.delete_topic(TOPIC)
    with pytest.raises(NotFound):
        reader.fetch(1, 0)
    admin.create_topic(TopicSpec(TOPIC, 2))
    with pytest.raises(SnapshotExpired):
        reader.fetch(1, 0)
    assert producer.start() is None


def test_a_compacted_topic(cluster: MemoryCluster, producer: LogProducer, reader: LogReader) -> None:
    publish(producer, 2, make_records(0, ["b=2", "a=2", "b=3"]))
    publish(producer, 3, make_records(0, ["a=3", None]))
    producer.begin()
    producer.send(make_records(0, ["b=4"]), make_snapshot(4))
    cluster.compact(TOPIC)
    assert read_values(reader, {0: 0}, 3) == {0: ["b=3", "a=3", None]}
    assert read_values(reader, {0: 5}, 2) == {0: ["a=3", None]}
    assert reader.positions() == {0: 9}
    assert reader.read_tail() == [TailRecord(0, 7, make_snapshot(3), 2)]
