"""Asking for work from several metastores on one database, while others take jobs and end them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, STRATEGY, Job, JobState, to_bucket_scope
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import open_in_process

SCOPES = [to_bucket_scope(b"", number) for number in range(6)]


class Forgetful(PostgresTransaction):
    """Control: what is asked for while a job is done is not remembered."""

    request_sql = PostgresTransaction.request_sql.replace(
        "requested = CASE j.state WHEN 'leased' THEN excluded.payload END", "requested = NULL"
    )


class ForgetfulStore(PostgresStore):
    transaction_type = Forgetful


def test_nothing_that_is_asked_for_is_lost_or_done_too_early(migrated_url: str) -> None:
    assert not ask_for_much(migrated_url, protected=True)


def test_what_is_not_remembered_is_lost(migrated_url: str) -> None:
    """The control: chance decides when the last request comes, so that it may take some rounds."""
    assert any(ask_for_much(migrated_url, protected=False) for _ in range(10))


def ask_for_much(migrated_url: str, *, protected: bool) -> list[Job]:
    """Jobs that were not done behind a request for them."""
    store_type = PostgresStore if protected else ForgetfulStore
    with (
        closing(open_in_process(migrated_url, store_type=store_type)) as first,
        closing(open_in_process(migrated_url, store_type=store_type)) as second,
    ):
        table = make_table(first)
        asking, working = threading.Event(), threading.Event()
        begun: dict[tuple[int, int], float] = {}
        strategies: dict[tuple[int, int], str] = {}

        def ask(metastore: Metastore, strategy: str) -> list[tuple[Job, str, float]]:
            asked = []
            for count in range(10_000):
                if asking.is_set():
                    break
                scopes = SCOPES[count % 3 :] if count % 2 else list(reversed(SCOPES))
                before_s = time.monotonic()
                jobs = metastore.request_jobs(table.table_uuid, COMPACT, scopes, {STRATEGY: strategy})
                asked += [(job, strategy, before_s) for job in jobs]
            return asked

        def work(metastore: Metastore) -> None:
            while not working.is_set():
                job = metastore.lease_job([COMPACT], [table.table_uuid], "w", duration_ms=60_000, wait_ms=50)
                if job is None:
                    continue
                begun[job.job_id, job.epoch] = time.monotonic()
                strategies[job.job_id, job.epoch] = job.payload[STRATEGY]
                if not protected:
                    # Most requests come while jobs are being done.
                    time.sleep(0.05)
                metastore.finish_job(job.job_id, job.epoch, work_left=job.epoch % 7 == 3)

        def write(metastore: Metastore) -> None:
            for count in range(1, 10_000):
                if asking.is_set():
                    break
                append(metastore, table, count)

        with ThreadPoolExecutor(6) as pool:
            askers = [pool.submit(ask, metastore, strategy) for metastore in (first, second)
                      for strategy in (MINOR, FULL)][:3]  # fmt: skip
            workers = [pool.submit(work, metastore) for metastore in (first, second)]
            writer = pool.submit(write, first)
            time.sleep(3)
            asking.set()
            asked = [each for call in askers for each in call.result(30)]
            writer.result(30)
            give_up_s = time.monotonic() + 20
            while time.monotonic() < give_up_s:
                jobs = {job.job_id: job for job in first.list_jobs([table.table_uuid])}
                if all(job.state is JobState.DONE for job in jobs.values()):
                    break
                time.sleep(0.05)
            working.set()
            for call in workers:
                call.result(30)
    assert len(jobs) == len(SCOPES)
    assert len(asked) > 100
    lost = [job for job, _, _ in asked if jobs[job.job_id].done_epoch <= job.epoch]
    if protected:
        # Somebody began with each behind the request, and did at least as much as it asked for.
        for job, strategy, before_s in asked:
            done = [epoch for (job_id, epoch) in begun if job_id == job.job_id and epoch > job.epoch]
            assert any(begun[job.job_id, epoch] > before_s for epoch in done)
            if strategy == FULL:
                assert strategies[job.job_id, min(done)] == FULL
    return lost
