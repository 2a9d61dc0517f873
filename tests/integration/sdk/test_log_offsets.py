"""Where snapshots end in the log (semantics 4.5), and partitions that are added while it is published."""

from __future__ import annotations

import itertools
import time

import pytest
import structlog

from lakelog.clock import SystemClock
from lakelog.errors import LakelogError, Unavailable
from lakelog.format.log.state import LogInfo, PublishReport, to_publisher_lease
from lakelog.sdk.tables.table import Table
from lakelog.serving.lease import LeaseRenewer
from tests.support.log.log_world import World, read_log, rows
from tests.support.log.logging_tables import HandPublisher, read_all, to_rows
from writer.publishing.metrics import PublisherMetrics
from writer.publishing.publisher import TablePublisher
from writer.publishing.runner import TableRunner
from writer.publishing.service import PublisherService
from writer.publishing.topics.membership import PublisherMembership
from writer.publishing.watchdog import Watchdog


def list_ends(world: World, table: Table) -> list[tuple[int, tuple[int, ...]]]:
    return [(each.snapshot_id, each.offsets) for each in world.metastore.list_log_offsets(table.uuid)]


def find_places(world: World, table: Table) -> list[tuple[int | None, int, int]]:
    """Snapshot, partition and offset of each record."""
    found = read_log(world, table)
    return sorted(
        zip(found.snapshot_ids.to_pylist(), found.partitions.tolist(), found.offsets.tolist(), strict=True),
        key=lambda each: each[1:],
    )


def test_an_end_is_the_next_offset_and_stays_where_nothing_came(world: World) -> None:
    table, publisher = world.make(bucket="2")
    # 2, 4 and 5 are in bucket 0, the others in bucket 1.
    for keys in ((0, 1, 2), (2,), (1,), (3, 4, 5)):
        table.upsert(rows(*((key, 1) for key in keys)))
        publisher.publish()
    table.overwrite(rows((9, 9)))
    table.upsert(rows((2, 2)))
    publisher.publish()
    places = find_places(world, table)
    # The end of each transaction has an offset of its own, which no record has.
    for partition in (0, 1):
        offsets = [offset for _, each, offset in places if each == partition]
        assert len(offsets) < offsets[-1] + 1
    ends, wanted = dict(list_ends(world, table)), [0, 0]
    assert sorted(ends) == [1, 2, 3, 4, 5, 6]
    for snapshot_id in ends:
        for partition in (0, 1):
            mine = [offset for number, each, offset in places if number == snapshot_id and each == partition]
            wanted[partition] = max(mine, default=wanted[partition] - 1) + 1
        assert ends[snapshot_id] == tuple(wanted), snapshot_id
    assert ends[5] == ends[4], "an overwrite brings nothing"
    # Records and, behind each transaction, its end: 2|.|2|.|4|5|. and 0|1|.|1|.|3|. and so on.
    assert ends == {1: (1, 2), 2: (3, 2), 3: (3, 4), 4: (6, 6), 5: (6, 6), 6: (8, 6)}


