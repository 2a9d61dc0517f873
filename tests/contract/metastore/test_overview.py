"""The overview: sums over what a caller may see, and what waits, as it was measured last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.jobs.job import COMPACT, FULL, MAX_ATTEMPTS, STRATEGY, to_bucket_scope
from lakelog.format.retention.consumer import ConsumerPosition
from metastore.testing import InProcessMetastore
from metastore.waiting_work import measuring
from tests.contract.metastore.planning import let_jobs_age, quiet
from tests.support.metastore.making import append, make_table


@pytest.fixture(params=["memory", "postgres"])
def quiet_metastore(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessMetastore]:
    monkeypatch.setattr(measuring, "MEASURE_EVERY_MS", 0)
    monkeypatch.setattr(measuring, "PAUSES", 0)
    with ExitStack() as stack:
        yield stack.enter_context(quiet(request, request.param))


def measure(metastore: InProcessMetastore) -> None:
    metastore.run(metastore.use_cases.work_measuring.step())


def test_it_sums_up_live_tables(metastore: Metastore) -> None:
    empty = metastore.get_overview()
    assert (empty.database_count, empty.table_count, empty.snapshot_count, empty.committed_at_ms) == (0, 0, 0, 0)
    assert abs(empty.now_ms - time.time_ns() // 1_000_000) < 10_000
    first, second = make_table(metastore), make_table(metastore)
    metastore.create_database("bare")
    for identifier, table in enumerate((first, first, second), start=1):
        append(metastore, table, identifier)
    found = metastore.get_overview()
    snapshots = [
        metastore.list_snapshots(table.table_uuid, limit=1, newest=True).snapshots[0] for table in (first, second)
    ]
    assert (found.database_count, found.table_count, found.snapshot_count) == (2, 2, 3)
    assert found.total_rows == sum(each.total_rows for each in snapshots) > 0
    assert found.total_files == sum(each.total_files for each in snapshots) > 0
    assert found.total_bytes == sum(each.total_bytes for each in snapshots) > 0
    assert found.committed_at_ms == max(each.committed_at_ms for each in snapshots)
    metastore.drop_table(second.name)
    assert metastore.get_overview().snapshot_count == 2


def test_it_names_what_waits(quiet_metastore: InProcessMetastore) -> None:
    metastore = quiet_metastore
    measure(metastore)
    assert metastore.get_overview().work is not None
    table = make_table(metastore)
    append(metastore, table, 1)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "a reader")
    metastore.advance_consumer("etl", [ConsumerPosition(table.table_uuid, opened.epoch, 1)])
    append(metastore, table, 2)
    metastore.request_jobs(table.table_uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    failed_id = 0
    for _ in range(MAX_ATTEMPTS):
        let_jobs_age(metastore, 600_000)
        job = metastore.lease_job([COMPACT], [], "c", duration_ms=60_000)
        assert job is not None
        failed_id = job.job_id
        metastore.fail_job(job.job_id, job.epoch, f"no room{' at all' * 200}")
    measure(metastore)
    found = metastore.get_overview()
    assert found.work is not None
    assert 0 <= found.work_age_ms < 10_000
    (failed,) = found.work.failed_jobs
    assert (failed.job_id, failed.table, failed.kind) == (failed_id, str(table.name), COMPACT)
    assert failed.reason.startswith("no room at all")
    assert len(failed.reason) == 500
    assert 0 <= failed.failed_ms < 10_000
    (consumers,) = found.work.consumers
    assert [(lag.consumer_id, lag.snapshots) for lag in consumers.named] == [("etl", 1)]
    metastore.drop_table(table.name)
    measure(metastore)
    left = metastore.get_overview().work
    assert left is not None
    assert (left.failed_jobs, left.consumers) == ((), ())
