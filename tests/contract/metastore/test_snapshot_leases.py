"""What keeps snapshots from expiring: consumers, readers, pending changelogs, tags (reliability C7)."""

from __future__ import annotations

import time

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument, NotFound, SnapshotExpired
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.retention.expiry import SnapshotLeaseKind
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.expiring import expire, expired, live, make_history, replace_all
from tests.support.metastore.making import append, make_table, snapshot_ids


def move_consumer(metastore: Metastore, table: TableInfo, snapshot_id: int) -> None:
    (consumer,) = metastore.open_consumer("c", [table.table_uuid], "test")
    metastore.advance_consumer("c", [ConsumerPosition(table.table_uuid, consumer.epoch, snapshot_id)])


def test_what_a_consumer_needs_stays(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    move_consumer(metastore, table, 3)
    step = expire(metastore, table)
    assert (step.earliest, step.files) == (3, 0)
    assert [(lease.kind, lease.holder, lease.snapshot_id) for lease in step.held_by] == [
        (SnapshotLeaseKind.CONSUMER, "c", 3)
    ]
    assert metastore.list_snapshot_leases(table.table_uuid) == list(step.held_by)
    assert len(live(metastore, table, 3)) == 3
    move_consumer(metastore, table, 6)
    assert expire(metastore, table).files == 4


def test_what_a_pending_changelog_needs_stays(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number in (1, 2, 3):
        append(metastore, table, number)
    append(metastore, table, 4, changelog=ChangelogState.PENDING)
    append(metastore, table, 5)
    step = expire(metastore, table)
    assert step.earliest == 3
    assert [(lease.kind, lease.snapshot_id) for lease in step.held_by] == [(SnapshotLeaseKind.CHANGELOG, 3)]


def test_what_a_reader_holds_stays_until_it_is_released(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    ends_ms = metastore.lease_snapshot(table.table_uuid, "r", 2, 60_000)
    assert ends_ms > 1_600_000_000_000
    step = expire(metastore, table)
    assert step.earliest == 2
    assert [(lease.kind, lease.holder, lease.expires_at_ms) for lease in step.held_by] == [
        (SnapshotLeaseKind.READER, "r", ends_ms)
    ]
    # Asked for again it holds longer, and may go on to another one.
    assert metastore.lease_snapshot(table.table_uuid, "r", 2, 120_000) > ends_ms
    metastore.lease_snapshot(table.table_uuid, "r", 4, 60_000)
    assert expire(metastore, table).earliest == 4
    metastore.release_snapshot(table.table_uuid, "r")
    metastore.release_snapshot(table.table_uuid, "r")
    assert expire(metastore, table).earliest == 6
    with pytest.raises(SnapshotExpired, match=r"Snapshot 4 .* has expired, so that it cannot be held; .* 6 to 6"):
        metastore.lease_snapshot(table.table_uuid, "r", 4, 60_000)
    with pytest.raises(NotFound, match="no snapshot 7"):
        metastore.lease_snapshot(table.table_uuid, "r", 7, 60_000)


def test_changes_whose_states_have_expired_can_be_held(metastore: Metastore) -> None:
    """The control is `test_what_expired_without_snapshot_leases_cannot_be_read`: nobody holds it."""
    options = {"bucket": "4", "changelog-producer": "input", "changelog.num-retained.max": "3"}
    options |= {"snapshot.num-retained.min": "1", "changelog.num-retained.min": "3"}
    table = make_table(metastore, options=options)
    for number in range(1, 7):
        append(metastore, table, number, changelog=ChangelogState.ATTACHED)
    step = expire(metastore, table)
    assert (step.earliest, step.earliest_change) == (6, 4)
    with pytest.raises(SnapshotExpired):
        metastore.lease_snapshot(table.table_uuid, "r", 3, 60_000)
    metastore.lease_snapshot(table.table_uuid, "r", 4, 60_000)
    assert [(lease.kind, lease.snapshot_id) for lease in metastore.list_snapshot_leases(table.table_uuid)] == [
        (SnapshotLeaseKind.READER, 3)
    ]
    for number in range(7, 10):
        append(metastore, table, number, changelog=ChangelogState.ATTACHED)
    assert expire(metastore, table).earliest_change == 4
    assert len(metastore.plan(PlanRequest(table.table_uuid, InRange(3, 9), changelog=True)).range_snapshots) == 6
    metastore.release_snapshot(table.table_uuid, "r")
    step = expire(metastore, table)
    assert (step.earliest, step.earliest_change, step.named) == (9, 7, ())


def test_a_snapshot_lease_of_a_reader_that_is_gone_ends(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    metastore.lease_snapshot(table.table_uuid, "r", 2, 1)
    time.sleep(0.02)
    assert metastore.list_snapshot_leases(table.table_uuid) == []
    assert expire(metastore, table).earliest == 6


def test_what_expired_without_snapshot_leases_cannot_be_read(metastore: Metastore) -> None:
    """The control of the three above: nobody holds it, and it goes."""
    table = make_table(metastore)
    make_history(metastore, table)
    expire(metastore, table)
    assert "b.parquet" in expired(metastore, table)
    with pytest.raises(SnapshotExpired):
        live(metastore, table, 3)


def test_refused_snapshot_leases(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match="duration_ms is 90000000"):
        metastore.lease_snapshot(table.table_uuid, "r", 1, 90_000_000)
    with pytest.raises(InvalidArgument, match="holder is ''"):
        metastore.lease_snapshot(table.table_uuid, "", 1, 1000)
    with pytest.raises(NotFound):
        metastore.expire_snapshots("0" * 32)
    with pytest.raises(InvalidArgument, match="limit is 0"):
        metastore.list_expired_files(table.table_uuid, 0)


def test_what_a_tag_names_stays_and_goes_with_the_last_tag(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    for name in ("two", "second"):
        metastore.create_tag(table.table_uuid, name, 2)
    step = expire(metastore, table)
    assert (step.earliest, step.named, step.held_by) == (6, (2,), ())
    assert expired(metastore, table) == ["c.parquet", "d.parquet"]
    assert live(metastore, table, 2) == ["a.parquet", "b.parquet"]
    assert [tag.snapshot_id for tag in metastore.list_tags(table.table_uuid)] == [2, 2]
    # Not in the history of those who follow it.
    assert snapshot_ids(metastore, table) == [6]
    with pytest.raises(SnapshotExpired):
        next(iter(metastore.watch([WatchPosition(table.table_uuid, 1)])))
    metastore.delete_tag(table.table_uuid, "two")
    assert expire(metastore, table).files == 0
    assert len(live(metastore, table, 2)) == 2
    metastore.delete_tag(table.table_uuid, "second")
    assert expire(metastore, table).files == 2
    assert expired(metastore, table) == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    with pytest.raises(SnapshotExpired):
        live(metastore, table, 2)


def test_of_several_tags_each_keeps_its_own(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number, name in enumerate("abcd", 1):
        replace_all(metastore, table, number, name) if number > 1 else append(metastore, table, 1, names="a")
    metastore.create_tag(table.table_uuid, "one", 1)
    metastore.create_tag(table.table_uuid, "three", 3)
    assert expire(metastore, table).named == (1, 3)
    assert expired(metastore, table) == ["b.parquet"]
    metastore.delete_tag(table.table_uuid, "one")
    expire(metastore, table)
    assert expired(metastore, table) == ["a.parquet", "b.parquet"]
    assert live(metastore, table, 3) == ["c.parquet"]


def test_a_tagged_state_that_is_held_outlives_its_tag(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    metastore.create_tag(table.table_uuid, "two", 2)
    expire(metastore, table)
    metastore.lease_snapshot(table.table_uuid, "r", 2, 60_000)
    metastore.delete_tag(table.table_uuid, "two")
    assert expire(metastore, table).files == 0
    metastore.lease_snapshot(table.table_uuid, "r", 2, 60_000)
    with pytest.raises(SnapshotExpired):
        metastore.lease_snapshot(table.table_uuid, "other", 2, 60_000)
    metastore.release_snapshot(table.table_uuid, "r")
    assert expire(metastore, table).files == 2