def publish_and_die(world: World, table: Table, publisher: HandPublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes several snapshots in one transaction, and is dead before it reports them; another one takes over."""
    seen = len(world.metastore.list_log_offsets(table.uuid))

    def die(report: PublishReport) -> None:
        if report.snapshots:
            raise Unavailable("It is dead.")

    with monkeypatch.context() as dying:
        dying.setattr(world.metastore, "report_published", die)
        with pytest.raises(Unavailable, match="It is dead"):
            publisher.publish()
        publisher.close()
    assert len(world.metastore.list_log_offsets(table.uuid)) == seen, "nothing was reported"
    world.publish(table).publish()


@pytest.mark.slow
def test_the_next_publisher_fills_in_the_ends_that_a_dead_one_did_not_report(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publisher = world.make(bucket="2")
    table.upsert(rows((0, 1), (2, 1)))
    publisher.publish()
    for keys in ((2,), (1,), (3, 4, 5)):
        table.upsert(rows(*((key, 2) for key in keys)))
    table.overwrite(rows((9, 9)))
    publish_and_die(world, table, publisher, monkeypatch)
    places, ends = find_places(world, table), dict(list_ends(world, table))
    assert sorted(ends) == [1, 2, 3, 4, 5]
    for snapshot_id in (2, 3, 4, 5):
        for partition in (0, 1):
            mine = [o for number, each, o in places if number and number <= snapshot_id and each == partition]
            later = [o for number, each, o in places if number and number > snapshot_id and each == partition]
            assert max(mine, default=-1) < ends[snapshot_id][partition] <= min(later, default=1 << 60)
    options = {"scan.snapshot-id": "3", "streaming-read-mode": "log"}
    with table.subscribe("from-snapshot", options=options) as stream:
        assert sorted(str(row[0]) for row in to_rows(read_all(stream, 5))) == list("3444")


def test_the_ends_of_rows_that_were_sent_early_are_filled_in_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make("shop.orders", True, **{"log.consistency": "eventual"})
    for value in (1, 2, 3):
        table.upsert(rows((1, value)))
    sent = [each.sent_offsets for each in world.metastore.list_snapshots(table.uuid).snapshots]
    publish_and_die(world, table, publisher, monkeypatch)
    assert list_ends(world, table) == [(number, (each[0],)) for number, each in enumerate(sent, 1) if each]


def test_control_without_it_only_the_last_end_is_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make(bucket="2")
    for key in (1, 2, 3):
        table.upsert(rows((key, 1)))
    monkeypatch.setattr("writer.publishing.topics.ends._MAX_SNAPSHOTS", 0)
    publish_and_die(world, table, publisher, monkeypatch)
    assert [number for number, _ in list_ends(world, table)] == [3]


def test_ends_never_go_back_no_matter_who_of_several_writers_is_first(world: World) -> None:
    table, publisher = world.make("shop.orders", True, **{"log.consistency": "eventual"})
    slow, fast = world.catalog, world.open_catalog()
    with slow.transaction() as first:
        first.table("shop.orders").upsert(rows((1, 1)))
        table_write = first._table_writes[table.uuid]
        # Its rows stand in the log before those of the other, and its commit comes later.
        assert table_write.uncommitted is not None
        assert table_write.uncommitted.finish() is not None
        fast.table("shop.orders").upsert(rows((2, 2), (3, 3)))
    sent = [each.sent_offsets for each in world.metastore.list_snapshots(table.uuid).snapshots]
    assert sent == [{0: 3}, {0: 1}]
    publisher.publish()
    assert list_ends(world, table) == [(1, (3,)), (2, (3,))]


def test_ends_that_no_one_knows_are_found_from_the_earliest_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make()
    for value in (1, 2, 3):
        table.upsert(rows((1, value)))
    publisher.publish()
    monkeypatch.setattr(world.metastore, "find_log_offsets", lambda *args, **more: None)
    options = {"scan.snapshot-id": "1", "streaming-read-mode": "log"}
    with table.subscribe("from-snapshot", options=options) as stream:
        assert [row[0] for row in to_rows(read_all(stream, 3))] == [1, 2, 2, 3, 3]


class _Service:
    """A publisher service over brokers in memory, looked at by hand."""

    def __init__(self, world: World) -> None:
        clock, log, metrics = SystemClock(), structlog.get_logger(), PublisherMetrics()
        self.publishers: list[TablePublisher] = []

        def make_lease(info: LogInfo, on_lost: object) -> LeaseRenewer:
            def lose(error: LakelogError) -> None:
                raise AssertionError(error)

            return LeaseRenewer(
                world.metastore,
                to_publisher_lease(info.table_uuid),
                "test",
                duration_s=60,
                max_unavailable_s=60,
                clock=clock,
                log=log,
                on_lost=lose,
            )

        def make_runner(info: LogInfo, lease: LeaseRenewer) -> TableRunner:
            publisher = TablePublisher(info.table_uuid, lease.epoch, world.make_parts())
            self.publishers.append(publisher)
            watchdog = Watchdog(60, clock, log)
            return TableRunner(
                str(info.name), info.table_uuid, publisher, lease, world.metastore, clock, watchdog, metrics, log
            )

        self.service = PublisherService(
            world.metastore,
            make_lease=make_lease,
            make_runner=make_runner,
            membership=PublisherMembership(world.metastore, "test", 60_000),
            tables=frozenset(),
            max_unavailable_s=60,
            clock=clock,
            metrics=metrics,
            log=log,
        )


def wait_published(world: World, table: Table) -> None:
    newest = world.metastore.get_table_by_uuid(table.uuid).latest_snapshot_id
    end_s = time.monotonic() + 20
    while world.metastore.get_publish_state(table.uuid).snapshot_id < newest:
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_partitions_that_are_added_get_records_without_a_restart(world: World) -> None:
    table = world.make_unpublished(**{"log.system.partitions": "2"})
    service = _Service(world)
    service.service.step()
    try:
        with table.subscribe("from-snapshot", options={"scan.snapshot-id": "1"}) as stream:
            for value in range(4):
                table.append(rows((1, value)))
            wait_published(world, table)
            assert {each[1] for each in find_places(world, table)} == {0, 1}
            table.alter(set={"log.system.partitions": "4"})
            service.service.step()
            (publisher,) = service.publishers
            starts = publisher.published.producer_reinits
            for value in range(4, 12):
                table.append(rows((1, value)))
            wait_published(world, table)
            # Nothing else has changed since.
            service.service.step()
            table.append(rows((1, 12)))
            wait_published(world, table)
            assert publisher.published.producer_reinits <= starts + 1
            assert {each[1] for each in find_places(world, table)} == {0, 1, 2, 3}
            assert [row[2] for row in to_rows(read_all(stream, 13))] == list(range(13))
        ends = list_ends(world, table)
        assert [len(offsets) for _, offsets in ends][:4] == [2] * 4
        assert len(ends[-1][1]) == 4
        assert all(b >= a for (_, one), (_, two) in itertools.pairwise(ends) for a, b in zip(one, two, strict=False))
    finally:
        service.service.stop()
        service.service.run()


def test_what_was_looked_up_before_a_start_makes_no_other(world: World) -> None:
    table, publisher = world.make(keyed=False)
    table.append(rows((1, 1)))
    publisher.publish()
    for _ in range(3):
        publisher.publisher.see(world.metastore.get_log(table.uuid))
        table.append(rows((1, 1)))
        publisher.publish()
    assert publisher.publisher.published.producer_reinits == 1
