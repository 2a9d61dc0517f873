"""Jobs: made due by commits, taken under an epoch, waited for, ended well or not, tried again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, InvalidArgument, NotFound
from lakelog.format.commit.request import CommitResult, Fence
from lakelog.format.jobs.job import MAX_ATTEMPTS, PURGE, Job, JobState, plan_pause_ms
from lakelog.format.tables.snapshot import ChangelogState
from tests.contract.metastore.changelog_jobs import KINDS, commit_open, find, lease
from tests.support.metastore.making import append, empty, make_table


def test_only_a_commit_with_a_pending_changelog_makes_a_job(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2, changelog=ChangelogState.ATTACHED)
    assert metastore.list_jobs([table.table_uuid]) == []
    commit_open(metastore, table, 3)
    commit_open(metastore, table, 4)
    job = find(metastore, table)
    assert (job.table, job.table_uuid, job.kind, job.scope) == (str(table.name), table.table_uuid, "changelog", "")
    assert (job.state, job.attempts, job.epoch, job.holder, job.reason) == (JobState.DUE, 0, 0, "", "")
    assert job.created_at_ms > 1_700_000_000_000
    assert job in metastore.list_jobs()


def test_a_job_is_done_by_one(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    assert (job.state, job.attempts, job.holder) == (JobState.LEASED, 1, "a")
    assert job.epoch > 0
    assert 50_000 < job.remaining_ms <= 60_000
    assert metastore.lease_job(KINDS, [table.table_uuid], "b", duration_ms=1000) is None
    # What is committed meanwhile does not give it away.
    commit_open(metastore, table, 2)
    assert metastore.lease_job(KINDS, [table.table_uuid], "b", duration_ms=1000) is None
    assert metastore.heartbeat_job(job.job_id, job.epoch, 30_000) == 30_000
    assert 20_000 < find(metastore, table).remaining_ms <= 30_000


def test_tables_and_kinds_are_chosen(metastore: Metastore) -> None:
    first, second = make_table(metastore), make_table(metastore)
    commit_open(metastore, first)
    assert metastore.lease_job(KINDS, [second.table_uuid], "a", duration_ms=1000) is None
    assert metastore.lease_job(["compact"], [first.table_uuid], "a", duration_ms=1000) is None
    assert lease(metastore, first, second).table_uuid == first.table_uuid


def test_a_takeover_of_a_job_fences_and_aborts_the_former_holder(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    zombie = lease(metastore, table, holder="zombie", duration_ms=1000)
    left = metastore.stage_attempt([table.table_uuid], zombie.lease).attempt_id
    other = metastore.stage_attempt([table.table_uuid], "somebody").attempt_id
    job = lease(metastore, table, holder="b", wait_ms=5000)
    assert (job.attempts, job.aborted_attempts) == (2, (left,))
    assert job.epoch > zombie.epoch
    metastore.abandon_attempt(other)
    fenced = f"has epoch {job.epoch} by now and 'b' does it; the caller's epoch is {zombie.epoch}"
    with pytest.raises(Fenced, match=fenced):
        metastore.heartbeat_job(zombie.job_id, zombie.epoch, 1000)
    with pytest.raises(Fenced, match=fenced):
        metastore.finish_job(zombie.job_id, zombie.epoch)
    with pytest.raises(Fenced, match=fenced):
        metastore.fail_job(zombie.job_id, zombie.epoch, "late")
    with pytest.raises(Fenced, match=f"has given only {job.epoch}: its database was set back"):
        metastore.heartbeat_job(job.job_id, job.epoch + 1, 1000)
    assert find(metastore, table).holder == "b"


def test_a_job_that_is_over_but_not_taken_is_still_its_holders(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table, duration_ms=1000)
    time.sleep(1.1)
    assert metastore.heartbeat_job(job.job_id, job.epoch, 60_000) == 60_000
    assert metastore.lease_job(KINDS, [table.table_uuid], "b", duration_ms=1000) is None


def test_a_finished_job_is_due_again_where_snapshots_are_open_still(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    assert metastore.finish_job(job.job_id, job.epoch, "nothing yet")
    found = find(metastore, table)
    assert (found.state, found.attempts, found.outcome, found.holder) == (JobState.DUE, 0, "nothing yet", "")
    with pytest.raises(Fenced, match="it is due"):
        metastore.finish_job(job.job_id, job.epoch)
    assert lease(metastore, table).epoch > job.epoch


def test_a_waiter_is_notified_when_a_job_is_due(metastore: Metastore) -> None:
    table = make_table(metastore)
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(lease, metastore, table, wait_ms=20_000)
        time.sleep(0.3)
        assert not waiting.done()
        commit_open(metastore, table)
        assert waiting.result(5).table_uuid == table.table_uuid
        assert time.monotonic() - began < 5


def test_any_process_that_waits_takes_a_job_over_when_its_deadline_passes(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    first = lease(metastore, table, duration_ms=1000)
    began = time.monotonic()
    assert lease(metastore, table, holder="b", wait_ms=20_000).epoch > first.epoch
    assert 0.5 < time.monotonic() - began < 4


def test_a_wait_ends_in_time(metastore: Metastore) -> None:
    table = make_table(metastore)
    began = time.monotonic()
    assert metastore.lease_job(KINDS, [table.table_uuid], "a", duration_ms=1000, wait_ms=300) is None
    assert 0.2 < time.monotonic() - began < 3


def test_of_many_that_wait_one_gets_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    ready = threading.Barrier(5)

    def wait(number: int) -> Job | None:
        ready.wait()
        return metastore.lease_job(KINDS, [table.table_uuid], f"h{number}", duration_ms=60_000, wait_ms=1500)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(wait, number) for number in range(4)]
        ready.wait()
        time.sleep(0.3)
        commit_open(metastore, table)
        assert len([each for each in waiting if each.result() is not None]) == 1


def test_a_job_that_fails_is_due_again_after_a_pause_that_grows(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    for attempts in (1, 2):
        job = lease(metastore, table, wait_ms=5000)
        assert job.attempts == attempts
        assert metastore.fail_job(job.job_id, job.epoch, "the store is away") is JobState.DUE
        found = find(metastore, table)
        assert (found.state, found.attempts, found.reason) == (JobState.DUE, attempts, "the store is away")
        assert plan_pause_ms(attempts) - 500 < found.remaining_ms <= plan_pause_ms(attempts)
        assert metastore.lease_job(KINDS, [table.table_uuid], "a", duration_ms=60_000) is None


def test_a_job_that_was_tried_too_often_fails_visibly(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.jobs.jobs.plan_pause_ms", lambda attempts: 0)
    table = make_table(metastore)
    commit_open(metastore, table)
    states = []
    for attempts in range(1, MAX_ATTEMPTS + 1):
        job = lease(metastore, table)
        assert job.attempts == attempts
        states.append(metastore.fail_job(job.job_id, job.epoch, f"try {attempts}"))
    assert states == [JobState.DUE] * (MAX_ATTEMPTS - 1) + [JobState.FAILED]
    assert (find(metastore, table).state, find(metastore, table).reason) == (JobState.FAILED, f"try {MAX_ATTEMPTS}")
    assert metastore.lease_job(KINDS, [table.table_uuid], "a", duration_ms=60_000) is None


def test_what_may_pass_is_tried_again_and_again(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.jobs.jobs.plan_pause_ms", lambda attempts: 0)
    table = make_table(metastore)
    commit_open(metastore, table)
    for _ in range(MAX_ATTEMPTS + 2):
        job = lease(metastore, table)
        state = metastore.fail_job(job.job_id, job.epoch, "the store cannot be reached", passing=True)
        assert state is JobState.DUE
    job = lease(metastore, table)
    assert metastore.fail_job(job.job_id, job.epoch, "something else") is JobState.FAILED


def test_a_job_whose_holders_all_vanish_fails_visibly(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.jobs.jobs.MAX_ATTEMPTS", 1)
    table = make_table(metastore)
    commit_open(metastore, table)
    lease(metastore, table, duration_ms=1000)
    assert metastore.lease_job(KINDS, [table.table_uuid], "b", duration_ms=1000, wait_ms=2000) is None
    found = find(metastore, table)
    assert found.state is JobState.FAILED
    assert "was taken 1 times, and each time its holder stopped reporting" in found.reason


def test_one_that_would_fail_alike_fails_at_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    assert metastore.fail_job(job.job_id, job.epoch, "data/x.parquet is damaged", final=True) is JobState.FAILED
    assert find(metastore, table).reason == "data/x.parquet is damaged"
    assert metastore.lease_job(KINDS, [table.table_uuid], "a", duration_ms=60_000) is None


def test_a_failed_job_is_due_with_the_next_commit_after_its_pause(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
    commit_open(metastore, table, 2)
    found = find(metastore, table)
    assert (found.state, found.attempts, found.reason) == (JobState.DUE, 1, "damaged")
    assert found.remaining_ms > 0
    assert lease(metastore, table, wait_ms=5000).attempts == 2


def test_a_failed_job_is_due_at_once_when_a_person_says_so(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    with pytest.raises(InvalidArgument, match=r"is being done by 'a'"):
        metastore.retry_job(job.job_id)
    metastore.fail_job(job.job_id, job.epoch, "damaged", final=True)
    metastore.retry_job(job.job_id)
    assert lease(metastore, table).attempts == 1
    with pytest.raises(NotFound, match=r"There is no job 987654"):
        metastore.retry_job(987654)


def test_jobs_go_with_their_table(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    metastore.drop_table(table.name)
    assert [each.kind for each in metastore.list_jobs([table.table_uuid])] == [PURGE]
    with pytest.raises(NotFound, match=r"There is no job"):
        metastore.heartbeat_job(job.job_id, job.epoch, 1000)
    with pytest.raises(NotFound, match=r"There is no job"):
        metastore.finish_job(job.job_id, job.epoch)


def test_commits_are_fenced_with_the_epoch_of_a_job(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    zombie = lease(metastore, table, holder="zombie", duration_ms=1000)

    def commit(job: Job, identifier: int) -> CommitResult:
        fence = Fence(job.lease, job.epoch)
        return metastore.commit(empty(table, identifier, writer="compactor", fences=(fence,)))

    assert commit(zombie, 1).results[0].snapshot_id == 2
    job = lease(metastore, table, holder="b", wait_ms=5000)
    with pytest.raises(Fenced, match=f"depends on lease '{job.lease}' with epoch {zombie.epoch}, but another"):
        commit(zombie, 2)
    assert commit(job, 2).results[0].snapshot_id == 3
    with pytest.raises(Fenced, match="does not know epoch 1, and has given none"):
        metastore.commit(empty(table, 3, writer="compactor", fences=(Fence("job/x1", 1),)))


def test_no_one_takes_the_lease_of_a_job_by_its_name(metastore: Metastore) -> None:
    with pytest.raises(InvalidArgument, match="those of jobs"):
        metastore.acquire_lease("job/1", "a", 1000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": ()}, "0 kinds"),
        ({"kinds": ("Bad Kind",)}, "lower-case letters"),
        ({"holder": ""}, "holder"),
        ({"duration_ms": 10}, "duration_ms is 10"),
        ({"wait_ms": 40_000}, "wait_ms is 40000"),
        ({"tables": ("x",)}, "table_uuids is 'x'"),
    ],
)
def test_bad_requests_are_refused(metastore: Metastore, changes: dict[str, object], message: str) -> None:
    given = {"kinds": KINDS, "tables": (), "holder": "a", "duration_ms": 1000, "wait_ms": 0} | changes
    with pytest.raises(InvalidArgument, match=message):
        metastore.lease_job(
            given["kinds"],  # type: ignore[arg-type]
            given["tables"],  # type: ignore[arg-type]
            given["holder"],  # type: ignore[arg-type]
            duration_ms=given["duration_ms"],  # type: ignore[arg-type]
            wait_ms=given["wait_ms"],  # type: ignore[arg-type]
        )
