"""Reading the end of a log, and hearing of it and of snapshots in one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import WatchEvent
from lakelog.errors import NotFound, Unavailable
from lakelog.format.log.state import LogInfo, SnapshotOffsets
from lakelog.format.tables.table import TableName
from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.log.records import EncodedRecords, TopicSpec
from lakelog.reads.streams.log import tail as log_tail
from lakelog.reads.streams.log.tail import Arrived, LogTail
from lakelog.reads.streams.uncommitted.events import END, UncommittedEvents

ATTEMPT = "a" * 32


class Logs:
    """What the metastore says of a log."""

    def __init__(self) -> None:
        self.info = LogInfo("t", TableName("shop", "orders"), "topic", "", 1, 0, is_named=False)
        self.known: SnapshotOffsets | None = None

    def get_log(self, table_uuid: str) -> LogInfo:
        return self.info

    def find_log_offsets(self, table_uuid: str) -> SnapshotOffsets | None:
        return self.known


class World:
    """A topic, its tail that is followed in a thread, and what has arrived."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.admin = MemoryLog(self.cluster).open_admin()
        self.admin.create_topic(TopicSpec("topic", 1))
        self.logs = Logs()
        self.indexes: list[int] = []
        self.then: Callable[[], None] = lambda: None
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._sent = 0
        tail = LogTail(self.logs, "t", "shop.orders", lambda _: MemoryLog(self.cluster), requires_log=False)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=tail.run, args=(self._put, self._closed), daemon=True)

    def send(self, partition: int = 0, topic: str = "topic") -> None:
        values = pa.array([b"{}"], pa.binary())
        records = EncodedRecords(partition, None, values, np.zeros(1, np.int8), np.array([self._sent]))
        self._sent += 1
        MemoryLog(self.cluster).open_uncommitted_sender(topic).send(records, ATTEMPT)

    def _put(self, arrived: Arrived) -> None:
        with self._changed:
            self.indexes += arrived.records.indexes.to_pylist()
            then, self.then = self.then, lambda: None
            then()
            self._changed.notify_all()

    def follow(self) -> None:
        self._thread.start()

    def wait_for(self, *indexes: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.indexes == list(indexes), 10), self.indexes

    def close(self) -> None:
        self._closed.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(log_tail, "_FETCH_S", 0.01)
    monkeypatch.setattr(log_tail, "_POLL_S", 0.05)
    monkeypatch.setattr(log_tail, "_REST_S", 0.05)
    found = World()
    yield found
    found.close()


def test_it_begins_after_the_newest_snapshot_that_is_in_the_log(world: World) -> None:
    for _ in range(3):
        world.send()
    world.logs.known = SnapshotOffsets(1, "u", (2,))
    world.follow()
    world.wait_for(2)
    world.send()
    world.wait_for(2, 3)


def test_it_begins_at_the_beginning_where_nothing_is_known(world: World) -> None:
    world.send()
    world.cluster.cut("topic", {0: 1})
    world.send()
    world.follow()
    world.wait_for(1)


def test_it_begins_at_the_end_where_what_is_known_lies_before(world: World) -> None:
    world.send()
    world.logs.known = SnapshotOffsets(9, "u", (1 << 40,))
    world.follow()
    deadline_s = time.monotonic() + 10
    while not world.indexes:
        # Until it has begun.
        world.send()
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert world.indexes[0] > 0


