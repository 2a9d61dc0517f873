"""Tables to which a compactor was sent, and how many jobs wait, over all implementations."""

from __future__ import annotations

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.jobs.job import (
    ADDED_AFTER,
    COMPACT,
    DUE,
    FULL,
    HAS_WAITED,
    MINOR,
    STRATEGY,
    Job,
    JobState,
    to_bucket_scope,
)
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, make_table

SCOPE = to_bucket_scope(b"", 0)


def jobs(metastore: Metastore, table: TableInfo) -> dict[str, Job]:
    return {job.scope: job for job in metastore.list_jobs([table.table_uuid])}


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_what_commits_made_necessary_is_due_write_only_or_not(metastore: Metastore, write_only: str) -> None:
    table = make_table(metastore, options={"bucket": "4", "write-only": write_only})
    append(metastore, table, 1, names="abcde")
    append(metastore, table, 2, names="abcde", bucket=1)
    append(metastore, table, 3, names="abcd", bucket=2)
    planned = metastore.plan_compactions(table.table_uuid)
    assert planned.planned_until == 3
    # Those that became due by themselves wait already.
    assert planned.job_count == 2 if write_only == "true" else planned.job_count <= 2
    found = jobs(metastore, table)
    assert set(found) == {SCOPE, to_bucket_scope(b"", 1)}
    assert {job.payload[STRATEGY] for job in found.values()} == {DUE}
    assert metastore.plan_compactions(table.table_uuid, 3) == PlannedTable(3, 0)


def test_after_what_was_planned_only_what_is_new_is_looked_at(metastore: Metastore) -> None:
    table = make_table(metastore, options={"bucket": "4", "write-only": "true"})
    append(metastore, table, 1, names="abcde")
    first = metastore.plan_compactions(table.table_uuid)
    job = metastore.lease_job([COMPACT], [table.table_uuid], "me", duration_ms=60_000)
    assert job is not None
    metastore.finish_job(job.job_id, job.epoch, "nothing")
    append(metastore, table, 2, names="abcde", bucket=1)
    assert metastore.plan_compactions(table.table_uuid, first.planned_until) == PlannedTable(2, 1)
    assert jobs(metastore, table)[SCOPE].state is JobState.DONE
    # Whoever comes new, or knows another history, has all of it looked at.
    assert metastore.plan_compactions(table.table_uuid, 99) == PlannedTable(2, 1)
    assert jobs(metastore, table)[SCOPE].state is JobState.DUE


def test_small_files_of_a_write_only_table_are_counted_all_the_time(metastore: Metastore) -> None:
    options = {"write-only": "true", "compaction.min.file-num": "3"}
    table = make_table(metastore, keyed=False, options=options)
    append(metastore, table, 1, names="ab")
    assert metastore.plan_compactions(table.table_uuid) == PlannedTable(1, 1)
    (job,) = jobs(metastore, table).values()
    assert job.payload == {STRATEGY: DUE, ADDED_AFTER: "0", HAS_WAITED: "true"}
    assert job.remaining_ms > 0
    append(metastore, table, 2)
    assert metastore.plan_compactions(table.table_uuid, 1) == PlannedTable(2, 1)
    assert jobs(metastore, table)[SCOPE].remaining_ms == 0


def test_neighbours_of_a_write_only_table_are_found(metastore: Metastore) -> None:
    options = {"write-only": "true", "compaction.min.file-num": "3", "bucket": "2", "bucket-key": "id"}
    table = make_table(metastore, keyed=False, options=options)
    append(metastore, table, 1, names="ab", bucket=1)
    assert metastore.plan_compactions(table.table_uuid) == PlannedTable(1, 0)
    append(metastore, table, 2, bucket=1)
    assert metastore.plan_compactions(table.table_uuid, 1) == PlannedTable(2, 1)
    assert set(jobs(metastore, table)) == {to_bucket_scope(b"", 1)}


def test_a_table_without_commits_and_one_that_is_gone(metastore: Metastore) -> None:
    table = make_table(metastore, options={"bucket": "4", "write-only": "true"})
    assert metastore.plan_compactions(table.table_uuid) == PlannedTable(0, 0)
    metastore.drop_table(table.name)
    with pytest.raises(NotFound):
        metastore.plan_compactions(table.table_uuid)
    for wrong in ("", "x"):
        with pytest.raises(InvalidArgument, match="table_uuid"):
            metastore.plan_compactions(wrong)
    with pytest.raises(InvalidArgument, match="after"):
        metastore.plan_compactions(table.table_uuid, -1)


def test_the_queue_shows_what_is_not_done(metastore: Metastore) -> None:
    assert metastore.describe_queue() == []
    table = make_table(metastore)
    scopes = [to_bucket_scope(b"", number) for number in range(6)]
    metastore.request_jobs(table.table_uuid, COMPACT, scopes, {STRATEGY: MINOR})
    metastore.request_jobs(table.table_uuid, COMPACT, scopes[:4], {STRATEGY: FULL}, priority=5)
    taken = [metastore.lease_job([COMPACT], [], "me", duration_ms=60_000) for _ in range(4)]
    held, failed, resting, done = [job for job in taken if job is not None]
    assert held.state is JobState.LEASED
    metastore.fail_job(failed.job_id, failed.epoch, "damaged", final=True)
    metastore.fail_job(resting.job_id, resting.epoch, "the store is away")
    metastore.finish_job(done.job_id, done.epoch)
    (queue,) = metastore.describe_queue()
    assert 0 <= queue.oldest_due_ms < 60_000
    assert queue == JobQueue(COMPACT, 2, 1, 1, 1, queue.oldest_due_ms)
