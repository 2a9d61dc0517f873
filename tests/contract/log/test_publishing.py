"""Transactions of any log: reliability R2 and R3."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakelog.errors import Fenced, InternalError, NotFound
from lakelog.log.protocol import Log, LogProducer, LogReader
from tests.contract.log.making import (
    await_equal,
    leave_open,
    make_position,
    make_records,
    make_snapshot,
    publish,
    read_values,
)

OpenProducer = Callable[[], LogProducer]


def test_records_and_position_are_committed_together(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    assert producer.start() is None
    assert producer.can_go_on
    assert publish(producer, 1, make_records(0, ["a=1", "b=1"]), make_records(1, ["c=1"], 2)) == {0: 2, 1: 1}
    # The end of the first transaction has an offset of its own.
    assert publish(producer, 2, make_records(0, ["a=2"])) == {0: 4}
    assert read_values(reader, {0: 0, 1: 0}, 4) == {0: ["a=1", "b=1", "a=2"], 1: ["c=1"]}
    assert open_producer().start() == make_position(2)


def test_several_snapshots_share_a_transaction(open_producer: OpenProducer) -> None:
    producer = open_producer()
    producer.start()
    producer.begin()
    producer.send(make_records(0, ["a=1"]), make_snapshot(1))
    producer.send(make_records(1, ["b=1"], 1), make_snapshot(1))
    producer.send(make_records(1, ["b=2"]), make_snapshot(2))
    producer.send(make_records(1, ["b=3"], 1), make_snapshot(2))
    producer.send(make_records(1, []), make_snapshot(3))
    assert producer.commit(make_position(3, 700)) == {1: {0: 1, 1: 1}, 2: {1: 3}}
    assert producer.start() == make_position(3, 700)


def test_a_position_goes_on_without_records(open_producer: OpenProducer) -> None:
    producer = open_producer()
    producer.start()
    assert publish(producer, 5) == {}
    assert producer.start() == make_position(5)


def test_a_producer_goes_on_where_nothing_was_sent_twice(open_producer: OpenProducer) -> None:
    producer = open_producer()
    producer.start()
    for number in range(1, 6):
        publish(producer, number, make_records(0, [f"a={number}"]), make_records(1, [f"b={number}"], 1))
        assert producer.can_go_on
    producer.begin()
    assert not producer.can_go_on
    producer.abort()
    assert producer.can_go_on


def test_aborted_records_are_never_shown(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    producer.abort()
    leave_open(producer, reader, 1, make_records(0, ["x=1"]))
    await_equal(reader.list_offsets, (0, 0))
    producer.abort()
    assert publish(producer, 1, make_records(0, ["a=1"])) == {0: 3}
    assert read_values(reader, {0: 0}, 1) == {0: ["a=1"]}


def test_a_newer_producer_fences_and_ends_what_was_open(open_producer: OpenProducer, reader: LogReader) -> None:
    old, new = open_producer(), open_producer()
    old.start()
    publish(old, 1, make_records(0, ["a=1"]))
    leave_open(old, reader, 2, make_records(0, ["x=2"]))
    assert new.start() == make_position(1)
    with pytest.raises(Fenced):
        old.commit(make_position(2))
    assert not old.can_go_on
    with pytest.raises(InternalError):
        old.begin()
    publish(new, 2, make_records(0, ["a=2"]))
    assert read_values(reader, {0: 0}, 2) == {0: ["a=1", "a=2"]}
    # Whoever was fenced reads again, and fences in turn.
    assert old.start() == make_position(2)
    with pytest.raises(Fenced):
        publish(new, 3, make_records(0, ["x=3"]))


def test_a_closed_producer_has_committed_nothing(open_producer: OpenProducer, reader: LogReader) -> None:
    producer = open_producer()
    producer.start()
    leave_open(producer, reader, 1, make_records(0, ["x=1"]))
    producer.close()
    producer.close()
    assert open_producer().start() is None
    await_equal(reader.read_tail, [])


def test_without_a_topic(log: Log, new_name: Callable[[], str]) -> None:
    name = new_name()
    producer = log.open_producer(name, f"{name}-publisher", f"{name}-position")
    with pytest.raises(NotFound):
        producer.start()
    producer.close()
    reader = log.open_reader(name)
    with pytest.raises(NotFound):
        reader.list_offsets()
    reader.close()
    sender = log.open_uncommitted_sender(name)
    with pytest.raises(NotFound):
        sender.send(make_records(0, ["a=1"]), "0" * 32)
    sender.close()
    admin = log.open_admin()
    assert admin.find_topic(name) is None
    admin.close()
