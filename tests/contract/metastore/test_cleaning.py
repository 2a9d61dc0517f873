"""What dead writers have left is to be cleared away, also where nobody ever commits again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.format.jobs.due_job import FAILED_REST_MS
from lakelog.format.jobs.job import CLEAN, PURGE, Job, JobState
from lakelog.format.tables.table import TableInfo
from metastore.memory import MemoryStore
from metastore.postgres.store import PostgresTransaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import let_jobs_age, quiet, step
from tests.support.metastore.kept_tables import end_keeping
from tests.support.metastore.making import append, make_table


@pytest.fixture(params=["memory", "postgres"])
def opened(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as found:
        yield found


def let_attempts_be_old(monkeypatch: pytest.MonkeyPatch, *, aborted: bool = True, still_open: bool = True) -> None:
    """As if those were opened long ago."""
    if aborted:
        monkeypatch.setattr("metastore.jobs.cleaning.SETTLED_MS", 0)
    if still_open:
        monkeypatch.setattr("metastore.jobs.cleaning.ABANDONED_MS", 0)


def look(metastore: InProcessMetastore) -> int:
    return metastore.run(metastore.use_cases.cleaning.step())


def find_job(metastore: InProcessMetastore, table: TableInfo) -> Job | None:
    found = [each for each in metastore.list_jobs([table.table_uuid]) if each.kind == CLEAN]
    return found[0] if found else None


def stage(metastore: InProcessMetastore, *tables: TableInfo) -> str:
    return metastore.stage_attempt([each.table_uuid for each in tables], "w").attempt_id


def test_a_table_to_which_no_one_commits_any_more_is_cleared(
    opened: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, given_up, at_work = (make_table(opened) for _ in range(3))
    stage(opened, dead)
    opened.abandon_attempt(stage(opened, given_up))
    append(opened, at_work, 1)
    assert look(opened) == 0, "all of it is young"
    let_attempts_be_old(monkeypatch, still_open=False)
    assert look(opened) == 1
    let_attempts_be_old(monkeypatch)
    assert look(opened) == 1
    assert [find_job(opened, each) is not None for each in (dead, given_up, at_work)] == [True, True, False]
    # What is due is not made so once more.
    assert look(opened) == 0


def test_a_shared_attempt_has_both_tables_cleared(opened: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = make_table(opened), make_table(opened)
    stage(opened, one, other)
    let_attempts_be_old(monkeypatch)
    assert look(opened) == 2
    assert find_job(opened, one)
    assert find_job(opened, other)


def test_those_that_cannot_be_cleared_hold_up_no_other(
    opened: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step finds so many, and each further one others: also if the first ones fail again and again."""
    monkeypatch.setattr("metastore.jobs.cleaning._TABLES_A_STEP", 1)
    let_attempts_be_old(monkeypatch)
    tables = [make_table(opened) for _ in range(3)]
    for table in tables:
        stage(opened, table)
    assert look(opened) == 1
    job = opened.lease_job([CLEAN], [], "c", duration_ms=60_000)
    assert job is not None
    assert opened.fail_job(job.job_id, job.epoch, "no", final=True) is JobState.FAILED
    assert [look(opened) for _ in range(3)] == [1, 1, 0]
    assert all(find_job(opened, table) for table in tables)
    # It is tried once more when it has rested, though nobody commits.
    let_jobs_age(opened, FAILED_REST_MS)
    assert look(opened) == 1
    (found,) = [each for each in opened.list_jobs() if each.job_id == job.job_id]
    assert found.state is JobState.DUE


def test_what_is_cleared_or_dropped_is_not_looked_at_again(
    opened: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_attempts_be_old(monkeypatch)
    cleared, dropped = make_table(opened), make_table(opened)
    attempt = stage(opened, cleared)
    stage(opened, dropped)
    opened.drop_table(dropped.name)
    assert look(opened) == 1
    job = opened.lease_job([CLEAN], [], "c", duration_ms=60_000)
    assert job is not None
    assert look(opened) == 0, "somebody does it"
    opened.abort_attempts(cleared.table_uuid, [attempt], 0)
    opened.forget_attempts(cleared.table_uuid, [attempt])
    opened.finish_job(job.job_id, job.epoch)
    assert look(opened) == 0
    # Restored, it still has what was left.
    opened.restore_table(dropped.name)
    assert look(opened) == 1


def test_commits_do_not_look(opened: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    let_attempts_be_old(monkeypatch)
    table = make_table(opened)
    stage(opened, table)
    append(opened, table, 1)
    assert step(opened) == 1
    assert find_job(opened, table) is None


def test_an_attempt_that_a_purged_table_shared_is_forgotten_with_the_other(opened: InProcessMetastore) -> None:
    gone, other = make_table(opened), make_table(opened)
    shared, open_still = stage(opened, gone, other), stage(opened, gone, other)
    opened.abandon_attempt(shared)
    opened.drop_table(gone.name)
    end_keeping(opened, gone.table_uuid)
    purge = opened.lease_job([PURGE], [], "c", duration_ms=60_000)
    assert purge is not None
    opened.begin_purge(purge.job_id, purge.epoch)
    while opened.purge_rows(purge.job_id, purge.epoch):
        pass
    assert not opened.finish_job(purge.job_id, purge.epoch)
    opened.abort_attempts(other.table_uuid, [open_still], 0)
    assert opened.forget_attempts(other.table_uuid, [shared, open_still]) == 2
    # Nothing is left of them that nobody would ever clear away.
    assert count_attempts(opened) == 0


def count_attempts(metastore: InProcessMetastore) -> int:
    async def count() -> int:
        if isinstance(metastore.store, MemoryStore):
            return len(metastore.store._state.attempts)
        async with metastore.store.transaction() as transaction:
            assert isinstance(transaction, PostgresTransaction)
            found: int = (await transaction._session.read("SELECT count(*) FROM attempt"))[0][0]
            return found

    return metastore.run(count())
