"""Work that is asked for: due at once, never weakened, never lost."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, STRATEGY, Job, JobState, to_bucket_scope
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import day, make_table

SCOPE = to_bucket_scope(b"", 0)


def ask(metastore: Metastore, table: TableInfo, strategy: str = MINOR, *scopes: str, priority: int = 0) -> list[Job]:
    return metastore.request_jobs(table.table_uuid, COMPACT, scopes or [SCOPE], {STRATEGY: strategy}, priority=priority)


def take(metastore: Metastore, table: TableInfo, *, duration_ms: int = 60_000, wait_ms: int = 0) -> Job:
    job = metastore.lease_job([COMPACT], [table.table_uuid], "a", duration_ms=duration_ms, wait_ms=wait_ms)
    assert job is not None
    return job


def find(metastore: Metastore, table: TableInfo) -> Job:
    (job,) = metastore.list_jobs([table.table_uuid])
    return job


def test_jobs_that_are_asked_for_are_due_at_once_in_the_order_of_their_scopes(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    scopes = [to_bucket_scope(day(text), bucket) for text in ("b", "a", None) for bucket in (3, 0)]
    jobs = ask(metastore, table, FULL, *scopes, priority=7)
    assert [job.scope for job in jobs] == scopes
    for job in jobs:
        assert (job.table_uuid, job.table, job.kind) == (table.table_uuid, str(table.name), COMPACT)
        assert (job.state, job.priority, job.payload, job.remaining_ms) == (JobState.DUE, 7, {STRATEGY: FULL}, 0)
        assert (job.attempts, job.epoch, job.done_epoch, job.requested) == (0, 0, 0, {})
    assert sorted(metastore.list_jobs([table.table_uuid]), key=lambda job: job.job_id) == sorted(
        jobs, key=lambda job: job.job_id
    )
    assert len({job.job_id for job in jobs}) == len(scopes)
    # Asked for again, they are the same jobs.
    again = ask(metastore, table, FULL, *reversed(scopes))
    assert [job.job_id for job in again] == [job.job_id for job in reversed(jobs)]


def test_what_was_asked_for_is_done_once_its_epoch_is(metastore: Metastore) -> None:
    table = make_table(metastore)
    (asked,) = ask(metastore, table)
    job = take(metastore, table)
    assert job.payload == {STRATEGY: MINOR}
    assert not metastore.finish_job(job.job_id, job.epoch, "rewrote 3 files")
    done = find(metastore, table)
    assert (done.state, done.outcome, done.done_epoch) == (JobState.DONE, "rewrote 3 files", job.epoch)
    assert done.done_epoch > asked.epoch
    # A job that is done does what is asked for now, and nothing of what was before.
    ask(metastore, table, FULL)
    assert find(metastore, table).payload == {STRATEGY: FULL}
    full = take(metastore, table)
    metastore.finish_job(full.job_id, full.epoch)
    (last,) = ask(metastore, table, MINOR)
    assert (last.state, last.payload) == (JobState.DUE, {STRATEGY: MINOR})
    assert last.epoch == last.done_epoch == full.epoch > job.epoch


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "control"])
def test_what_is_asked_for_while_a_job_is_done_is_done_after_it(metastore: Metastore, is_asked: bool) -> None:
    table = make_table(metastore)
    ask(metastore, table, MINOR)
    job = take(metastore, table)
    if is_asked:
        (asked,) = ask(metastore, table, FULL, priority=9)
        assert (asked.job_id, asked.state, asked.epoch) == (job.job_id, JobState.LEASED, job.epoch)
        assert asked.holder == "a"
        assert (asked.payload, asked.requested, asked.priority) == ({STRATEGY: MINOR}, {STRATEGY: FULL}, 9)
        assert 50_000 < asked.remaining_ms <= 60_000
        # Several times is once, and the strongest.
        ask(metastore, table, MINOR)
        assert find(metastore, table).requested == {STRATEGY: FULL}
    assert metastore.heartbeat_job(job.job_id, job.epoch, 30_000) == 30_000
    assert metastore.finish_job(job.job_id, job.epoch, "minor") is is_asked
    found = find(metastore, table)
    assert found.requested == {}
    assert found.done_epoch == job.epoch
    if not is_asked:
        assert found.state is JobState.DONE
        return
    assert (found.state, found.payload, found.remaining_ms) == (JobState.DUE, {STRATEGY: FULL}, 0)
    again = take(metastore, table)
    assert again.payload == {STRATEGY: FULL}
    assert again.epoch > job.epoch
    assert not metastore.finish_job(again.job_id, again.epoch)
    assert find(metastore, table).done_epoch > asked.epoch


def test_what_waits_is_not_weakened(metastore: Metastore) -> None:
    table = make_table(metastore)
    ask(metastore, table, MINOR, priority=3)
    assert ask(metastore, table, FULL, priority=1)[0].payload == {STRATEGY: FULL}
    (job,) = ask(metastore, table, MINOR)
    assert (job.payload, job.priority) == ({STRATEGY: FULL}, 3)
    assert take(metastore, table).payload == {STRATEGY: FULL}


def test_what_failed_or_rests_is_due_at_once_when_it_is_asked_for(metastore: Metastore) -> None:
    table = make_table(metastore)
    ask(metastore, table, FULL)
    job = take(metastore, table)
    metastore.fail_job(job.job_id, job.epoch, "the store is away")
    assert find(metastore, table).remaining_ms > 0
    (rested,) = ask(metastore, table)
    assert (rested.state, rested.remaining_ms, rested.attempts, rested.payload) == (
        JobState.DUE,
        0,
        0,
        {STRATEGY: FULL},
    )
    job = take(metastore, table)
    metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
    (failed,) = ask(metastore, table)
    assert (failed.state, failed.remaining_ms, failed.epoch) == (JobState.DUE, 0, job.epoch)
    assert take(metastore, table).attempts == 1


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "control"])
def test_what_is_asked_for_while_a_job_fails_for_good_is_tried_for_itself(metastore: Metastore, is_asked: bool) -> None:
    table = make_table(metastore)
    ask(metastore, table, FULL)
    job = take(metastore, table)
    if is_asked:
        ask(metastore, table, MINOR)
    state = metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
    found = find(metastore, table)
    assert state is found.state is (JobState.DUE if is_asked else JobState.FAILED)
    # Neither was done.
    assert (found.payload, found.requested, found.reason) == ({STRATEGY: FULL}, {}, "damaged")
    assert found.done_epoch == 0
    if is_asked:
        assert take(metastore, table, wait_ms=5000).attempts == 1


def test_any_process_that_takes_a_job_over_does_what_was_asked_for_since(metastore: Metastore) -> None:
    table = make_table(metastore)
    ask(metastore, table, MINOR)
    zombie = take(metastore, table, duration_ms=1000)
    ask(metastore, table, FULL)
    job = take(metastore, table, wait_ms=5000)
    assert (job.payload, job.requested) == ({STRATEGY: FULL}, {})
    assert job.epoch > zombie.epoch
    assert find(metastore, table).payload == {STRATEGY: FULL}
    assert not metastore.finish_job(job.job_id, job.epoch)


def test_what_was_asked_for_of_a_job_that_is_abandoned_is_not_lost_when_a_person_retries_it(
    metastore: Metastore,
) -> None:
    table = make_table(metastore)
    ask(metastore, table, MINOR)
    job = take(metastore, table, duration_ms=1000)
    ask(metastore, table, FULL)
    time.sleep(1.1)
    metastore.retry_job(job.job_id)
    assert (find(metastore, table).payload, find(metastore, table).requested) == ({STRATEGY: FULL}, {})
    assert ask(metastore, table, MINOR)[0].payload == {STRATEGY: FULL}


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "control"])
def test_a_job_whose_holders_vanish_is_tried_again_only_if_asked_for(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    monkeypatch.setattr("metastore.jobs.jobs.MAX_ATTEMPTS", 1)
    table = make_table(metastore)
    ask(metastore, table)
    take(metastore, table, duration_ms=1000)
    if is_asked:
        ask(metastore, table)
    job = metastore.lease_job([COMPACT], [table.table_uuid], "b", duration_ms=1000, wait_ms=2000)
    assert (job is not None) is is_asked


def test_what_is_given_back_before_its_end_is_still_to_be_done(metastore: Metastore) -> None:
    table = make_table(metastore)
    (asked,) = ask(metastore, table, FULL)
    job = take(metastore, table)
    ask(metastore, table, MINOR)
    assert metastore.finish_job(job.job_id, job.epoch, "rewrote 1 of 9 files", work_left=True)
    left = find(metastore, table)
    assert (left.state, left.remaining_ms, left.attempts) == (JobState.DUE, 0, 0)
    assert (left.payload, left.requested, left.done_epoch) == ({STRATEGY: FULL}, {}, asked.epoch)
    assert left.outcome == "rewrote 1 of 9 files"


def test_a_waiter_is_notified_of_what_is_requested(metastore: Metastore) -> None:
    table = make_table(metastore)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(take, metastore, table, wait_ms=20_000)
        time.sleep(0.3)
        assert not waiting.done()
        began = time.monotonic()
        ask(metastore, table)
        assert waiting.result(5).scope == SCOPE
        assert time.monotonic() - began < 3


def test_nothing_is_asked_of_a_table_that_was_dropped(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    ask(metastore, other)
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match="dropped") as found:
        ask(metastore, table)
    assert found.value.reason == "TABLE_NOT_FOUND"
    assert [job for job in metastore.list_jobs([table.table_uuid]) if job.kind == COMPACT] == []


def test_the_largest_partition_has_jobs_too(metastore: Metastore) -> None:
    table = make_table(metastore)
    # Bytes that cannot be compressed: what is stored is as long as it looks.
    partition = random.Random(7).randbytes(MAX_PARTITION_BYTES)
    scopes = [to_bucket_scope(partition, bucket) for bucket in (0, 1)]
    first = ask(metastore, table, MINOR, *scopes)
    assert [job.scope for job in first] == scopes
    assert [job.job_id for job in ask(metastore, table, FULL, *scopes)] == [job.job_id for job in first]


def test_thousands_are_asked_for_at_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    scopes = [to_bucket_scope(b"", number) for number in range(4000)]
    assert [job.scope for job in ask(metastore, table, MINOR, *scopes)] == scopes
    with pytest.raises(InvalidArgument, match=r"4001 scopes.*Name 1 to 4000"):
        ask(metastore, table, MINOR, *scopes, "/4000")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table_uuid": "x"}, "table_uuid is 'x'"),
        ({"kind": "changelog"}, r"kind is 'changelog'. Only jobs of the kind 'compact' can be asked for"),
        ({"kind": ""}, "Only jobs of the kind 'compact'"),
        ({"scopes": ()}, "0 scopes"),
        ({"scopes": ("",)}, "'' names no bucket"),
        ({"scopes": ("AB/0",)}, "'AB/0' names no bucket"),
        ({"scopes": ("/2147483648",)}, "names no bucket"),
        ({"scopes": ("/1", "/0", "/1")}, "scopes is '/1'. Name each bucket once"),
        ({"payload": {}}, "payload.strategy is None. Give 'full' or 'minor'"),
        ({"payload": {STRATEGY: "due"}}, "payload.strategy is 'due'"),
        ({"payload": {STRATEGY: FULL, "x": "y"}}, "payload is 'x'"),
        ({"priority": 1_000_001}, "priority is 1000001"),
    ],
)
def test_bad_requests_are_refused(metastore: Metastore, changes: Mapping[str, Any], message: str) -> None:
    table = make_table(metastore)
    given: dict[str, Any] = {
        "table_uuid": table.table_uuid,
        "kind": COMPACT,
        "scopes": (SCOPE,),
        "payload": {STRATEGY: MINOR},
        "priority": 0,
        **changes,
    }
    scopes: Sequence[str] = given["scopes"]
    with pytest.raises(InvalidArgument, match=message):
        metastore.request_jobs(given["table_uuid"], given["kind"], scopes, given["payload"], priority=given["priority"])
    assert metastore.list_jobs([table.table_uuid]) == []
