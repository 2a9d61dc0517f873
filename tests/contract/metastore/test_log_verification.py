"""A log as its consumers see it, against the table: what a publisher has done, and what it is blamed for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from lakelog.clock import SystemClock
from lakelog.errors import HistoryDiverged, NotFound
from lakelog.format.log.state import LogInfo, PublishReport, SnapshotOffsets, to_publisher_lease
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.log.memory import MemoryLog
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot
from lakelog.log.tally import LogFindings
from lakelog.reads.log.plan import plan_log
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.storage.objects.local import LocalStore
from lakelog.system_tables.metadata.log_status import load_log_status
from metastore.metrics import PrometheusMetrics
from metastore.testing import InProcessMetastore
from metastore.waiting_work.measuring import WorkMeasuring
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.records import make_records

from .log_tables import commit_segments
from .topic_tables import make

ALL = {"bucket": "4", "log.changelog-mode": "all"}


def publish(
    metastore: InProcessMetastore,
    brokers: FakeBrokers,
    info: LogInfo,
    after: int,
    until: int,
    change: Callable[[LogSnapshot, EncodedRecords], list[EncodedRecords]] = lambda _, records: [records],
) -> None:
    """Publishes snapshots one by one, and tells so."""
    producer = MemoryLog(brokers.cluster).open_producer(info.topic, "publisher", "position")
    producer.start()
    lease = metastore.acquire_lease(to_publisher_lease(info.table_uuid), "test", 60_000)
    for snapshot_id in range(after + 1, until + 1):
        plan = plan_log(metastore, info.table_uuid, snapshot_id - 1, snapshot_id)
        snapshot = LogSnapshot(snapshot_id, plan.snapshots[0].snapshot_uuid)
        producer.begin()
        for chunk in plan.chunks:
            for records in change(snapshot, make_records(chunk.bucket, chunk.first_index, chunk.row_count)):
                producer.send(records, snapshot)
        producer.commit(LogPosition(snapshot_id, snapshot.snapshot_uuid))
        offsets = MemoryLog(brokers.cluster).open_reader(info.topic).list_offsets()
        reported = SnapshotOffsets(snapshot_id, snapshot.snapshot_uuid, offsets)
        metastore.report_published(PublishReport(info.table_uuid, info.generation, lease.epoch, (reported,)))
    producer.close()
    metastore.release_lease(to_publisher_lease(info.table_uuid), lease.epoch)


def verify(metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, folder: Path) -> LogFindings:
    info = metastore.get_log(table.table_uuid)
    return verify_log(metastore, info, MemoryLog(brokers.cluster), LocalStore(str(folder)), SystemClock())


@pytest.fixture
def table(log_metastore: InProcessMetastore) -> TableInfo:
    made = make(log_metastore, ALL)
    commit_segments(log_metastore, made, 1, "ab", buckets=(0, 3))
    commit_segments(log_metastore, made, 2, "a", buckets=(1,))
    commit_segments(log_metastore, made, 3, "a", buckets=(3,))
    return made


def test_a_log_that_is_what_the_table_is(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, tmp_path: Path
) -> None:
    info = log_metastore.get_log(table.table_uuid)
    publish(log_metastore, brokers, info, 0, 2)
    (status,) = load_log_status(log_metastore, [], 10**15)
    assert (status.snapshots_behind, status.partitions, status.is_further) == (1, 4, False)
    assert status.rows_behind > 0
    assert status.behind_ms > 0
    assert "No publisher serves it" in status.problem
    found = verify(log_metastore, brokers, table, tmp_path)
    assert found.is_fine
    assert found.snapshots == 2
    publish(log_metastore, brokers, info, 2, 3)
    found = verify(log_metastore, brokers, table, tmp_path)
    assert (found.is_fine, found.snapshots, found.rows) == (True, 3, found.records)
    (status,) = load_log_status(log_metastore, [table.table_uuid], 10**15)
    assert (status.snapshots_behind, status.behind_ms, status.problem) == (0, 0, "")


def test_logs_are_found_by_name(log_metastore: InProcessMetastore) -> None:
    names = [TableName("shop", name) for name in ("c", "a", "e", "b", "d")]
    for name in names:
        make(log_metastore, name=name)
    assert [each.info.name for each in load_log_status(log_metastore, [], 10**15)] == sorted(names, key=str)


def test_what_a_publisher_has_done_wrong_is_found(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, tmp_path: Path
) -> None:
    def change(snapshot: LogSnapshot, records: EncodedRecords) -> list[EncodedRecords]:
        if snapshot.snapshot_id == 1 and records.partition == 3:
            return []
        return [records, records] if snapshot.snapshot_id == 2 else [records]

    publish(log_metastore, brokers, log_metastore.get_log(table.table_uuid), 0, 3, change)
    found = verify(log_metastore, brokers, table, tmp_path)
    assert not found.is_fine
    assert found.torn == (1,)
    assert found.lost > 0
    assert found.duplicates > 0


def test_a_log_that_was_restarted_is_looked_at_from_there_on(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, tmp_path: Path
) -> None:
    publish(log_metastore, brokers, log_metastore.get_log(table.table_uuid), 0, 1)
    info = log_metastore.restart_log(table.table_uuid)
    commit_segments(log_metastore, table, 4, "a", buckets=(0,))
    publish(log_metastore, brokers, info, 3, 4)
    found = verify(log_metastore, brokers, table, tmp_path)
    assert (found.is_fine, found.snapshots) == (True, 1)
    assert found.earlier > 0


def test_a_topic_that_is_another_one_is_reported(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, tmp_path: Path
) -> None:
    topic = log_metastore.get_log(table.table_uuid).topic
    brokers.cluster.delete_topic(topic)
    with pytest.raises(NotFound, match=r"is gone.*lakelog log restart shop\.orders"):
        verify(log_metastore, brokers, table, tmp_path)
    brokers.make_topic(topic, 4)
    with pytest.raises(HistoryDiverged, match=r"made again.*lakelog log restart shop\.orders"):
        verify(log_metastore, brokers, table, tmp_path)


def test_how_far_logs_are_behind_is_measured(
    log_metastore: InProcessMetastore, brokers: FakeBrokers, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("MEASURE_EVERY_MS", "PAUSES"):
        monkeypatch.setattr(f"metastore.waiting_work.measuring.{pause}", 0)
    registry = CollectorRegistry()
    measuring = WorkMeasuring(log_metastore.store, SystemClock(), PrometheusMetrics(registry))

    def find(name: str, of: str = "") -> float | None:
        return registry.get_sample_value(f"lakelog_metastore_{name}", {"table": of} if of else {})

    def measure() -> dict[str, float | None]:
        log_metastore.run(measuring.step())
        names = ("log_lag_snapshots", "log_lag_seconds", "log_problems")
        found = {name: find(name, "shop.orders") for name in names}
        assert find("publish_lag_snapshots") == (found["log_lag_snapshots"] or 0)
        assert find("publish_lag_seconds") == (found["log_lag_seconds"] or 0)
        assert find("lagging_logs") == bool(found["log_lag_snapshots"])
        return found

    info = log_metastore.get_log(table.table_uuid)
    publish(log_metastore, brokers, info, 0, 1)
    time.sleep(0.01)
    behind = measure()
    assert (behind["log_lag_snapshots"], behind["log_problems"]) == (2, 0)
    assert behind["log_lag_seconds"]
    publish(log_metastore, brokers, info, 1, 3)
    assert measure() == {"log_lag_snapshots": 0, "log_lag_seconds": 0, "log_problems": 0}
    lease = log_metastore.acquire_lease(to_publisher_lease(info.table_uuid), "test", 60_000)
    log_metastore.report_published(PublishReport(info.table_uuid, info.generation, lease.epoch, (), problem="cut"))
    assert measure()["log_problems"] == 1
    # Of another generation nothing counts.
    log_metastore.restart_log(table.table_uuid)
    assert measure() == {"log_lag_snapshots": 0, "log_lag_seconds": 0, "log_problems": 0}
    log_metastore.drop_table(table.name)
    assert set(measure().values()) == {None}
