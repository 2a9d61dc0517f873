"""Each end of a job that did something is kept for a while: when, how long, by whom, with which result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, InvalidArgument
from lakelog.format.jobs.job import COMPACT, EXPIRE, FULL, STRATEGY, Job
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.tables.table import TableInfo
from metastore.memory import MemoryStore
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore
from tests.contract.metastore.changelog_jobs import commit_open
from tests.support.metastore.making import make_table
from tests.support.metastore.opening import open_in_process, open_memory


def take(
    metastore: Metastore, table: TableInfo, scope: str = "/0", *, holder: str = "a", duration_ms: int = 60_000
) -> Job:
    metastore.request_jobs(table.table_uuid, COMPACT, [scope], {STRATEGY: FULL})
    return lease(metastore, table, holder=holder, duration_ms=duration_ms)


def lease(metastore: Metastore, table: TableInfo, *, holder: str = "a", duration_ms: int = 60_000) -> Job:
    job = metastore.lease_job([COMPACT], [table.table_uuid], holder, duration_ms=duration_ms, wait_ms=10_000)
    assert job is not None
    return job


def list_runs(metastore: Metastore, table: TableInfo, **arguments: Any) -> list[JobRun]:
    return metastore.list_job_runs([table.table_uuid], **arguments)


def describe(runs: list[JobRun]) -> list[tuple[str, str]]:
    return [(run.result.value, run.message) for run in runs]


def test_a_run_says_who_did_what_and_how_long_it_took(metastore: Metastore) -> None:
    table = make_table(metastore)
    assert list_runs(metastore, table) == []
    job = take(metastore, table, holder="host/compactor")
    assert list_runs(metastore, table) == []
    assert metastore.heartbeat_job(job.job_id, job.epoch, 60_000)
    metastore.finish_job(job.job_id, job.epoch, "rewrote 3 files (1 MiB) into 1 (900 KiB)")
    (run,) = list_runs(metastore, table)
    assert (run.job_id, run.kind, run.scope, run.epoch) == (job.job_id, COMPACT, "/0", job.epoch)
    assert (run.table_uuid, run.table, run.holder) == (table.table_uuid, str(table.name), "host/compactor")
    assert (run.result, run.message) == (RunResult.DONE, "rewrote 3 files (1 MiB) into 1 (900 KiB)")
    assert run.started_at_ms == job.updated_at_ms
    assert run.duration_ms is not None
    assert 0 <= run.duration_ms < 60_000
    assert run in metastore.list_job_runs()


def test_each_way_to_end_is_one_result(metastore: Metastore) -> None:
    table = make_table(metastore)
    job = take(metastore, table)
    metastore.finish_job(job.job_id, job.epoch, "half of it", work_left=True)
    job = lease(metastore, table)
    metastore.fail_job(job.job_id, job.epoch, "the disk is full")
    metastore.retry_job(job.job_id)
    job = lease(metastore, table, duration_ms=1000)
    job = lease(metastore, table, holder="b")
    metastore.finish_job(job.job_id, job.epoch, "did it")
    runs = list_runs(metastore, table)
    assert describe(runs) == [
        ("done", "did it"),
        ("lost", ""),
        ("failed", "the disk is full"),
        ("given back", "half of it"),
    ]
    assert [run.holder for run in runs] == ["b", "a", "a", "a"]
    assert sorted({run.run_id for run in runs}, reverse=True) == [run.run_id for run in runs]
    lost = runs[1]
    assert lost.duration_ms is not None
    assert 900 < lost.duration_ms < 30_000
    bad = list_runs(metastore, table, results=[RunResult.FAILED, RunResult.LOST])
    assert describe(bad) == [("lost", ""), ("failed", "the disk is full")]
    assert describe(list_runs(metastore, table, results=[RunResult.DONE])) == [("done", "did it")]


def test_what_found_nothing_to_do_or_was_fenced_is_no_run(metastore: Metastore) -> None:
    table = make_table(metastore)
    job = take(metastore, table)
    metastore.finish_job(job.job_id, job.epoch)
    job = take(metastore, table)
    with pytest.raises(Fenced):
        metastore.finish_job(job.job_id, job.epoch - 1, "a zombie")
    with pytest.raises(Fenced):
        metastore.fail_job(job.job_id, job.epoch - 1, "a zombie")
    assert list_runs(metastore, table) == []
    metastore.finish_job(job.job_id, job.epoch, "did it")
    with pytest.raises(Fenced):
        metastore.finish_job(job.job_id, job.epoch, "twice")
    assert describe(list_runs(metastore, table)) == [("done", "did it")]


def test_pages_and_filters(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    for number in range(5):
        job = take(metastore, table, f"/{number % 2}")
        metastore.finish_job(job.job_id, job.epoch, f"run {number}")
    job = take(metastore, other)
    metastore.finish_job(job.job_id, job.epoch, "another's")
    messages = [run.message for run in list_runs(metastore, table)]
    assert messages == ["run 4", "run 3", "run 2", "run 1", "run 0"]
    seen: list[JobRun] = []
    while page := list_runs(metastore, table, before=seen[-1].run_id if seen else 0, limit=2):
        assert len(page) <= 2
        seen += page
    assert [run.message for run in seen] == messages
    first = next(run for run in seen if run.scope == "/1").job_id
    assert [run.message for run in metastore.list_job_runs(job_id=first)] == ["run 3", "run 1"]
    assert metastore.list_job_runs([other.table_uuid], job_id=first) == []
    assert metastore.list_job_runs(job_id=2**60) == []
    assert metastore.list_job_runs(["0" * 32]) == []
    assert list_runs(metastore, table, kinds=[EXPIRE]) == []
    both = metastore.list_job_runs([table.table_uuid, other.table_uuid], limit=2)
    assert [run.message for run in both] == ["another's", "run 4"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"before": -1}, "before"),
        ({"before": 2**62}, "before"),
        ({"job_id": -1}, "job_id"),
        ({"kinds": ["<b>"]}, "kinds"),
        ({"table_uuids": ["x"]}, "table_uuids"),
    ],
)
def test_what_makes_no_sense_is_refused(metastore: Metastore, arguments: Mapping[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        metastore.list_job_runs(**arguments)
    assert error.value.metadata["field"] == field


def test_what_people_wrote_comes_back_as_it_was(metastore: Metastore) -> None:
    table = make_table(metastore)
    job = take(metastore, table, holder="<script>'; DROP TABLE job_run; --")
    message = "'\"\\ 🦆 <img src=x> %s {} \n" + "x" * 4000
    metastore.fail_job(job.job_id, job.epoch, message, final=True)
    (run,) = list_runs(metastore, table)
    assert (run.holder, run.message) == (job.holder, message)


def test_runs_of_a_dropped_table_come_back_with_it_and_go_with_it(brief_metastore: Metastore) -> None:
    metastore = brief_metastore
    table = make_table(metastore)
    job = take(metastore, table)
    metastore.finish_job(job.job_id, job.epoch, "did it")
    commit_open(metastore, table)
    metastore.drop_table(table.name)
    purge = metastore.lease_job(["purge"], [table.table_uuid], "a", duration_ms=60_000, wait_ms=10_000)
    assert purge is not None
    metastore.begin_purge(purge.job_id, purge.epoch)
    while metastore.purge_rows(purge.job_id, purge.epoch):
        pass
    metastore.finish_job(purge.job_id, purge.epoch, "purged")
    assert list_runs(metastore, table) == []


@pytest.fixture(params=["memory", "postgres"])
def opened(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        with open_memory(request) as metastore:
            yield metastore
        return
    metastore = open_in_process(request.getfixturevalue("migrated_url"))
    try:
        yield metastore
    finally:
        metastore.close()


def forget(metastore: InProcessMetastore, after: str, most: int, age_ms: int, limit: int) -> tuple[str, list[str]]:
    async def step() -> tuple[str, list[str]]:
        store: Store = metastore.store
        assert isinstance(store, MemoryStore | PostgresStore)
        async with store.transaction() as tx:
            return await tx.forget_old_runs(after, most, age_ms, limit)

    return metastore.run(step())


def test_only_the_newest_are_kept_and_failures_are_not_pushed_out_by_good_ones(opened: InProcessMetastore) -> None:
    opened.stop_background()
    tables = [make_table(opened) for _ in range(3)]
    for table in tables:
        for number in range(2):
            job = take(opened, table)
            opened.fail_job(job.job_id, job.epoch, f"failure {number}", final=True)
        for number in range(4):
            job = take(opened, table)
            opened.finish_job(job.job_id, job.epoch, f"run {number}")
    month_ms = 30 * 86_400_000
    after, removed = forget(opened, "", 3, month_ms, 2)
    assert (after != "", len(removed)) == (True, 2)
    after, removed = forget(opened, after, 3, month_ms, 2)
    assert (after, len(removed)) == ("", 1)
    for table in tables:
        assert [run.message for run in list_runs(opened, table)] == [
            "run 3",
            "run 2",
            "run 1",
            "failure 1",
            "failure 0",
        ]
    forget(opened, "", 1, month_ms, 10)
    assert [run.message for run in list_runs(opened, tables[0])] == ["run 3", "failure 1"]
    assert forget(opened, "", 1, month_ms, 10) == ("", [])
    # None is as young as that.
    forget(opened, "", 1, -60_000, 10)
    assert opened.list_job_runs() == []


def test_the_step_beside_the_requests_goes_round(opened: InProcessMetastore) -> None:
    opened.stop_background()
    table = make_table(opened)
    job = take(opened, table)
    opened.finish_job(job.job_id, job.epoch, "did it")
    for _ in range(3):
        assert opened.run(opened.use_cases.old_runs.step()) == []
    assert len(list_runs(opened, table)) == 1
