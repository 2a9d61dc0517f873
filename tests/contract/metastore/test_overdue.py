"""Snapshots that would have expired but for somebody: who needs them, how many, since when; and the metric of it."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.retention.expiry import OverdueSnapshots, SnapshotLeaseKind
from lakelog.format.tables.table import TableInfo
from metastore.metrics import PrometheusMetrics
from metastore.retention import overdue as retention_overdue
from metastore.retention.overdue import Overdue
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, make_table

SHORT = {"bucket": "4", "snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}


def make_history(metastore: Metastore, **options: str) -> TableInfo:
    table = make_table(metastore, options=SHORT | options)
    for number in range(6):
        append(metastore, table, number)
    time.sleep(0.01)
    return table


def move(metastore: Metastore, table: TableInfo, consumer_id: str, snapshot_id: int) -> None:
    (opened,) = metastore.open_consumer(consumer_id, [table.table_uuid], "")
    metastore.advance_consumer(consumer_id, [ConsumerPosition(table.table_uuid, opened.epoch, snapshot_id)])


def overdue(metastore: Metastore, table: TableInfo) -> list[OverdueSnapshots]:
    return [each for each in metastore.list_overdue_snapshots() if each.table == str(table.name)]


def test_who_needs_what_is_overdue_is_named(metastore: Metastore) -> None:
    table, other = make_history(metastore), make_history(metastore)
    assert overdue(metastore, table) == [], "what is overdue by itself goes with the next expiry"
    move(metastore, table, "slow", 2)
    move(metastore, table, "slower", 0)
    move(metastore, table, "fast", 6)
    metastore.lease_snapshot(table.table_uuid, "a long read", 4, 60_000)
    found = overdue(metastore, table)
    assert [(each.lease.kind, each.lease.holder, each.lease.snapshot_id, each.count) for each in found] == [
        (SnapshotLeaseKind.CONSUMER, "slower", 0, 5),
        (SnapshotLeaseKind.CONSUMER, "slow", 2, 4),
        (SnapshotLeaseKind.READER, "a long read", 4, 2),
    ]
    times = [each.committed_at_ms for each in metastore.list_snapshots(table.table_uuid).snapshots]
    assert [each.since_ms for each in found] == [times[0], times[1], times[3]]
    assert overdue(metastore, other) == []
    metastore.expire_snapshots(table.table_uuid)
    assert len(overdue(metastore, table)) == 3, "they keep it"
    metastore.delete_consumer(table.table_uuid, "slower")
    metastore.delete_consumer(table.table_uuid, "slow")
    metastore.expire_snapshots(table.table_uuid)
    assert [each.count for each in overdue(metastore, table)] == [2]
    metastore.release_snapshot(table.table_uuid, "a long read")
    metastore.drop_table(other.name)
    assert overdue(metastore, table) == []


def test_a_table_that_is_named_is_checked_however_many_there_are(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = make_history(metastore), make_history(metastore)
    for each in (table, other):
        move(metastore, each, "slow", 2)
    monkeypatch.setattr(retention_overdue, "MAX_TABLES", 0)
    assert overdue(metastore, table) == [], "it is not among those that are checked"
    assert [each.table for each in metastore.list_overdue_snapshots(table.table_uuid)] == [str(table.name)]
    with pytest.raises(NotFound):
        metastore.list_overdue_snapshots("0" * 32)


def test_what_is_young_or_expires_by_request_only_is_not_overdue(metastore: Metastore) -> None:
    young = make_history(metastore, **{"snapshot.time-retained": "1 h"})
    few = make_history(metastore, **{"snapshot.num-retained.min": "10"})
    kept = make_history(metastore, **{"write-only": "true"})
    for table in (young, few, kept):
        move(metastore, table, "slow", 1)
        assert overdue(metastore, table) == []


def test_it_is_measured_by_table_and_who_that_is(log_metastore: InProcessMetastore) -> None:
    table = make_history(log_metastore)
    move(log_metastore, table, "slow", 2)
    registry = CollectorRegistry()
    measuring = Overdue(log_metastore.store, PrometheusMetrics(registry))
    line = f'overdue_snapshots{{holder="slow",kind="consumer",table="{table.name}"}} 4.0'
    log_metastore.run(measuring.step())
    assert line in generate_latest(registry).decode()
    assert log_metastore.get_overview().overdue == (), "another step has measured it"
    log_metastore.run(log_metastore.use_cases.overdue.step())
    (shown,) = log_metastore.get_overview().overdue
    assert (shown.table, shown.lease.holder, shown.count) == (str(table.name), "slow", 4)
    log_metastore.delete_consumer(table.table_uuid, "slow")
    log_metastore.run(measuring.step())
    assert '"slow"' not in generate_latest(registry).decode()
