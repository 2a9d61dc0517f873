"""Where subscriptions begin in a table's log (semantics 4.6): by what was appended when, in whole snapshots."""

from __future__ import annotations

import pytest

from lakelog.errors import PermissionDenied
from lakelog.log.memory import Fault, Step
from lakelog.reads.streams.open_stream import open_stream
from lakelog.reads.streams.request import ResumePoint, StreamRequest
from lakelog.sdk.tables.table import Table
from tests.support.log.log_world import World, read_log, rows
from tests.support.log.logging_tables import HandPublisher, read_all, to_rows


def fill(world: World, table: Table, publisher: HandPublisher, call: str = "upsert") -> None:
    """Three snapshots committed at 1000, 2000 and 3000 ms; the first appended at 5000, the others at 6000."""
    for number in (1, 2, 3):
        world.commits.time_ms = 1000 * number
        getattr(table, call)(rows((1, number), (2, number)))
        if number != 2:
            world.brokers.time_ms = 5000 if number == 1 else 6000
            publisher.publish()


def shown(table: Table, since_ms: int, mode: str = "log", until: int = 3, shows_none: bool = False) -> list[int]:
    """The snapshots that a stream from a time on shows, up to one."""
    options = {"scan.timestamp-millis": str(since_ms), "streaming-read-mode": mode}
    with table.subscribe("from-timestamp", options=options) as stream:
        return sorted({batch.snapshot_id for batch in read_all(stream, until, 0.3 if shows_none else 10)})


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_a_time_is_that_of_records(world: World, keyed: bool) -> None:
    table, publisher = world.make(keyed=keyed)
    fill(world, table, publisher, "upsert" if keyed else "append")
    # Control: by the times of commits.
    assert [shown(table, t, "file") for t in (0, 2000, 2001)] == [[1, 2, 3], [2, 3], [3]]
    assert shown(table, 4000, "file", shows_none=True) == []
    assert [shown(table, t) for t in (0, 2001, 4000, 5000)] == [[1, 2, 3]] * 4
    assert [shown(table, t) for t in (5001, 6000)] == [[2, 3]] * 2
    assert shown(table, 6001, shows_none=True) == []


