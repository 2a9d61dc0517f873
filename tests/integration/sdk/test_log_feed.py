"""How a subscription reads its table's log: snapshot by snapshot as they are published, in bounded memory."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lakelog.errors import SnapshotExpired, Unavailable
from lakelog.log.memory import MemoryLog
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords
from lakelog.reads.log import stall as log_stall
from lakelog.reads.log.changes import LogChanges
from lakelog.reads.log.sources import LOG_TOO_SHORT
from lakelog.reads.streams.log import table as log_table
from lakelog.reads.streams.log.feed import LogFeed
from lakelog.sdk.tables.table import Table
from tests.support.log.log_world import World, read_log, rows
from tests.support.log.logging_tables import HandPublisher, read_all
from writer.publishing.transactions import TransactionLimits

_ALL = {"scan.snapshot-id": "1"}


class Readers:
    """Knows which readers of the log are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = 0
        self.open: set[int] = set()
        real = MemoryLog.open_reader

        def open_reader(log: MemoryLog, topic: str) -> MemoryReader:
            reader = real(log, topic)
            self.opened += 1
            self.open.add(id(reader))
            # Kept by what closes it, so that its id is its own.
            monkeypatch.setattr(reader, "close", lambda: self.open.discard(id(reader)), raising=True)
            return reader

        monkeypatch.setattr(MemoryLog, "open_reader", open_reader)


@pytest.fixture
def readers(world: World, monkeypatch: pytest.MonkeyPatch) -> Readers:
    return Readers(monkeypatch)


def make_filled(world: World, commits: int = 4) -> Table:
    table, publisher = world.make(keyed=False)
    for number in range(commits):
        table.append(rows((number, number)))
    publisher.publish()
    return table


@pytest.mark.parametrize("until", [2, 4])
def test_a_subscription_that_is_closed_leaves_no_reader_open(world: World, readers: Readers, until: int) -> None:
    table = make_filled(world)
    publishing = readers.opened
    assert not readers.open, "those of the publisher"
    stream = table.subscribe(scan_mode="from-snapshot", options=_ALL)
    assert read_all(stream, until)
    assert readers.opened > publishing
    stream.close()
    assert not readers.open


def test_what_was_handed_out_in_part_is_found_again(world: World, readers: Readers) -> None:
    table = make_filled(world)
    snapshots = world.metastore.list_snapshots(table.uuid).snapshots
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    begun = feed.read(snapshots)
    first = [snapshot.snapshot_id for snapshot, _ in next(begun)]
    assert first[0] == 1
    begun.close()
    assert not readers.open
    again = [snapshot.snapshot_id for reported in feed.read(snapshots) for snapshot, _ in reported]
    assert again == [1, 2, 3, 4]
    feed.leave()
    assert not readers.open


def test_who_goes_back_is_given_the_same_again(world: World) -> None:
    table = make_filled(world)
    snapshots = world.metastore.list_snapshots(table.uuid).snapshots
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    for asked in (snapshots, snapshots[1:3], snapshots[3:], snapshots[:1]):
        assert [snapshot for reported in feed.read(asked) for snapshot, _ in reported] == list(asked)
    feed.leave()


def test_what_was_before_the_log_restarted_is_not_in_it(world: World, readers: Readers) -> None:
    table = make_filled(world)
    snapshots = world.metastore.list_snapshots(table.uuid).snapshots
    world.metastore.restart_log(table.uuid)
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    with pytest.raises(SnapshotExpired, match="begins behind snapshot 4") as caught:
        next(feed.read(snapshots))
    assert caught.value.reason == LOG_TOO_SHORT
    assert not readers.open


def test_a_log_whose_first_records_are_gone_hands_out_no_part_of_them(world: World, readers: Readers) -> None:
    table = make_filled(world)
    snapshots = world.metastore.list_snapshots(table.uuid).snapshots
    world.cluster.cut(world.metastore.get_log(table.uuid).topic, {0: 1})
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    with pytest.raises(SnapshotExpired, match="begins at offset 1, and snapshot 1 may begin at 0") as caught:
        next(feed.read(snapshots))
    assert caught.value.reason == LOG_TOO_SHORT
    assert not readers.open


def make_slowly_published(world: World) -> tuple[Table, HandPublisher]:
    """A table with three snapshots, and who publishes each of them by itself."""
    table = world.make_unpublished()
    for number in range(3):
        table.append(rows((number, number)))
    limits = TransactionLimits(snapshots=1)
    return table, HandPublisher(world.metastore, world.cluster, table, limits=limits)


def test_rows_do_not_wait_for_all_that_is_asked_for_to_be_published(world: World) -> None:
    table, publisher = make_slowly_published(world)
    with table.subscribe(scan_mode="from-snapshot", options=_ALL) as stream:
        found = []
        for number in range(1, 4):
            publisher.publish(until=number)
            while (batch := stream.read(0.5)) is not None:
                found.append((number, batch.snapshot_id))
        # That a commit ends with a batch is known once there is one behind it.
        assert found == [(2, 1), (3, 2), (3, 3)]
    publisher.close()


