"""Jobs and pending changelogs over several metastores on one database, and what the locks of Postgres are for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import LakelogError
from lakelog.format.jobs.job import Job
from lakelog.format.tables.snapshot import ChangelogState
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.changelog_jobs import KINDS, commit_open, lease, make_request
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.serving import serving


@pytest.fixture
def two(migrated_url: str) -> Iterator[tuple[InProcessMetastore, InProcessMetastore]]:
    with closing(open_in_process(migrated_url)) as first, closing(open_in_process(migrated_url)) as second:
        # Both listen by the time they have answered, and some more.
        second.list_databases()
        time.sleep(0.3)
        yield first, second


def test_a_waiter_at_another_metastore_is_notified(two: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    first, second = two
    table = make_table(first)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lease, second, table, wait_ms=20_000)
        time.sleep(0.3)
        began = time.monotonic()
        commit_open(first, table)
        assert waiting.result(15).table_uuid == table.table_uuid
        # By an announcement: without one it would have looked after ten seconds.
        assert time.monotonic() - began < 4


def test_watches_at_another_metastore_are_notified_of_what_is_attached(
    two: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    first, second = two
    table = make_table(first)
    commit_open(first, table)
    seen: list[int] = []
    watch = second.watch([WatchPosition(table.table_uuid, 0)], complete=True)
    plain = second.watch([WatchPosition(table.table_uuid, 0)])
    reader = threading.Thread(target=lambda: seen.extend(e.snapshot_id for each in watch for e in each.snapshots))
    reader.start()
    with closing(watch), closing(plain):
        assert next(iter(plain)).snapshots[0].snapshot_id == 1
        time.sleep(0.3)
        assert seen == []
        job = lease(first, table)
        first.attach_changelogs(make_request(first, table, job, [1]))
        give_up = time.monotonic() + 5
        while not seen and time.monotonic() < give_up:
            time.sleep(0.01)
        assert seen == [1]
    reader.join(5)


def test_a_job_that_is_locked_at_this_moment_is_had_without_waiting_for_jobs(
    two: tuple[InProcessMetastore, InProcessMetastore], migrated_url: str
) -> None:
    first, _ = two
    table = make_table(first)
    commit_open(first, table)
    with psycopg.connect(migrated_url.replace("+psycopg", "")) as planner:
        # As whoever makes it due once more.
        assert planner.execute("SELECT job_id FROM job FOR UPDATE").fetchall()
        end = threading.Timer(0.3, planner.rollback)
        end.start()
        assert first.lease_job(KINDS, [table.table_uuid], "me", duration_ms=1000, wait_ms=0) is not None
        end.join()


class WithoutJobLock(PostgresTransaction):
    """Control: finds a job without locking it."""

    lease_sql = PostgresTransaction.lease_sql.replace("FOR UPDATE OF j SKIP LOCKED", "")


class StoreWithoutJobLock(PostgresStore):
    transaction_type = WithoutJobLock


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_job_is_taken_by_one_no_matter_who_asks_at_the_same_time(migrated_url: str, protected: bool) -> None:
    store_type = PostgresStore if protected else StoreWithoutJobLock
    with closing(open_in_process(migrated_url, store_type=store_type)) as metastore:
        tables = [make_table(metastore) for _ in range(20)]
        for table in tables:
            commit_open(metastore, table)
        ready = threading.Barrier(8)

        def take_all(holder: str) -> list[Job]:
            ready.wait()
            found = []
            while (job := metastore.lease_job(KINDS, (), holder, duration_ms=60_000)) is not None:
                found.append(job)
            return found

        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(take_all, f"h{number}") for number in range(8)]
            taken = [job for call in calls for job in call.result()]
    once = sorted(job.table_uuid for job in taken) == sorted(table.table_uuid for table in tables)
    assert once is protected
    assert ({job.attempts for job in taken} == {1}) is protected


def test_commits_attachments_and_takeovers_never_wait_for_each_other_in_a_circle(
    two: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    table = make_table(two[0])
    ending = threading.Event()
    attached = [0]

    def write(metastore: Metastore, writer: str) -> int:
        count = 0
        while not ending.is_set():
            count += 1
            append(metastore, table, count, writer=writer, changelog=ChangelogState.PENDING)
        return count

    def compact(metastore: Metastore, holder: str) -> None:
        while not ending.is_set():
            job = metastore.lease_job(KINDS, [table.table_uuid], holder, duration_ms=1000, wait_ms=100)
            if job is None:
                continue
            first = metastore.list_snapshots(table.table_uuid, limit=1).first_pending_snapshot_id
            if first:
                metastore.attach_changelogs(make_request(metastore, table, job, [first]))
                attached[0] += 1
            metastore.finish_job(job.job_id, job.epoch)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, each, f"w{number}") for number, each in enumerate(two)]
        compactors = [pool.submit(compact, each, f"c{number}") for number, each in enumerate(two)]
        time.sleep(3)
        ending.set()
        written = sum(each.result(30) for each in writers)
        for call in compactors:
            call.result(30)
    page = two[0].list_snapshots(table.table_uuid, limit=1)
    assert page.latest_snapshot_id == written
    assert page.complete_until == attached[0] > 0


def test_any_process_that_waits_does_not_hold_up_a_server_that_ends(migrated_url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with serving(migrated_url) as target:
            metastore = GrpcMetastore(target)
            table = make_table(metastore)
            waiting = pool.submit(metastore.lease_job, KINDS, [table.table_uuid], "a", duration_ms=1000, wait_ms=25_000)
            time.sleep(0.5)
            began = time.monotonic()
        assert time.monotonic() - began < 8
        assert waiting.result(5) is None
        metastore.close()


def test_any_process_that_went_away_while_waiting_is_given_nothing(migrated_url: str) -> None:
    with serving(migrated_url) as target, closing(GrpcMetastore(target)) as metastore, ThreadPoolExecutor(1) as pool:
        table = make_table(metastore)
        gone = GrpcMetastore(target)
        call = pool.submit(gone.lease_job, KINDS, [table.table_uuid], "a", duration_ms=60_000, wait_ms=25_000)
        time.sleep(0.5)
        gone.close()
        with pytest.raises(LakelogError):
            call.result(5)
        time.sleep(0.3)
        commit_open(metastore, table)
        assert lease(metastore, table, holder="b").attempts == 1
