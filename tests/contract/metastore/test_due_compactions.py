"""Compactions that commits make due: what is due, once, at the right time, and nothing else (semantics 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.format.commit.request import BucketRef, CommitRequest, CompactionGroup, RemoveEverything, RemoveFiles
from lakelog.format.compaction.due import COMPACT_AFTER_MS
from lakelog.format.jobs.job import (
    ADDED_AFTER,
    COMPACT,
    DUE,
    HAS_WAITED,
    REMOVED_ROWS,
    STRATEGY,
    Job,
    JobState,
    parse_bucket_scope,
    to_bucket_scope,
)
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.jobs import due_compactions
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import compactions, quiet, step, step_of_another
from tests.support.metastore.making import append, day, make_change, make_table, rewrite

MB = 1 << 20
SCOPE = to_bucket_scope(b"", 0)


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


def write(metastore: InProcessMetastore, table: TableInfo, first: int, count: int = 1, **file: Any) -> None:
    for number in range(first, first + count):
        append(metastore, table, number, **file)


def take(metastore: InProcessMetastore) -> Job:
    job = metastore.lease_job([COMPACT], [], "me", duration_ms=60_000)
    assert job is not None
    return job


def small_table(metastore: InProcessMetastore, **options: str) -> TableInfo:
    return make_table(metastore, keyed=False, options={"compaction.min.file-num": "3", **options})


# With a primary key.


def test_a_bucket_is_due_once_it_has_enough_sorted_runs(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True)
    write(metastore, table, 1, 4, partition=day("a"), bucket=2)
    write(metastore, table, 5, 4, partition=day("b"), bucket=2)
    assert step(metastore) == 1
    assert compactions(metastore, table) == {}
    write(metastore, table, 9, partition=day("a"), bucket=2)
    step(metastore)
    ((scope, job),) = compactions(metastore, table).items()
    assert parse_bucket_scope(scope) == (day("a"), 2)
    assert (job.state, job.payload, job.remaining_ms) == (JobState.DUE, {STRATEGY: DUE}, 0)
    assert 0 < job.priority < 50


def test_runs_are_files_of_level_0_and_levels_above_it(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcd")
    (result,) = rewrite(metastore, table, 2, 1, 2, 3, 4, names="x", level=5).results
    assert result.snapshot_id == 2
    append(metastore, table, 3, names="abc")
    step(metastore)
    assert compactions(metastore, table) == {}, "three files of level 0 and one level are four runs"
    append(metastore, table, 4)
    step(metastore)
    assert set(compactions(metastore, table)) == {SCOPE}


def test_only_the_buckets_that_were_touched_are_looked_at(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    job = take(metastore)
    metastore.finish_job(job.job_id, job.epoch, "nothing")
    # Its end has it planned again, but no commit has changed anything.
    step(metastore)
    append(metastore, table, 2, bucket=1)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].state is JobState.DONE
    append(metastore, table, 3)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].state is JobState.DUE


def test_what_is_taken_away_counts_as_well(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcde")
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
    metastore.commit(CommitRequest("w", 2, (change,)))
    step(metastore)
    assert compactions(metastore, table) == {}


@pytest.mark.parametrize("is_planned", [False, True], ids=["forgotten", "control"])
def test_what_died_with_a_metastore_is_found_by_the_next_one(metastore: InProcessMetastore, is_planned: bool) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcde")
    if is_planned:
        step(metastore)
        job = take(metastore)
        metastore.finish_job(job.job_id, job.epoch)
        step(metastore)
    assert step_of_another(metastore) == (not is_planned)
    state = compactions(metastore, table)[SCOPE].state
    assert state is (JobState.DONE if is_planned else JobState.DUE)


def test_options_that_change_make_other_buckets_due(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abc")
    append(metastore, table, 2, names="ab", bucket=1)
    step(metastore)
    assert compactions(metastore, table) == {}
    wanted = {"num-sorted-run.compaction-trigger": "3"}
    metastore.alter_table(table.table_uuid, set_options=wanted, unset_options=[])
    step(metastore)
    assert set(compactions(metastore, table)) == {SCOPE}


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_nothing_is_due_by_itself_in_a_write_only_table_until_it_is_none_any_more(
    metastore: InProcessMetastore, keyed: bool
) -> None:
    options = {"bucket": "4", "write-only": "true"} if keyed else {"write-only": "true"}
    table = make_table(metastore, keyed=keyed, options=options)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    append(metastore, table, 2)
    step(metastore)
    assert compactions(metastore, table) == {}
    metastore.alter_table(table.table_uuid, set_options={"write-only": "false"}, unset_options=[])
    step(metastore)
    assert set(compactions(metastore, table)) == {SCOPE}


# Without key and buckets.


def test_small_files_are_due_when_there_are_enough_of_them_over_several_commits(metastore: InProcessMetastore) -> None:
    table = small_table(metastore)
    write(metastore, table, 1, 3, size_bytes=200 * MB)
    write(metastore, table, 4)
    step(metastore)
    assert compactions(metastore, table) == {}, "a single file is never due"
    write(metastore, table, 5)
    step(metastore)
    (job,) = compactions(metastore, table).values()
    assert job.payload == {STRATEGY: DUE, ADDED_AFTER: "3", HAS_WAITED: "true"}
    assert COMPACT_AFTER_MS - 30_000 < job.remaining_ms <= COMPACT_AFTER_MS
    assert metastore.lease_job([COMPACT], [], "me", duration_ms=60_000) is None
    write(metastore, table, 6)
    step(metastore)
    assert take(metastore).payload == {STRATEGY: DUE, ADDED_AFTER: "3"}


def test_small_files_are_due_when_they_fill_a_file_together(metastore: InProcessMetastore) -> None:
    table = small_table(metastore, **{"compaction.min.file-num": "100"})
    write(metastore, table, 1, 3, size_bytes=160 * MB)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].remaining_ms > 0
    write(metastore, table, 4, size_bytes=20 * MB)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].remaining_ms == 0


def test_partitions_are_counted_apart(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True, keyed=False, options={"compaction.min.file-num": "3"})
    write(metastore, table, 1, 2, partition=day("a"))
    write(metastore, table, 3, 1, partition=day("b"))
    write(metastore, table, 4, 3, partition=day(None))
    step(metastore)
    remaining = {parse_bucket_scope(scope)[0]: job.remaining_ms for scope, job in compactions(metastore, table).items()}
    assert set(remaining) == {day("a"), day(None)}
    assert remaining[day(None)] == 0 < remaining[day("a")]


def test_what_compactions_and_overwrites_take_is_counted_no_more(metastore: InProcessMetastore) -> None:
    table = small_table(metastore)
    append(metastore, table, 1, names="abcd")
    step(metastore)
    job = take(metastore)
    # What is left are a file that is still small and one that came meanwhile.
    append(metastore, table, 2)
    rewrite(metastore, table, 3, 1, 2, 3, 4, file={"row_count": 40})
    step(metastore)
    held = compactions(metastore, table)[SCOPE]
    assert held.state is JobState.LEASED
    assert held.requested[ADDED_AFTER] == "1"
    metastore.finish_job(job.job_id, job.epoch, "rewrote 4 files")
    step(metastore)
    waiting = compactions(metastore, table)[SCOPE]
    # They wait for others from now on, not only from the end of the job.
    assert waiting.state is JobState.DUE
    assert waiting.payload == {STRATEGY: DUE, ADDED_AFTER: "1", HAS_WAITED: "true"}
    assert 0 < waiting.remaining_ms <= COMPACT_AFTER_MS
    append(metastore, table, 4)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].remaining_ms == 0
    job = take(metastore)
    metastore.finish_job(job.job_id, job.epoch)
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
    metastore.commit(CommitRequest("w", 5, (change,)))
    append(metastore, table, 6)
    append(metastore, table, 7)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].payload == {STRATEGY: DUE, ADDED_AFTER: "5", HAS_WAITED: "true"}


def test_small_files_are_counted_again_when_another_size_is_small(metastore: InProcessMetastore) -> None:
    table = small_table(metastore, **{"target-file-size": "10 mb"})
    write(metastore, table, 1, 3, size_bytes=8 * MB)
    step(metastore)
    assert compactions(metastore, table) == {}
    metastore.alter_table(table.table_uuid, set_options={"target-file-size": "100 mb"}, unset_options=[])
    step(metastore)
    assert compactions(metastore, table)[SCOPE].remaining_ms == 0


def test_a_plan_lists_only_small_files_added_since(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True, keyed=False, options={})
    for number, (partition, size) in enumerate([("a", 1), ("a", 9), ("b", 2), ("a", 3), ("a", 4)], 1):
        write(metastore, table, number, partition=day(partition), size_bytes=size)
    rewrite(metastore, table, 6, 5, file={"partition": day("a"), "size_bytes": 5})

    def listed(**request: Any) -> list[int]:
        found: list[int] = metastore.plan(PlanRequest(table.table_uuid, **request)).files["size_bytes"].to_pylist()
        return sorted(found)

    assert listed() == [1, 2, 3, 5, 9]
    assert listed(below_bytes=5) == [1, 2, 3]
    assert listed(below_bytes=6, added_after=1) == [2, 3, 5]
    assert listed(below_bytes=6, added_after=1, partitions=(day("a"),)) == [3, 5]
    assert listed(added_after=4) == [5]


def test_of_very_many_buckets_those_that_save_most_are_due_first_and_the_others_after_them(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_compactions, "_JOBS_TOGETHER", 4)
    table = make_table(metastore, buckets=16)
    for bucket in range(10):
        append(metastore, table, bucket, names="abcdefghijklmnop"[: 5 + bucket], bucket=bucket)
    step(metastore)
    done: list[int] = []
    assert len(compactions(metastore, table)) == 4
    while (job := metastore.lease_job([COMPACT], [], "me", duration_ms=60_000)) is not None:
        done.append(parse_bucket_scope(job.scope)[1])
        assert len([each for each in compactions(metastore, table).values() if each.state is JobState.DUE]) <= 6
        change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles(_files(metastore, table, done[-1])))
        metastore.commit(CommitRequest("w", 100 + len(done), (change,)))
        metastore.finish_job(job.job_id, job.epoch)
        step(metastore)
    assert sorted(done) == list(range(10))
    assert set(done[:4]) == {6, 7, 8, 9}
    assert step(metastore) == 0


def _files(metastore: InProcessMetastore, table: TableInfo, bucket: int) -> tuple[int, ...]:
    return tuple(metastore.plan(PlanRequest(table.table_uuid, buckets=(bucket,))).files["file_id"].to_pylist())


# Without a key, with buckets.


def test_neighbours_are_due_in_a_bucket(metastore: InProcessMetastore) -> None:
    table = small_table(metastore, **{"bucket": "4", "bucket-key": "id"})
    write(metastore, table, 1, 2, bucket=3)
    write(metastore, table, 3, 1, bucket=3, size_bytes=600 * MB)
    write(metastore, table, 4, 2, bucket=3)
    step(metastore)
    assert compactions(metastore, table) == {}, "large files stand between them"
    write(metastore, table, 6, 1, bucket=3)
    step(metastore)
    assert set(compactions(metastore, table)) == {to_bucket_scope(b"", 3)}


def test_only_the_end_of_a_bucket_is_looked_at_again(metastore: InProcessMetastore) -> None:
    table = small_table(metastore, **{"bucket": "4", "bucket-key": "id"})
    write(metastore, table, 1, 50, size_bytes=300 * MB)
    step(metastore)
    looked: list[int] = []
    kind = type(metastore.run(_open(metastore)))
    original = kind.load_bucket_tails

    async def load(self: Any, *arguments: Any) -> Any:
        found = await original(self, *arguments)
        looked.append(found.num_rows)
        return found

    kind.load_bucket_tails = load
    try:
        write(metastore, table, 51, 1)
        step(metastore)
        write(metastore, table, 52, 1)
        step(metastore)
    finally:
        kind.load_bucket_tails = original
    assert looked == [2, 3], "the last large one, and what came behind it"


async def _open(metastore: InProcessMetastore) -> Any:
    async with metastore.store.transaction() as transaction:
        return transaction


# Rows that were removed by position.


def remove(
    metastore: InProcessMetastore, table: TableInfo, identifier: int, file_id: int, count: int, bucket: int = 0
) -> None:
    attempt = metastore.stage_attempt([table.table_uuid], "r").attempt_id
    group = CompactionGroup(
        BucketRef(b"", bucket),
        vector_files=(file_id,),
        deletion_vector_path=f"data/{attempt}/removed.parquet",
        delete_counts=(count,),
    )
    change = make_change(table, kind=SnapshotKind.OVERWRITE, groups=(group,))
    metastore.commit(CommitRequest("r", identifier, (change,), attempt))


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "id"}])
def test_a_file_is_due_once_a_fifth_of_its_rows_is_gone(metastore: InProcessMetastore, options: dict[str, str]) -> None:
    table = make_table(metastore, keyed=False, options={"compaction.min.file-num": "9", **options})
    write(metastore, table, 1, 2, size_bytes=1 << 30)
    remove(metastore, table, 1, 1, 1)
    step(metastore)
    assert compactions(metastore, table) == {}
    remove(metastore, table, 2, 3, 2)
    step(metastore)
    ((scope, job),) = compactions(metastore, table).items()
    assert (scope, job.payload[REMOVED_ROWS], job.remaining_ms) == (SCOPE, "true", 0)
