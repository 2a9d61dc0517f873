"""Expiry: what goes, what stays for whom, and which files are aborted."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import CommitConflict, InvalidArgument, SnapshotExpired
from lakelog.format.commit.request import BucketRef, CommitRequest, RestoreState
from lakelog.format.jobs.job import EXPIRE, JobState
from lakelog.format.retention.expiry import ExpiryStep
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from tests.contract.metastore.expiring import LATER_MS, expire, expired, file_ids, live, make_history, replace_all
from tests.support.metastore.making import (
    append,
    compaction,
    make_change,
    make_file,
    make_table,
    rewrite,
    snapshot_ids,
)


def test_what_was_replaced_goes_with_the_last_snapshot_that_shows_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    # State 4 still shows the four files.
    step = expire(metastore, table, retain_last=3)
    assert (step.earliest_before, step.earliest, step.files, step.held_by) == (1, 4, 0, ())
    assert expired(metastore, table) == []
    assert live(metastore, table, 4) == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    step = expire(metastore, table, retain_last=2)
    assert (step.earliest_before, step.earliest, step.files, step.size_bytes) == (4, 5, 4, 4000)
    assert expired(metastore, table) == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    assert snapshot_ids(metastore, table) == [5, 6]
    assert live(metastore, table, 5) == ["p.parquet"]
    with pytest.raises(SnapshotExpired, match=r"Snapshot 4 .* the snapshots 5 to 6 can still be read"):
        live(metastore, table, 4)
    assert live(metastore, table) == ["p.parquet", "q.parquet"]


def test_nothing_goes_that_the_options_keep(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    assert metastore.expire_snapshots(table.table_uuid) == ExpiryStep(1, 1, 1, 1)
    metastore.alter_table(table.table_uuid, set_options={"snapshot.time-retained": "0 ms"}, unset_options=[])
    assert metastore.expire_snapshots(table.table_uuid).earliest == 1
    options = {"snapshot.num-retained.min": "4"}
    metastore.alter_table(table.table_uuid, set_options=options, unset_options=[])
    assert metastore.expire_snapshots(table.table_uuid).earliest == 3
    options = {"snapshot.time-retained": "1 h", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    metastore.alter_table(table.table_uuid, set_options=options, unset_options=[])
    assert metastore.expire_snapshots(table.table_uuid).earliest == 5
    assert len(expired(metastore, table)) == 4


def test_what_is_asked_for_takes_the_place_of_its_option_only(metastore: Metastore) -> None:
    options = {"bucket": "4", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "4"}
    table = make_table(metastore, options=options)
    make_history(metastore, table)

    def find_earliest(older_than_ms: int | None, retain_last: int | None) -> int:
        return metastore.expire_snapshots(
            table.table_uuid, older_than_ms=older_than_ms, retain_last=retain_last, dry_run=True
        ).earliest

    # The greatest number holds for who says nothing of age, but never against those that are to stay.
    assert [find_earliest(None, least) for least in (None, 2, 4, 5, 6)] == [3, 3, 3, 2, 1]
    # A time takes its place.
    assert (find_earliest(0, None), find_earliest(0, 2), find_earliest(LATER_MS, None)) == (1, 1, 6)
    assert find_earliest(LATER_MS, 2) == 5


def test_by_age_the_state_of_that_time_stays(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number in range(1, 5):
        append(metastore, table, number, names=str(number))
        time.sleep(0.005)
    third = metastore.list_snapshots(table.table_uuid).snapshots[2]
    step = expire(metastore, table, older_than_ms=third.committed_at_ms)
    assert step.earliest == 3
    assert expire(metastore, table, older_than_ms=third.committed_at_ms - 1).earliest == 3


def test_a_dry_run_changes_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    step = metastore.expire_snapshots(table.table_uuid, older_than_ms=LATER_MS, retain_last=1, dry_run=True)
    assert (step.earliest_before, step.earliest, step.files, step.size_bytes, step.is_done) == (1, 6, 4, 4000, True)
    assert snapshot_ids(metastore, table) == [1, 2, 3, 4, 5, 6]
    assert expired(metastore, table) == []


def test_nothing_expires_by_itself_of_a_table_that_is_only_written(metastore: Metastore) -> None:
    options = {"bucket": "4", "write-only": "true", "snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}
    table = make_table(metastore, options=options)
    make_history(metastore, table)
    assert metastore.expire_snapshots(table.table_uuid, by_itself=True).earliest == 1
    assert metastore.expire_snapshots(table.table_uuid).earliest == 6


def test_a_file_that_moved_stays_while_an_entry_of_it_is_live(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", min_key=b"1", max_key=b"2")
    moved = compaction(table, moves=file_ids(metastore, table), level=5)
    metastore.commit(CommitRequest("compactor", 1, (moved,)))
    append(metastore, table, 2, names="b", min_key=b"3", max_key=b"4")
    # Its first entry goes, and it does not.
    assert expire(metastore, table).files == 0
    assert expired(metastore, table) == []
    assert live(metastore, table) == ["a.parquet", "b.parquet"]
    replace_all(metastore, table, 1, "c")
    assert expire(metastore, table).files == 2
    assert expired(metastore, table) == ["a.parquet", "b.parquet"]


def test_changelogs_and_deletion_vectors_expire_with_what_names_them(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    deletion_vectors = f"data/{attempt}/positions.parquet"
    files = [make_file(attempt, name, deletion_vector_path=deletion_vectors) for name in "ab"]
    change = make_change(
        table,
        files,
        changelog=ChangelogState.ATTACHED,
        changelog_files=(make_file(attempt, "changelog"),),
        base_snapshot_id=0,
        unchanged_buckets=(BucketRef(b"", 0),),
    )
    metastore.commit(CommitRequest("w", 1, (change,), attempt))
    first, second = file_ids(metastore, table)
    rewrite(metastore, table, 1, first, names="c", kind=SnapshotKind.OVERWRITE, writer="overwriter")
    # The changelog of snapshot 1 goes with it; the other data file still names the positions.
    assert expire(metastore, table).files == 2
    assert expired(metastore, table) == ["a.parquet", "changelog.parquet"]
    rewrite(metastore, table, 2, second, names="d", kind=SnapshotKind.OVERWRITE, writer="overwriter")
    expire(metastore, table)
    assert expired(metastore, table) == ["a.parquet", "b.parquet", "changelog.parquet", "positions.parquet"]


def test_changelogs_may_live_longer_than_their_snapshots(metastore: Metastore) -> None:
    options = {
        "bucket": "4",
        "changelog-producer": "input",
        "snapshot.time-retained": "0 ms",
        "snapshot.num-retained.min": "1",
        "changelog.num-retained.min": "4",
    }
    table = make_table(metastore, options=options)
    for number in range(1, 7):
        attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
        changelog = (make_file(attempt, f"changelog-{number}"),)
        change = make_change(
            table, [make_file(attempt, str(number))], changelog=ChangelogState.ATTACHED, changelog_files=changelog
        )
        metastore.commit(CommitRequest("w", number, (change,), attempt))
    step = metastore.expire_snapshots(table.table_uuid)
    assert (step.earliest, step.earliest_change, step.files) == (6, 3, 2)
    page = metastore.list_snapshots(table.table_uuid)
    assert (page.earliest_snapshot_id, page.earliest_change_id) == (6, 3)
    assert snapshot_ids(metastore, table) == [3, 4, 5, 6]
    (latest,) = metastore.list_latest([table.table_uuid])
    assert (latest.earliest_snapshot_id, latest.earliest_change_id) == (6, 3)
    ranged = metastore.plan(PlanRequest(table.table_uuid, InRange(2, 5), changelog=True))
    assert sorted(ranged.files.column("added_snapshot").to_pylist()) == [3, 4, 5]
    with pytest.raises(SnapshotExpired, match=r"Snapshot 2 .* the snapshots 3 to 6"):
        metastore.plan(PlanRequest(table.table_uuid, InRange(1, 5), changelog=True))
    with pytest.raises(SnapshotExpired, match=r"Snapshot 5 .* the snapshots 6 to 6"):
        metastore.plan(PlanRequest(table.table_uuid, InRange(2, 5)))
    with pytest.raises(SnapshotExpired, match="Snapshot 3"):
        live(metastore, table, 3)
    watch = metastore.watch([WatchPosition(table.table_uuid, 2)])
    assert [each.snapshot_id for each in next(iter(watch)).snapshots] == [3, 4, 5, 6]
    watch.close()
    with pytest.raises(SnapshotExpired):
        next(iter(metastore.watch([WatchPosition(table.table_uuid, 1)])))


def test_files_expire_once_and_are_forgotten_when_they_are_deleted(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    expire(metastore, table)
    paths = metastore.list_expired_files(table.table_uuid, 3)
    assert len(paths) == 3
    metastore.forget_expired_files(table.table_uuid, paths)
    metastore.forget_expired_files(table.table_uuid, paths)
    (left,) = metastore.list_expired_files(table.table_uuid, 10)
    assert left not in paths
    assert expire(metastore, table).files == 0


def test_results_of_commits_are_kept_for_ever(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    expire(metastore, table)
    again = append(metastore, table, 1, names="a")
    assert again.results[0].snapshot_id == 1
    assert snapshot_ids(metastore, table) == [6]


def test_a_change_whose_base_has_expired_is_refused(metastore: Metastore) -> None:
    """What snapshot 5 took away is no longer known: the control is that it would pass as unchanged since 4."""
    table = make_table(metastore)
    make_history(metastore, table)
    expire(metastore, table, retain_last=2)
    change = make_change(table, allow_empty=True, base_snapshot_id=4, unchanged_buckets=(BucketRef(b"", 0),))
    with pytest.raises(CommitConflict) as error:
        metastore.commit(CommitRequest("l", 1, (change,)))
    assert error.value.reason == "BASE_EXPIRED"


def test_a_job_becomes_due_for_what_is_to_be_deleted(metastore: Metastore) -> None:
    table = make_table(metastore)
    make_history(metastore, table)
    expire(metastore, table)
    jobs = [job for job in metastore.list_jobs([table.table_uuid]) if job.kind == EXPIRE]
    assert [(job.state, job.remaining_ms) for job in jobs] == [(JobState.DUE, 0)]


def test_a_job_becomes_due_by_itself_when_something_will_expire(metastore: Metastore) -> None:
    options = {"bucket": "4", "snapshot.time-retained": "10 s", "snapshot.num-retained.min": "2"}
    table = make_table(metastore, options=options)

    def find_due(limit_s: float) -> Sequence[int]:
        give_up_s = time.monotonic() + limit_s
        while time.monotonic() < give_up_s:
            if found := [job.remaining_ms for job in metastore.list_jobs([table.table_uuid]) if job.kind == EXPIRE]:
                return found
            time.sleep(0.05)
        return []

    append(metastore, table, 1)
    append(metastore, table, 2)
    assert find_due(1.2) == []
    append(metastore, table, 3)
    (left_ms,) = find_due(10)
    assert 1_000 < left_ms <= 10_000


def test_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match=r"retain_last is 0\. Give a number from 1"):
        metastore.expire_snapshots(table.table_uuid, retain_last=0)


def test_a_table_that_was_set_back_keeps_the_files_that_came_back(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    replace_all(metastore, table, 1, "c")
    restored = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(1))
    metastore.commit(CommitRequest("r", 1, (restored,)))
    append(metastore, table, 2, names="d")
    assert expire(metastore, table).files == 1
    assert expired(metastore, table) == ["c.parquet"]
    assert live(metastore, table) == ["a.parquet", "b.parquet", "d.parquet"]
