"""Full compactions that commits make due by their number (`full-compaction.delta-commits`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from lakelog.clock import SystemClock
from lakelog.format.commit.request import RemovePartitions
from lakelog.format.compaction.commit_count import CommitsSinceFull
from lakelog.format.jobs.job import CHANGELOG_PRIORITY, FULL, STRATEGY, JobState, parse_bucket_scope
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.jobs.due_full import plan_full_compactions
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.contract.metastore.deferring import PRODUCER, compact
from tests.contract.metastore.expiring import expire
from tests.support.metastore.making import append, day, make_change, make_table
from tests.support.metastore.opening import WAREHOUSE

from .compacting import commit, stage


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    open_store: Callable[[], Store] = lambda: MemoryStore(SystemClock())  # noqa: E731
    if request.param == "postgres":
        url = request.getfixturevalue("migrated_url")
        open_store = lambda: PostgresStore(url, pool_size=4)  # noqa: E731

    async def make_store() -> Store:
        return open_store()

    found = in_process(make_store, lambda store: UseCases(store, WAREHOUSE, planners=[plan_full_compactions]))
    # Nobody else plans meanwhile.
    found.stop_background()
    try:
        yield found
    finally:
        found.close()


def step(metastore: InProcessMetastore, table: TableInfo) -> list[tuple[bytes, int]]:
    """The buckets whose full compaction is due behind a step, and was not before; all that is due is done at once."""
    metastore.run(metastore.use_cases.due_work.step())
    due = []
    while job := metastore.lease_job(["compact"], [table.table_uuid], "c", duration_ms=60_000):
        assert job.payload == {STRATEGY: FULL}
        due.append(parse_bucket_scope(job.scope))
        metastore.finish_job(job.job_id, job.epoch)
    return sorted(due)


def test_each_commit_makes_the_buckets_that_it_wrote_due(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, options=PRODUCER)
    append(metastore, table, 1)
    append(metastore, table, 2, bucket=3)
    assert step(metastore, table) == [(b"", 0), (b"", 3)]
    append(metastore, table, 3, bucket=1)
    assert step(metastore, table) == [(b"", 1)]
    assert step(metastore, table) == []
    assert {job.priority for job in metastore.list_jobs()} == {CHANGELOG_PRIORITY}


def test_every_so_many_commits_cover_all_buckets_written_since(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True, options={**PRODUCER, "full-compaction.delta-commits": "3"})
    append(metastore, table, 1, partition=day("a"))
    append(metastore, table, 2, partition=day("b"), bucket=1)
    assert step(metastore, table) == []
    removal = RemovePartitions((day("a"),))
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=removal), 3)
    assert step(metastore, table) == [(day("a"), 0), (day("b"), 1)]
    append(metastore, table, 4, partition=day("b"), bucket=2)
    append(metastore, table, 5, partition=day("b"), bucket=2)
    assert step(metastore, table) == []
    append(metastore, table, 6, partition=day("b"), bucket=2)
    append(metastore, table, 7, partition=day("b"), bucket=3)
    assert step(metastore, table) == [(day("b"), 2), (day("b"), 3)]


def test_what_compacts_is_no_commit_of_data(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, options=PRODUCER)
    append(metastore, table, 1)
    step(metastore, table)
    assert compact(metastore, table, 2, (1,), "x", "t") == []
    assert step(metastore, table) == []
    append(metastore, table, 3, bucket=1)
    assert step(metastore, table) == [(b"", 1)]


def test_a_compaction_without_a_changelog_is_not_lost(metastore: InProcessMetastore) -> None:
    """What it wrote is still to be told, also when the entries of what it replaced are gone."""
    table = make_table(metastore, options={**PRODUCER, "full-compaction.delta-commits": "2"})
    append(metastore, table, 1, names="ab")
    step(metastore, table)
    assert compact(metastore, table, 2, (1, 2), "x", level=1, emits_changelog=False, is_full=False) == []
    append(metastore, table, 3, bucket=1)
    assert step(metastore, table) == [(b"", 0), (b"", 1)]


def test_write_only_and_other_tables(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, options={**PRODUCER, "write-only": "true"})
    append(metastore, table, 1)
    assert step(metastore, table) == []
    metastore.alter_table(table.table_uuid, set_options={"write-only": "false"}, unset_options=[])
    # What was written meanwhile is due now.
    assert step(metastore, table) == [(b"", 0)]
    append(metastore, table, 2, bucket=1)
    assert step(metastore, table) == [(b"", 1)]
    metastore.alter_table(table.table_uuid, set_options={"write-only": "true"}, unset_options=[])
    append(metastore, table, 3, bucket=2)
    assert step(metastore, table) == []
    # A compactor was started for it.
    metastore.plan_compactions(table.table_uuid)
    assert step(metastore, table) == [(b"", 2)]
    plain = make_table(metastore)
    append(metastore, plain, 1)
    assert step(metastore, plain) == []
    metastore.alter_table(plain.table_uuid, set_options={"full-compaction.delta-commits": "2"}, unset_options=[])
    append(metastore, plain, 2)
    assert step(metastore, plain) == []
    append(metastore, plain, 3)
    assert step(metastore, plain) == [(b"", 0)]
    assert stage(metastore, plain)


def test_what_no_commit_makes_due_is_so_after_a_while(metastore: InProcessMetastore) -> None:
    options = {**PRODUCER, "full-compaction.delta-commits": "10", "compaction.optimization-interval": "2 s"}
    table = make_table(metastore, options=options)
    append(metastore, table, 1)
    append(metastore, table, 2, bucket=2)
    assert step(metastore, table) == []
    (job,) = metastore.list_jobs([table.table_uuid])
    assert 0 < job.remaining_ms <= 2000
    time.sleep(job.remaining_ms / 1000 + 0.05)
    # The one that ends has the others found.
    assert step(metastore, table) == [(b"", 0)]
    assert step(metastore, table) == [(b"", 0), (b"", 2)]
    assert step(metastore, table) == []
    assert {job.state for job in metastore.list_jobs([table.table_uuid])} == {JobState.DONE}


def test_commits_that_expire_before_they_are_compacted_count_all_the_same(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, options={**PRODUCER, "full-compaction.delta-commits": "4"})
    append(metastore, table, 1)
    append(metastore, table, 2, bucket=1)
    assert step(metastore, table) == []
    # Before anybody has counted it, too.
    append(metastore, table, 3, bucket=2)
    append(metastore, table, 4, bucket=3)
    assert expire(metastore, table).earliest == 4
    assert step(metastore, table) == [(b"", 0), (b"", 1), (b"", 2), (b"", 3)]


def test_time_counts_from_a_commit_that_has_expired(metastore: InProcessMetastore) -> None:
    options = {**PRODUCER, "full-compaction.delta-commits": "10", "compaction.optimization-interval": "3 s"}
    table = make_table(metastore, options=options)
    append(metastore, table, 1)
    metastore.run(metastore.use_cases.due_work.step())
    time.sleep(1)
    append(metastore, table, 2, bucket=1)
    assert expire(metastore, table).earliest == 2
    metastore.run(metastore.use_cases.due_work.step())

    async def count() -> CommitsSinceFull | None:
        async with metastore.store.transaction() as tx:
            head = (await tx.find_heads([table.table_uuid]))[table.table_uuid]
            return await tx.find_full_count(head.table_id)

    known = metastore.run(count())
    assert known is not None
    second = metastore.list_snapshots(table.table_uuid).snapshots[0]
    assert known.first_ms is not None
    assert known.first_ms <= second.committed_at_ms - 1000
    give_up_s = time.monotonic() + 10
    while not (found := step(metastore, table)):
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
    assert found == [(b"", 0)]
    # The one that ends has the others found.
    assert step(metastore, table) == [(b"", 0), (b"", 1)]
