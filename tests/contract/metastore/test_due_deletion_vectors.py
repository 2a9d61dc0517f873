"""Marks that commits make due: of large buckets whose reads merge, once they are quiet, and never by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.format.commit.request import CommitRequest, RemoveEverything
from lakelog.format.compaction.deletion_vectors import QUIET_MS
from lakelog.format.jobs.job import DELETION_VECTORS, Job, JobState, parse_bucket_scope, to_bucket_scope
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.testing import InProcessMetastore
from tests.contract.metastore.compacting import BUCKET, bounds, files
from tests.contract.metastore.planning import let_jobs_age, quiet, step
from tests.contract.metastore.vector_building import build_vectors
from tests.support.metastore.making import append, compaction, day, make_change, make_file, make_table, rewrite

LARGE: dict[str, Any] = {"row_count": 1_000_000, "size_bytes": 16 << 20}
SCOPE = to_bucket_scope(b"", 0)


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


def due(metastore: InProcessMetastore, table: TableInfo) -> dict[str, Job]:
    """Plans; the table's marks that wait, by scope."""
    step(metastore)
    jobs = metastore.list_jobs([table.table_uuid])
    return {job.scope: job for job in jobs if job.kind == DELETION_VECTORS and job.state is JobState.DUE}


def take(metastore: InProcessMetastore) -> Job:
    let_jobs_age(metastore, QUIET_MS)
    job = metastore.lease_job([DELETION_VECTORS], [], "me", duration_ms=60_000)
    assert job is not None
    return job


def test_a_bucket_is_due_when_nothing_came_for_a_while(metastore: InProcessMetastore) -> None:
    table = make_table(metastore, partitioned=True)
    for number in (1, 2):
        append(metastore, table, number, partition=day("a"), bucket=2, **LARGE)
        append(metastore, table, number + 2, partition=day("b"), bucket=2)
    ((scope, job),) = due(metastore, table).items()
    assert parse_bucket_scope(scope) == (day("a"), 2)
    assert 0 < job.remaining_ms <= QUIET_MS
    assert job.payload == {}
    # A minute is nearly over; then something comes.
    let_jobs_age(metastore, QUIET_MS - 5_000)
    assert due(metastore, table)[scope].remaining_ms <= 5_000
    append(metastore, table, 9, partition=day("a"), bucket=2, **LARGE)
    assert due(metastore, table)[scope].remaining_ms > QUIET_MS - 5_000
    assert take(metastore).scope == scope


def test_what_comes_meanwhile_gets_deletion_vectors_later(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab", **LARGE)
    assert set(due(metastore, table)) == {SCOPE}
    job = take(metastore)
    append(metastore, table, 2, **LARGE)
    assert due(metastore, table) == {}
    assert metastore.finish_job(job.job_id, job.epoch, "done")
    assert due(metastore, table)[SCOPE].remaining_ms > QUIET_MS - 30_000


def test_deletion_vectors_make_nothing_due_and_what_comes_on_top_does(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab", **LARGE)
    assert due(metastore, table)
    job = take(metastore)
    # One of two sections: what is left is left.
    assert build_vectors(metastore, table, 1, ((2,), (1,))).dropped == ()
    metastore.finish_job(job.job_id, job.epoch, "done")
    assert due(metastore, table) == {}
    assert [file["deletion_vector_path"] is not None for file in files(metastore, table)] == [False, True]
    append(metastore, table, 2)
    assert set(due(metastore, table)) == {SCOPE}


def test_what_writers_looked_up_needs_no_later_deletion_vectors(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, **LARGE)
    attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
    knowing = make_file(attempt, deletion_vector_path="", **LARGE)
    change = make_change(table, [knowing], base_snapshot_id=1, unchanged_buckets=(BUCKET,))
    metastore.commit(CommitRequest("l", 1, (change,), attempt))
    assert due(metastore, table) == {}
    # A compaction below it has it merged again.
    rewrite(metastore, table, 1, 1, level=5, file=LARGE)
    assert due(metastore, table) == {}, "all but the oldest run is known by sums"
    append(metastore, table, 2)
    assert set(due(metastore, table)) == {SCOPE}


@pytest.mark.parametrize("options", [{"write-only": "true"}, {"num-sorted-run.compaction-trigger": "2"}, {}])
def test_who_is_left_alone(metastore: InProcessMetastore, options: dict[str, str]) -> None:
    """Write-only tables, buckets that are to be compacted, and those of one run."""
    table = make_table(metastore, options={"bucket": "4", **options})
    append(metastore, table, 1, names="ab" if options else "a", **LARGE)
    assert due(metastore, table) == {}


def test_runs_that_share_no_key_are_not_merged(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, **bounds(1, 4), **LARGE)
    append(metastore, table, 2, names="b", **bounds(5, 9), **LARGE)
    assert due(metastore, table) == {}
    append(metastore, table, 3, names="c", **bounds(4, 5))
    assert set(due(metastore, table)) == {SCOPE}


def test_levels_are_runs_whose_ends_are_those_of_their_files(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", **bounds(1, 4), **LARGE)
    append(metastore, table, 2, names="b", **bounds(7, 9), **LARGE)
    assert metastore.commit(CommitRequest("c", 1, (compaction(table, moves=(1, 2), level=5),))).results[0].dropped == ()
    append(metastore, table, 3, names="c", **bounds(10, 12))
    assert due(metastore, table) == {}
    append(metastore, table, 4, names="d", **bounds(9, 9))
    assert set(due(metastore, table)) == {SCOPE}


def test_what_is_taken_away_makes_nothing_due(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab", **LARGE)
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything())
    metastore.commit(CommitRequest("w", 2, (change,)))
    assert due(metastore, table) == {}