def test_brokers_that_were_away_are_read_on_where_it_stood(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.send()
    world.follow()
    world.wait_for(0)
    for _ in range(3):
        world.cluster.script(Step.FETCH, Fault.REFUSED)
    while len(world.cluster.faults.done) < 3:
        threading.Event().wait(0.01)
    world.send()
    world.wait_for(0, 1)
    assert caplog.text.count("shop.orders: rows come with their commits for a while") == 1, "the same is said once"
    world.cluster.script(Step.FETCH, Fault.REFUSED)
    while len(world.cluster.faults.done) < 4:
        threading.Event().wait(0.01)
    world.send()
    world.wait_for(0, 1, 2)
    assert caplog.text.count("rows come with their commits for a while") == 2, "and again once they were there again"


def test_a_log_that_was_cut_is_read_on_after_it(world: World) -> None:
    world.send()
    world.follow()
    world.wait_for(0)
    world.cluster.script(Step.FETCH, Fault.REFUSED)
    world.send()
    world.cluster.cut("topic", {0: 2})
    world.send()
    with world._changed:
        assert world._changed.wait_for(lambda: 2 in world.indexes, 10)


def test_a_log_that_was_cut_under_its_reader_goes_on_after_the_newest_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who looks anew meanwhile finds the cut before he reads there.
    monkeypatch.setattr(log_tail, "_POLL_S", 60.0)

    def cut() -> None:
        for _ in range(4):
            world.send()
        world.cluster.cut("topic", {0: 3})
        world.logs.known = SnapshotOffsets(1, "u", (4,))

    world.send()
    world.then = cut
    world.follow()
    world.wait_for(0, 4)


def test_a_topic_that_was_recreated_is_read_from_its_beginning(world: World) -> None:
    def recreate() -> None:
        world.admin.delete_topic("topic")
        world.admin.create_topic(TopicSpec("topic", 1))
        world.logs.info = replace(world.logs.info, topic_id="another", generation=2)
        for _ in range(2):
            world.send()

    for _ in range(2):
        world.send()
    world.then = recreate
    world.follow()
    world.wait_for(0, 1, 2, 3)


def test_more_partitions_and_another_topic_are_noticed(world: World) -> None:
    world.send()
    world.follow()
    world.wait_for(0)
    world.admin.add_partitions("topic", 2)
    world.send(partition=1)
    world.wait_for(0, 1)
    world.admin.create_topic(TopicSpec("other", 1))
    world.send(topic="other")
    world.logs.info = LogInfo("t", TableName("shop", "orders"), "other", "", 2, 0, is_named=False)
    world.wait_for(0, 1, 2)


class ScriptedWatch:
    """Tells of some snapshots, then waits until it is closed; or fails."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self._count = count
        self._failure = failure
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[WatchEvent]:
        for number in range(self._count):
            yield WatchEvent(str(number), ())
        if self._failure is not None:
            raise self._failure
        self._closed.wait(10)

    def close(self) -> None:
        self._closed.set()


class ScriptedTail:
    """Brings records as fast as they are taken; or fails."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self._count = count
        self._failure = failure

    def run(self, put: Any, closed: threading.Event) -> None:
        for number in range(self._count):
            put(Arrived(None, "topic", {0: number}))  # type: ignore[arg-type]
        if self._failure is not None:
            raise self._failure


def test_snapshots_and_records_take_turns() -> None:
    with UncommittedEvents(ScriptedWatch(20), ScriptedTail(20)) as events:  # type: ignore[arg-type]
        taken = []
        for _ in range(40):
            event = events.take(10)
            taken.append(isinstance(event, Arrived))
            threading.Event().wait(0.005)
        assert events.positions == {0: 19}
        assert sum(taken) == 20
        assert any(taken[:4])
        assert not all(taken[:4])
        assert events.take(0.01) is None


def test_records_may_be_taken_first() -> None:
    with UncommittedEvents(ScriptedWatch(1), ScriptedTail(1)) as events:  # type: ignore[arg-type]
        assert events.take_arrived(10) is not None
        assert events.take_arrived(0.01) is None
        assert isinstance(events.take(10), WatchEvent)


@pytest.mark.parametrize("of_watch", [True, False])
def test_what_ends_one_of_them_is_raised_after_what_came(of_watch: bool) -> None:
    error = NotFound("Dropped.") if of_watch else Unavailable("Away.")
    watch = ScriptedWatch(1, error if of_watch else None)
    with UncommittedEvents(watch, ScriptedTail(0, None if of_watch else error)) as events:  # type: ignore[arg-type]
        assert isinstance(events.take(10), WatchEvent)
        with pytest.raises(type(error)):
            events.take(10)


def test_a_watch_that_is_closed_ends_them() -> None:
    watch = ScriptedWatch(0)
    with UncommittedEvents(watch, ScriptedTail(0)) as events:  # type: ignore[arg-type]
        watch.close()
        assert events.take(10) is END
