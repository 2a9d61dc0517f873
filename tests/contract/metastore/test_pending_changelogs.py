"""Pending changelogs: committed without, attached in order by whoever holds the job, shown then and not before."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import CommitConflict, Fenced, InvalidArgument, NotFound
from lakelog.format.commit.attachment import AttachRequest, AttachResult, SnapshotChangelog
from lakelog.format.jobs.job import JobState
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import DropColumn
from tests.contract.metastore.changelog_jobs import commit_open, find, lease, make_request
from tests.support.metastore.making import append, make_change, make_file, make_table


def states(metastore: Metastore, table: TableInfo) -> list[ChangelogState]:
    return [each.changelog for each in metastore.list_snapshots(table.table_uuid).snapshots]


def plan_changelogs(metastore: Metastore, table: TableInfo, until: int) -> list[tuple[int, int]]:
    plan = metastore.plan(PlanRequest(table.table_uuid, InRange(0, until), changelog=True))
    return sorted(zip(*(plan.files.column(name).to_pylist() for name in ("added_snapshot", "row_count")), strict=True))


PENDING, ATTACHED, NONE = ChangelogState.PENDING, ChangelogState.ATTACHED, ChangelogState.NONE


def test_what_is_open_is_known_from_the_list(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, changelog=ATTACHED)
    page = metastore.list_snapshots(table.table_uuid)
    assert (page.first_pending_snapshot_id, page.complete_until) == (0, 1)
    commit_open(metastore, table, 2)
    append(metastore, table, 3)
    commit_open(metastore, table, 4)
    page = metastore.list_snapshots(table.table_uuid, limit=1)
    assert (page.first_pending_snapshot_id, page.complete_until, page.latest_snapshot_id) == (2, 1, 4)
    assert states(metastore, table) == [ATTACHED, PENDING, NONE, PENDING]


def test_changelogs_are_attached_in_order_and_the_job_ends_with_the_last(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    append(metastore, table, 2)
    commit_open(metastore, table, 3)
    commit_open(metastore, table, 4)
    job = lease(metastore, table)
    assert metastore.attach_changelogs(make_request(metastore, table, job, [1, 3])) == AttachResult(False, 4)
    assert states(metastore, table) == [ATTACHED, NONE, ATTACHED, PENDING]
    assert metastore.finish_job(job.job_id, job.epoch, "two")
    job = lease(metastore, table)
    assert metastore.attach_changelogs(make_request(metastore, table, job, [4])) == AttachResult(False, 0)
    assert not metastore.finish_job(job.job_id, job.epoch, "the last")
    assert (find(metastore, table).state, find(metastore, table).outcome) == (JobState.DONE, "the last")
    assert plan_changelogs(metastore, table, 4) == [(1, 1), (3, 3), (4, 4)]
    # Another commit makes the same job due again.
    commit_open(metastore, table, 5)
    assert lease(metastore, table).job_id == job.job_id


def test_a_snapshot_that_changed_nothing_has_no_files(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    attempt = metastore.stage_attempt([table.table_uuid], job.lease).attempt_id
    request = AttachRequest(table.table_uuid, 0, 4, attempt, job.job_id, job.epoch, (SnapshotChangelog(1, ()),))
    assert metastore.attach_changelogs(request) == AttachResult(False, 0)
    assert plan_changelogs(metastore, table, 1) == []


@pytest.mark.parametrize("wanted", [[2], [1, 3], [3], [1, 2, 3, 4]])
def test_nothing_is_attached_out_of_order(metastore: Metastore, wanted: list[int]) -> None:
    table = make_table(metastore)
    for identifier in (1, 2, 3):
        commit_open(metastore, table, identifier)
    job = lease(metastore, table)
    with pytest.raises(CommitConflict, match="the lowest open one is 1") as caught:
        metastore.attach_changelogs(make_request(metastore, table, job, wanted))
    assert caught.value.metadata["retry"] == "replan"
    assert states(metastore, table) == [PENDING, PENDING, PENDING]


def test_a_repeat_is_answered_with_what_was_done(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    commit_open(metastore, table, 2)
    job = lease(metastore, table, duration_ms=1000)
    request = make_request(metastore, table, job, [1])
    assert metastore.attach_changelogs(request) == AttachResult(False, 2)
    assert metastore.attach_changelogs(request) == AttachResult(True, 2)
    # However late, and whoever has the job by then.
    later = lease(metastore, table, holder="b", wait_ms=5000)
    metastore.attach_changelogs(make_request(metastore, table, later, [2]))
    assert metastore.attach_changelogs(request) == AttachResult(True, 0)
    assert plan_changelogs(metastore, table, 2) == [(1, 1), (2, 2)]


def test_a_zombie_attaches_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    zombie = lease(metastore, table, holder="zombie", duration_ms=1000)
    late = make_request(metastore, table, zombie, [1])
    job = lease(metastore, table, holder="b", wait_ms=5000)
    assert job.aborted_attempts == (late.attempt_id,)
    with pytest.raises(Fenced, match="'b' does it"):
        metastore.attach_changelogs(late)
    # Nor with an attempt that it opens now.
    with pytest.raises(Fenced, match="'b' does it"):
        metastore.attach_changelogs(make_request(metastore, table, zombie, [1]))
    metastore.finish_job(job.job_id, job.epoch)
    with pytest.raises(Fenced, match="it is due"):
        metastore.attach_changelogs(make_request(metastore, table, job, [1]))
    assert states(metastore, table) == [PENDING]


def test_control_without_the_epoch_a_zombie_does_the_work_of_another(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.format.commit.attachment.check_holder", lambda job, job_id, epoch: job)
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    commit_open(metastore, table, 2)
    zombie = lease(metastore, table, holder="zombie", duration_ms=1000)
    job = lease(metastore, table, holder="b", wait_ms=5000)
    mine = make_request(metastore, table, job, [1])
    metastore.attach_changelogs(make_request(metastore, table, zombie, [1]))
    with pytest.raises(CommitConflict, match="the lowest open one is 2"):
        metastore.attach_changelogs(mine)


def test_control_without_the_order_a_later_snapshot_is_emitted_first(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.format.commit.attachment._check_order", lambda request, facts: None)
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    commit_open(metastore, table, 2)
    job = lease(metastore, table)
    metastore.attach_changelogs(make_request(metastore, table, job, [2]))
    assert states(metastore, table) == [PENDING, ATTACHED]


def test_an_aborted_attempt_attaches_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    request = make_request(metastore, table, job, [1])
    metastore.abandon_attempt(request.attempt_id)
    with pytest.raises(CommitConflict, match="is aborted"):
        metastore.attach_changelogs(request)
    with pytest.raises(NotFound, match="is not known"):
        metastore.attach_changelogs(replace(request, attempt_id="0" * 32))
    other = make_table(metastore)
    foreign = metastore.stage_attempt([other.table_uuid], "w").attempt_id
    with pytest.raises(CommitConflict, match="was not opened for table"):
        metastore.attach_changelogs(make_request(metastore, table, job, [1], foreign))


def test_what_was_attached_keeps_its_attempt(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    request = make_request(metastore, table, job, [1])
    metastore.attach_changelogs(request)
    with pytest.raises(CommitConflict, match="is committed"):
        metastore.abandon_attempt(request.attempt_id)


def test_files_must_fit_the_table(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    job = lease(metastore, table)
    with pytest.raises(InvalidArgument, match="buckets 0 to 3"):
        metastore.attach_changelogs(make_request(metastore, table, job, [1], bucket=4))
    with pytest.raises(InvalidArgument, match="is not allowed"):
        metastore.attach_changelogs(make_request(metastore, table, job, [1], path="data/x"))
    with pytest.raises(InvalidArgument, match="0 snapshots"):
        metastore.attach_changelogs(make_request(metastore, table, job, []))
    with pytest.raises(InvalidArgument, match="in rising order"):
        metastore.attach_changelogs(
            replace(
                make_request(metastore, table, job, [1]),
                changelogs=(SnapshotChangelog(2, ()), SnapshotChangelog(1, ())),
            )
        )
    other = make_table(metastore)
    with pytest.raises(InvalidArgument, match="It is a job of"):
        metastore.attach_changelogs(make_request(metastore, other, job, [1]))
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match="was dropped at"):
        metastore.attach_changelogs(
            AttachRequest(table.table_uuid, 0, 4, "0" * 32, job.job_id, job.epoch, (SnapshotChangelog(1, ()),))
        )


def test_files_have_a_schema_that_the_table_has_or_had(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    altered = metastore.alter_columns(table.table_uuid, changes=[DropColumn("v")])
    commit_open(metastore, altered, 2)
    job = lease(metastore, table)
    request = make_request(metastore, table, job, [1])
    with pytest.raises(CommitConflict, match="written with schema 2, but the table has schema 1") as caught:
        metastore.attach_changelogs(replace(request, schema_id=2))
    assert caught.value.reason == "SCHEMA_CHANGED"
    with pytest.raises(InvalidArgument, match="written with schema 0, but its commit says 1"):
        metastore.attach_changelogs(replace(request, schema_id=1))
    assert metastore.attach_changelogs(request) == AttachResult(False, 2)
    of_now = replace(make_request(metastore, table, job, [2], schema_id=1), schema_id=1)
    assert metastore.attach_changelogs(of_now) == AttachResult(False, 0)
    plan = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 2), changelog=True))
    assert sorted(plan.files["schema_id"].to_pylist()) == [0, 1]


def test_only_appends_have_pending_changelogs(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    from lakelog.format.commit.request import CommitRequest

    for kind in (SnapshotKind.OVERWRITE, SnapshotKind.COMPACT):
        change = make_change(table, [make_file(attempt)], kind=kind, changelog=PENDING)
        with pytest.raises(InvalidArgument, match="Only an APPEND has a pending changelog"):
            metastore.commit(CommitRequest("w", 1, (change,), attempt))
    change = make_change(table, [make_file(attempt)], changelog=PENDING, changelog_files=(make_file(attempt, "b"),))
    with pytest.raises(InvalidArgument, match="say ATTACHED"):
        metastore.commit(CommitRequest("w", 1, (change,), attempt))


def test_a_watch_for_what_is_complete_is_notified_when_changelogs_are_attached(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, changelog=ATTACHED)
    commit_open(metastore, table, 2)
    seen: list[tuple[int, ChangelogState]] = []
    watch = metastore.watch([WatchPosition(table.table_uuid, 0)], complete=True)

    def read() -> None:
        for event in watch:
            seen.extend((each.snapshot_id, each.changelog) for each in event.snapshots)

    reader = threading.Thread(target=read)
    reader.start()
    with closing(watch):
        _wait_for(lambda: len(seen) == 1)
        commit_open(metastore, table, 3)
        append(metastore, table, 4)
        time.sleep(0.3)
        assert seen == [(1, ATTACHED)]
        job = lease(metastore, table)
        began = time.monotonic()
        metastore.attach_changelogs(make_request(metastore, table, job, [2]))
        _wait_for(lambda: len(seen) == 2)
        # Pushed, and not found by the look that happens every few seconds.
        assert time.monotonic() - began < 1.5
        metastore.attach_changelogs(make_request(metastore, table, job, [3]))
        _wait_for(lambda: len(seen) == 4)
        append(metastore, table, 5)
        _wait_for(lambda: len(seen) == 5)
    reader.join(5)
    assert seen == [(1, ATTACHED), (2, ATTACHED), (3, ATTACHED), (4, NONE), (5, NONE)]


def test_a_watch_that_begins_after_what_is_open_waits_for_what_comes_then(metastore: Metastore) -> None:
    table = make_table(metastore)
    for identifier in (1, 2, 3):
        commit_open(metastore, table, identifier)
    seen: list[int] = []
    watch = metastore.watch([WatchPosition(table.table_uuid, 2)], complete=True)
    reader = threading.Thread(target=lambda: seen.extend(e.snapshot_id for each in watch for e in each.snapshots))
    reader.start()
    with closing(watch):
        job = lease(metastore, table)
        metastore.attach_changelogs(make_request(metastore, table, job, [1, 2]))
        time.sleep(0.2)
        assert seen == []
        metastore.attach_changelogs(make_request(metastore, table, job, [3]))
        _wait_for(lambda: seen == [3])
    reader.join(5)


def test_other_watches_are_notified_at_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table, 1)
    with closing(metastore.watch([WatchPosition(table.table_uuid, 0)])) as watch:
        assert next(iter(watch)).snapshots[0].changelog is PENDING


def _wait_for(is_so: object, within_s: float = 10.0) -> None:
    assert callable(is_so)
    give_up = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < give_up, "it did not come in time"
        time.sleep(0.01)