def test_a_snapshot_of_which_partitions_disagree_is_shown_whole(world: World) -> None:
    table, publisher = world.make(bucket="4")
    for number in range(1, 6):
        table.upsert(rows(*((k, number) for k in range(20))))
        world.brokers.tick_ms = 10
        publisher.publish()
    everything = read_log(world, table)
    with table.subscribe("from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
        all_rows = to_rows(read_all(stream, 5))
    ids = everything.snapshot_ids.to_numpy(zero_copy_only=False)
    for since_ms in sorted(set(everything.timestamps_ms.tolist())):
        first = int(ids[everything.timestamps_ms >= since_ms].min())
        options = {"scan.timestamp-millis": str(since_ms)}
        with table.subscribe("from-timestamp", options=options) as stream:
            found = to_rows(read_all(stream, 5))
        assert found == [each for each in all_rows if int(str(each[0])) >= first]
        halves = everything.timestamps_ms[ids == first]
        if (halves < since_ms).any():
            break
    else:
        raise AssertionError("no time was within a snapshot")


def test_snapshots_without_records_are_where_the_commits_before_and_after_them_are(world: World) -> None:
    table, publisher = world.make()
    fill(world, table, publisher)
    world.commits.time_ms = 4000
    table.overwrite(rows((9, 9)))
    world.commits.time_ms = 5500
    table.upsert(rows((9, 10)))
    world.brokers.time_ms = 7000
    publisher.publish()
    more = {"streaming-read-overwrite": "true"}
    for since_ms, wanted in ((5000, [1, 2, 3, 4, 5]), (6001, [5]), (4001, [1, 2, 3, 4, 5])):
        options = {"scan.timestamp-millis": str(since_ms), **more}
        with table.subscribe("from-timestamp", options=options) as stream:
            assert sorted({batch.snapshot_id for batch in read_all(stream, 5, 5)}) == wanted, since_ms


def test_a_time_that_is_to_come_is_waited_for_by_records(world: World) -> None:
    table, publisher = world.make()
    fill(world, table, publisher)
    with table.subscribe("from-timestamp", options={"scan.timestamp-millis": "8000"}) as stream:
        assert stream.read(0.2) is None
        for committed_ms, appended_ms, wanted in ((6500, 7000, None), (7500, 8000, 5), (7600, 8100, 6)):
            world.commits.time_ms = committed_ms
            table.upsert(rows((1, committed_ms)))
            world.brokers.time_ms = appended_ms
            publisher.publish()
            batch = stream.read(0.5 if wanted is None else 10)
            assert (batch.snapshot_id if batch else None) == wanted


def test_times_of_commits_decide_where_the_log_cannot(world: World, caplog: pytest.LogCaptureFixture) -> None:
    table, publisher = world.make()
    fill(world, table, publisher)
    world.cluster.script(Step.FETCH, Fault.REFUSED)
    topic = world.metastore.get_log(table.uuid).topic
    offsets = world.metastore.find_log_offsets(table.uuid, until=1)
    assert offsets is not None
    # What is gone may have been later than the time.
    world.cluster.cut(topic, dict(enumerate(offsets.offsets)))
    assert shown(table, 2500) == [3]
    # What is kept tells.
    assert shown(table, 6001, shows_none=True) == []
    world.refuses = PermissionDenied("No.")
    with table.subscribe("from-timestamp", options={"scan.timestamp-millis": "2500"}) as stream:
        assert sorted({batch.snapshot_id for batch in read_all(stream, 3, 5)}) == [3]
    assert "times of commits tell where it begins instead of its log" in caplog.text
    with pytest.raises(PermissionDenied):
        shown(table, 2500)


def test_the_end_of_the_log_is_the_newest_for_who_reads_it(world: World) -> None:
    table, publisher = world.make()
    fill(world, table, publisher)
    table.upsert(rows((3, 4)))
    # Committed, but not in the log: a consumer that begins at its end sees it.
    with (
        table.subscribe("latest") as stream,
        table.subscribe("latest", options={"streaming-read-mode": "file"}) as files,
        world.catalog.subscribe(["shop.orders"], scan_mode="latest", consumer_id="c") as named,
    ):
        assert stream.read(0.2) is None
        table.upsert(rows((3, 5)))
        publisher.publish()
        wanted = [(4, 3, 4, "+I"), (5, 3, 4, "-U"), (5, 3, 5, "+U")]
        assert to_rows(read_all(stream, 5)) == wanted
        assert to_rows(read_all(named, 5)) == wanted
        assert to_rows(read_all(files, 5)) == wanted[1:]


def test_it_begins_with_the_rows_of_the_newest_snapshot_that_is_in_the_log(world: World) -> None:
    table, publisher = world.make()
    with table.subscribe() as empty:
        fill(world, table, publisher)
        table.upsert(rows((1, 4), (3, 4)))
        with table.subscribe() as stream:
            assert to_rows(read_all(stream, 3)) == [(3, 1, 3, "+I"), (3, 2, 3, "+I")]
            assert stream.read(0.2) is None
            publisher.publish()
            assert to_rows(read_all(stream, 4)) == [(4, 1, 3, "-U"), (4, 1, 4, "+U"), (4, 3, 4, "+I")]
        assert len(to_rows(read_all(empty, 4))) == 2 + 4 + 4 + 3


def test_where_no_one_publishes_it_begins_with_the_newest_rows(world: World) -> None:
    table, publisher = world.make()
    fill(world, table, publisher)
    table.upsert(rows((1, 4)))
    publisher.release()
    with table.subscribe() as stream:
        assert sorted(to_rows(read_all(stream, 4))) == [(4, 1, 4, "+I"), (4, 2, 3, "+I")]


def test_several_tables_begin_at_one_moment(world: World) -> None:
    table, publisher = world.make()
    world.make("shop.others")
    fill(world, table, publisher)
    world.commits.time_ms = 5500
    with world.catalog.transaction() as both:
        for name in ("shop.orders", "shop.others"):
            both.table(name).upsert(rows((7, 7)))
    for mode, options in (("latest", {}), ("from-timestamp", {"scan.timestamp-millis": "5600"})):
        with world.catalog.subscribe(["shop.orders", "shop.others"], scan_mode=mode, options=options) as stream:
            assert stream.read(0.2) is None
            # Of neither the half that is not in its log yet.
            assert stream.positions == {"shop.orders": 4, "shop.others": 1}


def test_who_goes_on_after_the_first_one_leaves_none_out(world: World) -> None:
    table, publisher = world.make(keyed=False)
    # The clock of a broker that took over is behind.
    for committed_ms, appended_ms in ((1000, 5000), (2000, 4000), (3000, 6000)):
        world.commits.time_ms = committed_ms
        table.append(rows((1, committed_ms)))
        world.brokers.time_ms = appended_ms
        publisher.publish()
    assert shown(table, 4500) == [1, 2, 3]
    info = world.metastore.get_table_by_uuid(table.uuid)
    request = StreamRequest({"scan.mode": "from-timestamp", "scan.timestamp-millis": "4500"})
    for after in (1, 2):
        opened = open_stream(
            world.catalog.context,
            [info],
            request,
            holder="test",
            points=[ResumePoint(table.uuid, after)],
            on_begin=print,
        )
        found = []
        for progress in opened.follower.follow():
            if progress.batch is not None:
                found.append(progress.batch.snapshot_id)
            if found and found[-1] == 3:
                break
        opened.follower.close()
        assert found == list(range(after + 1, 4))
