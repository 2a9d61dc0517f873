"""What becomes of jobs of compaction that commits make due again: they wait, were asked for, or have failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.format.jobs.job import COMPACT, DUE, FULL, STRATEGY, DueJob, Job, JobState, to_bucket_scope
from metastore.jobs.requests import make_due
from metastore.store.transaction import run_transaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import compactions, let_jobs_age, quiet, step
from tests.support.metastore.making import append, make_table

SCOPE = to_bucket_scope(b"", 0)


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


def take(metastore: InProcessMetastore) -> Job:
    job = metastore.lease_job([COMPACT], [], "me", duration_ms=60_000)
    assert job is not None
    return job


def test_what_waits_already_is_not_made_due_again(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    before = compactions(metastore, table)[SCOPE]
    append(metastore, table, 2)
    step(metastore)
    assert compactions(metastore, table)[SCOPE] == before
    # Unless it saves reads much more by now.
    append(metastore, table, 3, names="abcdefghijklmnopqrstuvwxyz")
    step(metastore)
    assert compactions(metastore, table)[SCOPE].priority > before.priority


def test_a_damaged_bucket_is_left_in_peace_until_somebody_asks(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    job = take(metastore)
    # A commit that comes while it is done does not revive it either.
    append(metastore, table, 2)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].requested == {STRATEGY: DUE}
    assert metastore.fail_job(job.job_id, job.epoch, "data/x.parquet is damaged", final=True) is JobState.FAILED
    append(metastore, table, 3)
    step(metastore)
    failed = compactions(metastore, table)[SCOPE]
    assert (failed.state, failed.reason) == (JobState.FAILED, "data/x.parquet is damaged")
    metastore.retry_job(job.job_id)
    assert take(metastore).job_id == job.job_id


@pytest.mark.parametrize("minutes", [59, 61])
def test_a_job_that_failed_is_tried_once_an_hour_by_itself(metastore: InProcessMetastore, minutes: int) -> None:
    table = make_table(metastore)
    metastore.request_jobs(table.table_uuid, COMPACT, [SCOPE], {STRATEGY: FULL}, priority=50)
    job = take(metastore)
    metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
    let_jobs_age(metastore, minutes * 60_000)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    found = compactions(metastore, table)[SCOPE]
    if minutes < 60:
        assert found.state is JobState.FAILED
        return
    # What was asked for in vain is what is tried, and its reason stands until it went well.
    assert (found.state, found.payload, found.reason) == (JobState.DUE, {STRATEGY: FULL}, "damaged")
    job = take(metastore)
    assert metastore.fail_job(job.job_id, job.epoch, "damaged still", final=True) is JobState.FAILED
    append(metastore, table, 2)
    step(metastore)
    assert compactions(metastore, table)[SCOPE].state is JobState.FAILED


def test_a_request_is_not_weakened_by_commits(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    metastore.request_jobs(table.table_uuid, COMPACT, [SCOPE], {STRATEGY: FULL}, priority=50)
    append(metastore, table, 1, names="abcde")
    step(metastore)
    job = take(metastore)
    assert (job.payload[STRATEGY], job.priority) == (FULL, 50)


def test_a_full_compaction_that_waits_for_time_does_not_hold_up_what_is_due(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)

    async def delay() -> None:
        later = DueJob(1, COMPACT, SCOPE, 25, {STRATEGY: FULL}, 3_600_000)
        await run_transaction(metastore.store, lambda tx: make_due(tx, table.table_uuid, [later]))

    metastore.run(delay())
    assert compactions(metastore, table)[SCOPE].remaining_ms > 0
    append(metastore, table, 2, names="abcde")
    step(metastore)
    assert take(metastore).payload[STRATEGY] == FULL
