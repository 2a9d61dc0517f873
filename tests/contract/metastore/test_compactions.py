"""Compactions at the gate: each group is judged by itself; what stands is committed, the rest dropped with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, NotFound
from lakelog.format.commit.request import (
    BUCKET_COUNT_CHANGED,
    INPUT_GONE,
    BucketRef,
    ChangeResult,
    CommitRequest,
    CompactionGroup,
    DroppedGroup,
    RemoveEverything,
    RemovePartitions,
    split_group_files,
)
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.predicate import Comparison, Operator
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from tests.support.metastore.making import (
    append,
    compaction,
    day,
    key,
    make_change,
    make_file,
    make_table,
    rewrite,
    snapshot_ids,
)

from .compacting import BUCKET, bounds, commit, files, groups, name, place, shown, stage


def test_groups_that_stand_are_committed_and_the_others_dropped(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    append(metastore, table, 2, names="cd", bucket=1)
    rewrite(metastore, table, 7, 3, 4, writer="first", names="e", file={"bucket": 1})
    attempt = stage(metastore, table)
    change = groups(
        table, attempt, ("x", BucketRef(b"", 1), [3], {}), ("y", BUCKET, [1, 2], {}), ("z", BucketRef(b"", 2), [99], {})
    )
    result = commit(metastore, change, attempt=attempt)
    listed = metastore.list_snapshots(table.table_uuid).snapshots
    gone = f"'first' removed '{files(metastore, table, AtSnapshot(2))[2]['path']}' with snapshot 3."
    assert result == ChangeResult(
        table.table_uuid,
        4,
        listed[3].snapshot_uuid,
        listed[3].committed_at_ms,
        (
            DroppedGroup(0, INPUT_GONE, gone, 3, 3, "first"),
            DroppedGroup(2, INPUT_GONE, f"{table.name} has no file 99: it expired, or is another's.", 99),
        ),
    )
    assert shown(metastore, table) == "y1 e1"
    snapshot = listed[3]
    assert (snapshot.kind, snapshot.added_files, snapshot.removed_files) == (SnapshotKind.COMPACT, 1, 2)
    assert (snapshot.total_files, snapshot.total_rows, snapshot.total_bytes) == (2, 20, 2000)
    # Whoever asks again is told the same, by another attempt, too, which is then of no use.
    assert commit(metastore, change, attempt=attempt) == result
    other = stage(metastore, table)
    assert metastore.commit(CommitRequest("compactor", 1, (change,), other)).attempt_id == attempt
    metastore.abandon_attempt(other)
    assert snapshot_ids(metastore, table) == [1, 2, 3, 4]
    # What is left over has a name, and no other commit can ever bring it.
    left = [split_group_files(change)[dropped.group] for dropped in result.dropped]
    assert [[file.path for file in each] for each in left] == [
        [f"data/{attempt}/x.parquet"],
        [f"data/{attempt}/z.parquet"],
    ]
    again = make_change(table, left[0])
    with pytest.raises(CommitConflict, match="was committed before"):
        commit(metastore, replace(again, add_files=(replace(left[0][0], level=0),)), 2, attempt=attempt)


def test_where_no_group_stands_there_is_no_snapshot_and_the_attempt_is_given_up(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    rewrite(metastore, table, 1, 1, 2)
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt)], (1, 2))
    result = commit(metastore, change, 2, attempt=attempt)
    assert (result.snapshot_id, result.snapshot_uuid, result.committed_at_ms) == (None, "", 0)
    assert [dropped.reason for dropped in result.dropped] == [INPUT_GONE]
    assert snapshot_ids(metastore, table) == [1, 2]
    # It is done: nobody need try it again, and the number counts.
    assert commit(metastore, change, 2, attempt=attempt) == result
    progress = metastore.get_writer_progress("compactor", table.table_uuid)
    assert (progress.last_identifier, progress.snapshot_id) == (2, None)
    # Giving up what is aborted already is no error, other than for a committed one: its files may go.
    metastore.abandon_attempt(attempt)
    with pytest.raises(CommitConflict, match="was given up"):
        commit(metastore, make_change(table, [make_file(attempt)]), 3, attempt=attempt)


def test_an_append_and_a_compaction_never_meet(metastore: Metastore) -> None:
    """C5, C6: newer files stay in front of what is written in the places of older ones."""
    table = make_table(metastore)
    append(metastore, table, 1, names="a")
    append(metastore, table, 2, names="b")
    append(metastore, table, 3, names="c")
    times = [snapshot.committed_at_ms for snapshot in metastore.list_snapshots(table.table_uuid).snapshots]
    attempt = stage(metastore, table)
    append(metastore, table, 4, names="d")
    outputs = [make_file(attempt, "x", **bounds(1, 5)), make_file(attempt, "y", **bounds(6, 9))]
    assert commit(metastore, compaction(table, outputs, (1, 2)), attempt=attempt).dropped == ()
    assert shown(metastore, table) == "x1 y1 c0 d0"
    found = files(metastore, table)
    assert [place(file) for file in found[:3]] == [(2, 0, times[1]), (2, 0, times[1]), (3, 0, times[2])]
    assert [file["added_snapshot"] for file in found] == [5, 5, 3, 4]


def test_a_moved_file_gets_its_level_and_stays_what_it_was(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    monday = BucketRef(day("mon"), 2)
    fields: dict[str, Any] = {
        "partition": monday.partition,
        "bucket": 2,
        "statistics": (ColumnStatistics(2, 0, b"m", b"p"),),
    }
    append(metastore, table, 1, names="a", row_count=7, delete_count=3, size_bytes=70, **bounds(1, 4), **fields)
    append(metastore, table, 2, names="b", **fields)
    before = files(metastore, table)
    group = CompactionGroup(monday, moves=(1,), level=4)
    result = commit(metastore, make_change(table, kind=SnapshotKind.COMPACT, groups=(group,)))
    assert (result.snapshot_id, result.dropped) == (3, ())
    moved, rest = files(metastore, table)
    assert rest == before[1]
    assert moved == {**before[0], "file_id": 3, "level": 4, "added_snapshot": 3}
    # Earlier states have it as it was, each state once.
    assert files(metastore, table, AtSnapshot(2)) == before
    assert [shown(metastore, table, AtSnapshot(n)) for n in (1, 2, 3)] == ["a0", "a0 b0", "a4 b0"]
    # It is found by its bounds and statistics as before.
    assert files(metastore, table, first_key=key(5)) == [rest]
    predicate = Comparison(1, Operator.IN, (day("mon"),))
    assert len(files(metastore, table, predicate=predicate)) == 2
    snapshot = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (snapshot.added_files, snapshot.removed_files, snapshot.added_rows) == (1, 1, 7)
    assert (snapshot.total_files, snapshot.total_rows, snapshot.total_bytes) == (2, 17, 1070)
    # Ids go on behind it; it can be removed like any file.
    append(metastore, table, 3, names="c", **fields)
    assert [file["file_id"] for file in files(metastore, table)] == [3, 2, 4]
    remove = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemovePartitions((monday.partition,)))
    commit(metastore, remove, writer="o")
    assert files(metastore, table) == []


def test_a_moved_file_is_no_new_data(metastore: Metastore) -> None:
    """5.2: what a range brought is told by the kinds of its snapshots."""
    table = make_table(metastore)
    append(metastore, table, 1)
    commit(metastore, compaction(table, moves=(1,), level=5))
    plan = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 2)))
    kinds = {snapshot.snapshot_id: snapshot.kind for snapshot in plan.range_snapshots}
    assert [kinds[file["added_snapshot"]] for file in plan.files.to_pylist()] == [
        SnapshotKind.APPEND,
        SnapshotKind.COMPACT,
    ]


def test_a_moved_file_no_longer_says_what_it_supersedes(metastore: Metastore) -> None:
    """It would be later than files that were rewritten since, of which it said nothing."""
    table = make_table(metastore)
    append(metastore, table, 1, **bounds(1, 2))
    attempt = stage(metastore, table)
    path = f"data/{attempt}/positions.parquet"
    change = make_change(
        table,
        [make_file(attempt, "b", deletion_vector_path=path, **bounds(3, 4))],
        base_snapshot_id=1,
        unchanged_buckets=(BUCKET,),
    )
    commit(metastore, change, attempt=attempt)
    commit(metastore, compaction(table, moves=(2,), level=2), 2)
    assert [file["deletion_vector_path"] for file in files(metastore, table)] == [None, None]
    assert [file["deletion_vector_path"] for file in files(metastore, table, AtSnapshot(2))] == [None, path]


def test_a_group_rewrites_and_moves_at_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", **bounds(1, 3))
    append(metastore, table, 2, names="b", **bounds(2, 4))
    append(metastore, table, 3, names="c", **bounds(7, 9))
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt, "x", **bounds(1, 4))], (1, 2), moves=(3,), level=5)
    commit(metastore, change, attempt=attempt)
    assert shown(metastore, table) == "x5 c5"
    assert [file["file_id"] for file in files(metastore, table)] == [4, 5]
    assert commit(metastore, compaction(table, moves=(3,), level=6), 2).dropped[0].reason == INPUT_GONE


def test_a_group_may_leave_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", delete_count=10)
    assert commit(metastore, compaction(table, inputs=(1,))).snapshot_id == 2
    assert files(metastore, table) == []


@pytest.mark.parametrize(
    "removal",
    [RemoveEverything(), RemovePartitions((day("mon"),))],
    ids=["everything", "a partition"],
)
def test_what_was_overwritten_meanwhile_is_dropped(metastore: Metastore, removal: Any) -> None:
    table = make_table(metastore, partitioned=True)
    monday = day("mon")
    append(metastore, table, 1, names="ab", partition=monday)
    attempt = stage(metastore, table)
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=removal), writer="o")
    change = compaction(table, [make_file(attempt, "z", partition=monday)], (1, 2))
    (dropped,) = commit(metastore, change, attempt=attempt).dropped
    assert (dropped.reason, dropped.snapshot_id, dropped.other_writer) == (INPUT_GONE, 2, "o")
    assert files(metastore, table) == []


def test_a_dropped_table_has_nothing_to_compact(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match="was dropped at"):
        commit(metastore, compaction(table, moves=(1,)))


def test_groups_for_another_number_of_buckets_are_dropped(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt, bucket=6)], (1,), bucket_count=8)
    (dropped,) = commit(metastore, change, attempt=attempt).dropped
    assert (dropped.reason, dropped.file_id) == (BUCKET_COUNT_CHANGED, None)
    assert dropped.message == f"It was written for 8 buckets, but {table.name} has 4 by now."


def test_a_compaction_brings_its_changelog_group_by_group(metastore: Metastore) -> None:
    """3.6: what a dropped group would have told is not told."""
    table = make_table(metastore, options={"bucket": "4", "changelog-producer": "full-compaction"})
    append(metastore, table, 1, names="a")
    append(metastore, table, 2, names="b", bucket=1)
    attempt = stage(metastore, table)
    change = make_change(
        table,
        [make_file(attempt, "x", level=5), make_file(attempt, "y", level=5, bucket=1)],
        kind=SnapshotKind.COMPACT,
        groups=tuple(
            CompactionGroup(BucketRef(b"", bucket), (inputs,), 1, (), 5, 1, emits_changelog=True)
            for bucket, inputs in [(0, 9), (1, 2)]
        ),
        changelog=ChangelogState.ATTACHED,
        changelog_files=(make_file(attempt, "cx"), make_file(attempt, "cy", bucket=1)),
    )
    result = commit(metastore, change, attempt=attempt)
    assert [dropped.group for dropped in result.dropped] == [0]
    plan = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 3), changelog=True))
    assert [name(file) for file in plan.files.to_pylist()] == ["cy"]
    assert plan.range_snapshots[2].changelog is ChangelogState.ATTACHED
    assert [file.path[-10:] for file in split_group_files(change)[0]] == ["/x.parquet", "cx.parquet"]


def test_a_commit_to_two_tables_may_compact_one(metastore: Metastore) -> None:
    """A group that is dropped never fails what is committed with it."""
    table, other = make_table(metastore), make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid, other.table_uuid], "w").attempt_id
    changes = (
        compaction(table, [make_file(attempt, "x")], (5,)),
        make_change(other, [make_file(attempt, "y")]),
    )
    dropped, applied = metastore.commit(CommitRequest("w", 1, changes, attempt)).results
    assert (dropped.snapshot_id, len(dropped.dropped), applied.snapshot_id, applied.dropped) == (None, 1, 1, ())
    with pytest.raises(CommitConflict, match="is committed"):
        metastore.abandon_attempt(attempt)


def test_a_dropped_compaction_disturbs_no_one_who_looked_up(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    assert commit(metastore, compaction(table, moves=(7,))).dropped
    attempt = stage(metastore, table)
    fields: dict[str, Any] = {"base_snapshot_id": 1, "unchanged_buckets": (BUCKET,)}
    change = make_change(table, [make_file(attempt, "b", deletion_vector_path="")], **fields)
    assert commit(metastore, change, 2, attempt=attempt).snapshot_id == 2
    # One that is committed does only where rows are known by their positions.
    commit(metastore, compaction(table, moves=(1,)), 3)
    attempt = stage(metastore, table)
    fields["base_snapshot_id"] = 2
    with pytest.raises(CommitConflict, match="'compactor' changed or compacted bucket 0 with snapshot 3"):
        commit(
            metastore, make_change(table, [make_file(attempt, deletion_vector_path="")], **fields), 4, attempt=attempt
        )
    assert commit(metastore, make_change(table, [make_file(attempt)], **fields), 4, attempt=attempt).snapshot_id == 4