def test_a_slow_reader_is_not_warned_of_a_publisher_that_stands_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publisher = make_slowly_published(world)
    publisher.publish(until=1)
    busy_s = 0.0
    monkeypatch.setattr(log_stall, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + busy_s))
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    with closing(feed.read(world.metastore.list_snapshots(table.uuid).snapshots)) as reported:
        assert [snapshot.snapshot_id for snapshot, _ in next(reported)] == [1]
        busy_s = 60.0
        # The next ones come a moment after they are asked for.
        soon = threading.Timer(0.1, publisher.publish, [3])
        soon.start()
        try:
            assert [snapshot.snapshot_id for each in reported for snapshot, _ in each] == [2, 3]
        finally:
            soon.join()
    publisher.close()
    feed.leave()


def test_a_partition_that_stands_still_is_given_up_however_much_comes_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publisher = world.make(bucket="2")
    table.upsert(rows(*((number, number) for number in range(10))))
    publisher.publish()
    records = read_log(world, table)
    of_others = json.loads(records.keys.filter(pa.array(records.partitions == 1))[0].as_py())["k"]
    wanted = world.metastore.list_snapshots(table.uuid).snapshots
    real, waited_s = MemoryReader.fetch, 0.0

    def fetch(self: MemoryReader, max_records: int, timeout_s: float) -> FetchedRecords:
        nonlocal waited_s
        waited_s += 4.0
        assert waited_s < 60.0
        table.upsert(rows((of_others, 1)))
        publisher.publish()
        assert self._positions is not None
        still = self._positions.pop(0)
        try:
            return real(self, max_records, timeout_s)
        finally:
            self._positions[0] = still

    monkeypatch.setattr(MemoryReader, "fetch", fetch)
    monkeypatch.setattr(log_stall, "time", SimpleNamespace(monotonic=lambda: waited_s))
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    with pytest.raises(Unavailable, match="Snapshot 1 is not in the log"):
        list(feed.read(wanted))
    feed.leave()


def test_a_snapshot_that_is_too_large_for_memory_is_read_from_files(
    world: World, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_table, "EMITTED_ROWS", 10)
    monkeypatch.setattr(log_table, "_WORTH_SEEKING_ROWS", 10)
    reported: list[int] = []
    real = LogChanges.show

    def show(self: LogChanges, records: object, *, topic: str) -> object:
        reported.append(len(records))  # type: ignore[arg-type]
        return real(self, records, topic=topic)  # type: ignore[arg-type]

    monkeypatch.setattr(LogChanges, "show", show)
    table, publisher = world.make(keyed=False)
    counts = [3, 30, 10]
    for count in counts:
        table.append(rows(*((number, number) for number in range(count))))
    publisher.publish()
    before = readers.opened
    with table.subscribe(scan_mode="from-snapshot", options=_ALL) as stream:
        found = read_all(stream, 3)
    assert [(batch.snapshot_id, batch.data.num_rows) for batch in found] == [(1, 3), (2, 30), (3, 10)]
    assert reported == [3, 10]
    # Its records are not fetched either.
    assert readers.opened == before + 2


def test_what_is_not_wanted_is_not_fetched_because_it_is_still_being_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []
    real = MemoryReader.fetch

    def fetch(self: MemoryReader, max_records: int, timeout_s: float) -> FetchedRecords:
        records = real(self, max_records, timeout_s)
        fetched.extend(records.snapshot_ids.to_pylist())
        return records

    table = world.make_unpublished()
    table.append(rows(*((number, number) for number in range(50))))
    table.append(rows((1, 1)))
    publisher = HandPublisher(world.metastore, world.cluster, table, limits=TransactionLimits(snapshots=1))
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    wanted = world.metastore.list_snapshots(table.uuid).snapshots[1:]
    soon = threading.Timer(0.3, publisher.publish, [2])
    soon.start()
    monkeypatch.setattr(MemoryReader, "fetch", fetch)
    try:
        reported = [(snapshot.snapshot_id, len(records)) for each in feed.read(wanted) for snapshot, records in each]
    finally:
        soon.join()
    assert reported == [(2, 1)]
    assert 1 not in fetched
    publisher.close()
    feed.leave()


def test_who_waits_for_what_stands_in_front_gives_up_and_receives_that_it_is_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.make_unpublished()
    for number in range(2):
        table.append(rows((number, number)))
    wanted = world.metastore.list_snapshots(table.uuid).snapshots[1:]
    feed = LogFeed(world.metastore, table.uuid, world.catalog.context.open_log)
    monkeypatch.setattr(log_stall, "STALL_S", 0.1)
    with pytest.raises(Unavailable) as caught:
        list(feed.read(wanted))
    assert caught.value.reason == "LOG_BEHIND"
    feed.close()
    with pytest.raises(Unavailable, match="the subscription was closed"):
        list(feed.read(wanted))


def test_partitions_that_were_added_are_read_from_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make(keyed=False, **{"log.system.partitions": "1"})
    table.append(rows((1, 1)))
    publisher.publish()
    with table.subscribe(scan_mode="from-snapshot", options=_ALL) as stream:
        assert read_all(stream, 1)
        monkeypatch.setattr("lakelog.reads.streams.table.plan_changes", None)
        table.alter(set={"log.system.partitions": "3"})
        publisher.publisher.see(world.metastore.get_log(table.uuid))
        for number in range(2, 6):
            table.append(rows((number, number)))
        publisher.publish()
        assert {int(each) for each in read_log(world, table).partitions} == {0, 1, 2}
        assert [batch.snapshot_id for batch in read_all(stream, 5)] == [2, 3, 4, 5]
