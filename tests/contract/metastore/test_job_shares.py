"""Who gets the next job: one large table does not keep all compactors from the others, and nothing waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.jobs.job import CHANGELOG_PRIORITY, COMPACT, MINOR, STRATEGY, Job, to_bucket_scope
from lakelog.format.tables.table import TableInfo
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import let_jobs_age, quiet
from tests.support.metastore.making import make_table
from tests.support.metastore.opening import open_in_process


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


def make(metastore: Metastore, max_jobs: int | None = None) -> TableInfo:
    more = {} if max_jobs is None else {"compaction.max-jobs": str(max_jobs)}
    return make_table(metastore, options={"bucket": "16", **more})


def ask(metastore: Metastore, table: TableInfo, count: int, priority: int = 0) -> None:
    scopes = [to_bucket_scope(b"", number) for number in range(count)]
    metastore.request_jobs(table.table_uuid, COMPACT, scopes, {STRATEGY: MINOR}, priority=priority)


def take(metastore: Metastore, wait_ms: int = 0) -> Job | None:
    return metastore.lease_job([COMPACT], [], "me", duration_ms=60_000, wait_ms=wait_ms)


@pytest.mark.parametrize(
    ("max_jobs", "order"), [(2, "LLS"), (4, "LLLLS"), (1000, "LLLLLLLLLLLLS"), (None, "LLLLLLLLS")]
)
def test_others_come_before_more_of_a_table_than_it_may_have(
    metastore: InProcessMetastore, max_jobs: int | None, order: str
) -> None:
    large, small = make(metastore, max_jobs), make(metastore)
    ask(metastore, large, 12, priority=40)
    ask(metastore, small, 1, priority=1)
    taken = []
    while (job := take(metastore)) is not None:
        taken.append("L" if job.table_uuid == large.table_uuid else "S")
    assert "".join(taken) == order


def test_with_the_end_of_one_the_next_may_be_had_at_once(metastore: InProcessMetastore) -> None:
    table = make(metastore, 1)
    ask(metastore, table, 3)
    for end in ("finish", "fail", "drop the lease"):
        job = take(metastore)
        assert job is not None
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(take, metastore, 20_000)
            time.sleep(0.2)
            assert not waiting.done()
            began_s = time.monotonic()
            if end == "finish":
                metastore.finish_job(job.job_id, job.epoch)
            elif end == "fail":
                metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
            else:
                metastore.heartbeat_job(job.job_id, job.epoch, 1000)
                # It is over then, and the same job is to be had again, or another one.
                let_jobs_age(metastore, 5_000)
                metastore.run(_notify(metastore))
            next_job = waiting.result(20)
        assert next_job is not None
        assert time.monotonic() - began_s < 5
        metastore.fail_job(next_job.job_id, next_job.epoch, "enough", final=True)
        metastore.retry_job(next_job.job_id)


async def _notify(metastore: InProcessMetastore) -> None:
    metastore.use_cases.jobs.due()


def test_who_waits_while_a_table_may_have_no_more_asks_seldom(metastore: InProcessMetastore) -> None:
    table = make(metastore, 1)
    ask(metastore, table, 3)
    assert take(metastore) is not None
    asked = 0
    transaction = metastore.store.transaction

    def count() -> object:
        nonlocal asked
        asked += 1
        return transaction()

    metastore.store.transaction = count  # type: ignore[method-assign, assignment]
    assert take(metastore, 500) is None
    assert asked <= 3


def test_what_has_waited_for_long_comes_before_what_is_due_now(metastore: InProcessMetastore) -> None:
    first, second = make(metastore), make(metastore)
    ask(metastore, first, 1, priority=10)
    let_jobs_age(metastore, 29 * 60_000)
    ask(metastore, second, 2, priority=40)
    job = take(metastore)
    assert job is not None
    assert job.table_uuid == second.table_uuid
    let_jobs_age(metastore, 40 * 60_000)
    ask(metastore, second, 4, priority=49)
    job = take(metastore)
    assert job is not None
    assert job.table_uuid == first.table_uuid


def test_who_asks_does_not_wait_for_what_is_due_by_itself_however_long_it_has_waited(
    metastore: InProcessMetastore,
) -> None:
    first, second = make(metastore), make(metastore)
    ask(metastore, first, 1, priority=49)
    let_jobs_age(metastore, 300 * 60_000)
    ask(metastore, second, 1, priority=50)
    job = take(metastore)
    assert job is not None
    assert job.table_uuid == second.table_uuid


def test_changelogs_that_never_end_leave_a_share_for_all_else(metastore: InProcessMetastore) -> None:
    reported, others, asked = make(metastore), make(metastore), make(metastore)
    ask(metastore, reported, 4, priority=CHANGELOG_PRIORITY)
    ask(metastore, others, 2, priority=10)
    ask(metastore, asked, 1, priority=50)
    names = {reported.table_uuid: "C", others.table_uuid: "o", asked.table_uuid: "A"}
    taken = ""
    for _ in range(40):
        job = take(metastore)
        assert job is not None
        taken += names[job.table_uuid]
        metastore.finish_job(job.job_id, job.epoch)
        if job.table_uuid == reported.table_uuid:
            # The next commit makes it due again: there is always one.
            metastore.request_jobs(
                reported.table_uuid, COMPACT, [job.scope], {STRATEGY: MINOR}, priority=CHANGELOG_PRIORITY
            )
    # Each eighth job is another, in their own order; where nothing else is due the changelogs do not wait for it.
    assert taken == "CCCCCCCACCCCCCCoCCCCCCCo" + "C" * 16


class Uncounted(PostgresTransaction):
    """Control: nobody counts once more behind the lock."""

    count_leased_sql = "SELECT false FROM (SELECT %s::text, %s::text) k"


class UncountedStore(PostgresStore):
    transaction_type = Uncounted


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_no_more_are_had_by_many_who_ask_at_the_same_time(migrated_url: str, protected: bool) -> None:
    """Chance decides in the control, so that it may take some rounds."""
    store_type = PostgresStore if protected else UncountedStore
    with closing(open_in_process(migrated_url, store_type=store_type)) as metastore:
        most = []
        for _ in range(3 if protected else 20):
            table = make(metastore, 2)
            ask(metastore, table, 16)
            ready = threading.Barrier(8)

            def take_one(ready: threading.Barrier = ready, table: TableInfo = table) -> Job | None:
                ready.wait()
                return metastore.lease_job([COMPACT], [table.table_uuid], "me", duration_ms=60_000)

            with ThreadPoolExecutor(8) as pool:
                calls = [pool.submit(take_one) for _ in range(8)]
                most.append(sum(call.result() is not None for call in calls))
            if not protected and most[-1] > 2:
                break
    assert (max(most) == 2) is protected
