"""Where a log begins in a topic that holds records already: of another table, or of an earlier generation."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.log.state import PublishReport, SnapshotOffsets, to_publisher_lease
from lakelog.log.memory import MemoryLog
from lakelog.log.records import LogPosition, LogSnapshot
from metastore.testing import InProcessMetastore
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.records import make_records

from .log_tables import commit_segments
from .topic_tables import NAME, NAMED, make, work_off

OTHER = LogSnapshot(7, "f" * 32)
BUCKETS = {"bucket": "2", "log.changelog-mode": "all"}


def fill(brokers: FakeBrokers, topic: str) -> tuple[int, ...]:
    """Two records in the first partition, and the end of their transaction."""
    producer = MemoryLog(brokers.cluster).open_producer(topic, "other", "other")
    producer.start()
    producer.begin()
    producer.send(make_records(0, 0, 2), OTHER)
    producer.commit(LogPosition(OTHER.snapshot_id, OTHER.snapshot_uuid))
    producer.close()
    return MemoryLog(brokers.cluster).open_admin().find_ends(topic)


def test_a_table_in_a_topic_of_another_begins_after_its_records(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    brokers.make_topic("changes", 2)
    ends = fill(brokers, "changes")
    table = make(log_metastore, {**NAMED, **BUCKETS})
    uuid = table.table_uuid
    state = log_metastore.get_publish_state(uuid)
    assert (state.snapshot_id, state.offsets, state.reported_at_ms) == (0, ends, 0)
    begins = log_metastore.find_log_offsets(uuid, until=0)
    assert begins == log_metastore.find_log_offsets(uuid) == SnapshotOffsets(0, "0" * 32, ends)
    commit_segments(log_metastore, table, 1, "a", buckets=(1,))
    lease = log_metastore.acquire_lease(to_publisher_lease(uuid), "p", 60_000)
    first = log_metastore.list_snapshots(uuid).snapshots[0]
    reported = SnapshotOffsets(1, first.snapshot_uuid, (0, 5))
    log_metastore.report_published(PublishReport(uuid, 1, lease.epoch, (reported,)))
    assert log_metastore.get_publish_state(uuid).offsets == (ends[0], 5)
    assert [each.snapshot_id for each in log_metastore.list_log_offsets(uuid)] == [1]
    assert log_metastore.find_log_offsets(uuid, until=0) == begins
    assert log_metastore.find_log_offsets(uuid) == replace(reported, offsets=(ends[0], 5))


def test_a_log_that_restarts_begins_after_what_its_topic_has(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    table = make(log_metastore, BUCKETS)
    uuid = table.table_uuid
    commit_segments(log_metastore, table, 1)
    ends = fill(brokers, log_metastore.get_log(uuid).topic)
    assert log_metastore.get_publish_state(uuid).offsets == ()
    log_metastore.restart_log(uuid)
    state = log_metastore.get_publish_state(uuid)
    assert (state.generation, state.snapshot_id, state.offsets) == (2, 1, ends)
    begins = log_metastore.find_log_offsets(uuid, until=1)
    assert begins == SnapshotOffsets(1, state.snapshot_uuid, ends)


def test_a_restored_table_begins_after_what_its_named_topic_has(
    log_metastore: InProcessMetastore, brokers: FakeBrokers
) -> None:
    table = make(log_metastore, {**NAMED, **BUCKETS})
    log_metastore.drop_table(NAME)
    ends = fill(brokers, "changes")
    log_metastore.restore_table(NAME)
    work_off(log_metastore)
    state = log_metastore.get_publish_state(table.table_uuid)
    assert (state.generation, state.snapshot_id, state.offsets) == (2, 0, ends)
