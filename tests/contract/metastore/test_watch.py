"""Being told of snapshots: caught up from any position, then at once, none left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from lakelog.client.metastore.metastore import Metastore, Watch, WatchEvent, WatchPosition
from lakelog.errors import HistoryDiverged, NotFound
from tests.support.metastore.making import empty, make_table


def ids(events: Iterator[WatchEvent], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [snapshot.snapshot_id for snapshot in next(events).snapshots]
    return found


def close_soon(watch: Watch, seconds: float) -> None:
    timer = threading.Timer(seconds, watch.close)
    timer.daemon = True
    timer.start()


def test_a_watch_catches_up_and_goes_on(metastore: Metastore) -> None:
    table = make_table(metastore)
    for n in range(5):
        metastore.commit(empty(table, n))
    watch = metastore.watch([WatchPosition(table.table_uuid, 2)])
    events = iter(watch)
    assert ids(events, 3) == [3, 4, 5]
    metastore.commit(empty(table, 5))
    metastore.commit(empty(table, 6))
    assert ids(events, 2) == [6, 7]
    watch.close()
    watch.close()
    assert list(events) == []


def test_more_snapshots_than_one_event_holds(metastore: Metastore) -> None:
    table = make_table(metastore)
    pipeline = metastore.open_commit_pipeline()
    futures = [pipeline.submit(empty(table, n)) for n in range(2500)]
    pipeline.close()
    assert [future.result().results[0].snapshot_id for future in futures] == list(range(1, 2501))
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)])
    assert ids(iter(watch), 2500) == list(range(1, 2501))
    watch.close()


def test_pushed_snapshots_are_those_of_the_list(metastore: Metastore) -> None:
    table = make_table(metastore)
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)])
    seen: list[object] = []

    def read() -> None:
        for event in watch:
            seen.extend(event.snapshots)

    reader = threading.Thread(target=read)
    reader.start()
    writers = [
        threading.Thread(target=lambda w=w: [metastore.commit(empty(table, n, writer=f"w{w}")) for n in range(20)])
        for w in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    deadline = time.monotonic() + 10
    while len(seen) < 80 and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.close()
    reader.join()
    assert tuple(seen) == metastore.list_snapshots(table.table_uuid).snapshots


def test_a_waiting_watcher_is_notified_at_once(metastore: Metastore) -> None:
    """5.7: pushed, not polled."""
    table = make_table(metastore)
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)])
    arrived: list[float] = []

    def read() -> None:
        arrived.extend(time.monotonic() for _ in watch)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.2)
    delays = []
    for n in range(10):
        metastore.commit(empty(table, n))
        committed = time.monotonic()
        while len(arrived) <= n:
            time.sleep(0.001)
        delays.append(arrived[n] - committed)
    watch.close()
    reader.join()
    # Far below what any poll would need.
    assert sorted(delays)[5] < 0.25


def test_several_tables_and_their_end(metastore: Metastore) -> None:
    one, other = make_table(metastore), make_table(metastore)
    metastore.commit(empty(one, 1))
    watch = metastore.watch([WatchPosition(one.table_uuid, 0), WatchPosition(other.table_uuid, 0)])
    events = iter(watch)
    first = next(events)
    assert (first.table_uuid, first.snapshots[0].snapshot_id) == (one.table_uuid, 1)
    metastore.drop_table(one.name)
    assert next(events) == WatchEvent(one.table_uuid, (), dropped=True)
    metastore.commit(empty(other, 1))
    assert next(events).table_uuid == other.table_uuid
    metastore.drop_table(other.name)
    assert next(events) == WatchEvent(other.table_uuid, (), dropped=True)
    assert list(events) == []


def test_a_position_that_is_not_in_the_history(metastore: Metastore) -> None:
    """C9."""
    table = make_table(metastore)
    for n in range(3):
        metastore.commit(empty(table, n))
    snapshots = metastore.list_snapshots(table.table_uuid).snapshots
    with pytest.raises(HistoryDiverged, match=r"knows snapshot 4, but the newest one is 3"):
        next(iter(metastore.watch([WatchPosition(table.table_uuid, 4)])))
    with pytest.raises(HistoryDiverged, match=f"knows snapshot 2 as {'0' * 32}, but here it is"):
        next(iter(metastore.watch([WatchPosition(table.table_uuid, 2, "0" * 32)])))
    watch = metastore.watch([WatchPosition(table.table_uuid, 2, snapshots[1].snapshot_uuid)])
    assert ids(iter(watch), 1) == [3]
    watch.close()
    with pytest.raises(NotFound, match="does not exist"):
        next(iter(metastore.watch([WatchPosition("0" * 32, 0)])))


def test_a_watch_that_is_closed_while_it_waits(metastore: Metastore) -> None:
    table = make_table(metastore)
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)])
    close_soon(watch, 0.2)
    assert list(watch) == []
