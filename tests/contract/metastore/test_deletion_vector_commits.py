"""Files that are told later which rows of their bucket are superseded: marked, if all that this rests on stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import (
    BUCKET_COUNT_CHANGED,
    INPUT_GONE,
    OUT_OF_ORDER,
    BucketRef,
    Change,
    ChangeResult,
    CommitRequest,
    CompactionGroup,
    RemoveFiles,
    RemovePartitions,
)
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.storage.merging.deletion_vectors import are_committed
from lakelog.storage.parquet.live_file import to_live_files
from tests.contract.metastore.deferring import baseline, emitting, make_deferring
from tests.contract.metastore.restoring import restore
from tests.contract.metastore.vector_building import build_vectors, vector_change
from tests.support.metastore.making import append, compaction, make_change, make_file, make_table, rewrite
from tests.support.metastore.opening import open_memory

from .compacting import BUCKET, bounds, commit, files, name, place, shown, stage


@pytest.fixture
def in_memory(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    with open_memory(request) as opened:
        yield opened


def reasons(result: ChangeResult) -> list[str]:
    return [each.reason for each in result.dropped]


def deletion_vectors(metastore: Metastore, table: TableInfo, at: Any = None) -> list[bool]:
    return [file["deletion_vector_path"] is not None for file in files(metastore, table, at)]


def committed(metastore: Metastore, table: TableInfo, at: Any = None) -> bool:
    return are_committed(to_live_files(metastore.plan(PlanRequest(table.table_uuid, at)).files))


def test_a_file_with_a_deletion_vector_stays_what_and_where_it_was(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a")
    commit(metastore, compaction(table, moves=(1,), level=5))
    append(metastore, table, 2, names="b", row_count=20, delete_count=3)
    append(metastore, table, 3, names="c")
    before = files(metastore, table)
    assert [file["file_id"] for file in before] == [2, 3, 4]
    attempt = stage(metastore, table)
    change = vector_change(table, attempt, ((3, 4), (2,)))
    result = commit(metastore, change, 7, attempt=attempt)
    assert (result.snapshot_id, result.dropped) == (5, ())
    # Whoever asks again is told the same.
    assert commit(metastore, change, 7, attempt=attempt) == result
    path = f"data/{attempt}/positions.parquet"
    assert shown(metastore, table) == "a5 b0 c0"
    marked = [{"file_id": 4 + number, "added_snapshot": 5, "deletion_vector_path": path} for number in (1, 2)]
    assert files(metastore, table) == [before[0], before[1] | marked[0], before[2] | marked[1]]
    assert [place(file) for file in files(metastore, table)] == [place(file) for file in before]
    assert committed(metastore, table)
    snapshot, earlier = (metastore.list_snapshots(table.table_uuid).snapshots[each] for each in (4, 3))
    assert snapshot.kind is SnapshotKind.COMPACT
    assert (snapshot.added_files, snapshot.removed_files, snapshot.added_rows) == (2, 2, 30)
    assert (snapshot.total_rows, snapshot.total_files, snapshot.total_bytes) == (
        earlier.total_rows,
        earlier.total_files,
        earlier.total_bytes,
    )
    # Earlier snapshots are what they were.
    assert files(metastore, table, AtSnapshot(4)) == before
    assert not committed(metastore, table, AtSnapshot(4))
    # What comes on top of it has the whole section merged, until it is marked again.
    append(metastore, table, 4, names="d")
    assert not committed(metastore, table)
    assert build_vectors(metastore, table, 1, ((5, 6, 7), (2,))).dropped == ()
    assert committed(metastore, table)


def test_no_deleted_rows_need_no_file(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    change = vector_change(table, "", ((2,), (1,)), path="")
    assert commit(metastore, change).dropped == ()
    assert [file["deletion_vector_path"] for file in files(metastore, table)] == [None, ""]


def rewritten(metastore: Metastore, table: TableInfo) -> None:
    rewrite(metastore, table, 90, 1, names="x", level=5)


def overwritten(metastore: Metastore, table: TableInfo) -> None:
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((1,))), 90)


def build_over_rewritten(metastore: Metastore, table: TableInfo) -> None:
    rewrite(metastore, table, 90, 1, 2, names="x", level=5)


def emptied(metastore: Metastore, table: TableInfo) -> None:
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemovePartitions((b"",))), 90)


def rolled_back(metastore: Metastore, table: TableInfo) -> None:
    restore(metastore, table, 2, 90)


def vectored_by_another(metastore: Metastore, table: TableInfo) -> None:
    assert build_vectors(metastore, table, 90, ((2, 3), (1,))).dropped == ()


@pytest.mark.parametrize(
    "happen",
    [rewritten, overwritten, build_over_rewritten, emptied, rolled_back, vectored_by_another],
    ids=lambda f: f.__name__,
)
def test_where_a_file_is_gone_no_deletion_vector_is_added(
    metastore: Metastore, happen: Callable[[Metastore, TableInfo], None]
) -> None:
    table = make_table(metastore)
    for number, letter in enumerate("abc", 1):
        append(metastore, table, number, names=letter)
    happen(metastore, table)
    before = files(metastore, table)
    attempt = stage(metastore, table)
    result = commit(metastore, vector_change(table, attempt, ((2, 3), (1,))), attempt=attempt)
    assert (result.snapshot_id, reasons(result)) == (None, [INPUT_GONE])
    assert files(metastore, table) == before
    # Its positions belong to nobody: the attempt is given up.
    metastore.abandon_attempt(attempt)


def test_groups_stand_and_fall_by_themselves(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number, low in enumerate((1, 1, 5, 5), 1):
        append(metastore, table, number, names="abcd"[number - 1], **bounds(low, low + 1))
    rewrite(metastore, table, 90, 1, names="x", level=5, file=bounds(1, 2))
    result = build_vectors(metastore, table, 1, ((2,), (1,)), ((4,), (3,)))
    assert [(each.group, each.reason) for each in result.dropped] == [(0, INPUT_GONE)]
    assert {name(file): file["deletion_vector_path"] is not None for file in files(metastore, table)} == {
        "x": False,
        "b": False,
        "c": False,
        "d": True,
    }


def test_a_file_that_came_back_below_them_meanwhile_is_seen(metastore: Metastore) -> None:
    """Files 1, 2 and 3; 1 goes; what 2 and 3 supersede is looked for; 1 comes back by a rollback."""
    table = make_table(metastore)
    append(metastore, table, 1, names="abc", **bounds(1, 5))
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((1,))), 90)
    restore(metastore, table, 1, 91)
    result = build_vectors(metastore, table, 1, ((3,), (2,)))
    (dropped,) = result.dropped
    assert (dropped.reason, dropped.file_id, result.snapshot_id) == (OUT_OF_ORDER, 4, None)
    assert dropped.message.endswith(
        "a.parquet' (level 0, of snapshot 1) shares the range of its keys, stands before its newest file, and is not "
        "part of it. Plan anew on the newest snapshot."
    )
    assert build_vectors(metastore, table, 2, ((3, 4), (2,))).dropped == ()


def test_what_shares_no_key_or_stands_after_them_does_no_harm(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab", **bounds(3, 5))
    append(metastore, table, 2, names="c", **bounds(6, 9))
    append(metastore, table, 3, names="d", **bounds(1, 9))
    append(metastore, table, 4, names="e", bucket=1)
    assert build_vectors(metastore, table, 1, ((2,), (1,))).dropped == ()
    assert [
        (name(file), file["deletion_vector_path"] is not None) for file in files(metastore, table, buckets=(0,))
    ] == [
        ("a", False),
        ("b", True),
        ("c", False),
        ("d", False),
    ]


def test_a_rollback_forgets_deletion_vectors_that_rest_on_what_came_later(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number, letter in enumerate("abc", 1):
        append(metastore, table, number, names=letter)
    assert build_vectors(metastore, table, 1, ((2, 3), (1,))).dropped == ()
    restore(metastore, table, 2)
    assert shown(metastore, table) == "a0 b0"
    assert deletion_vectors(metastore, table) == [False, False]
    assert deletion_vectors(metastore, table, AtSnapshot(4)) == [False, True, True]
    # To a state that had them: what is still there stays, what comes back names none.
    restore(metastore, table, 4, 2)
    assert shown(metastore, table) == "a0 b0 c0"
    assert deletion_vectors(metastore, table) == [False, False, False]
    assert not committed(metastore, table)


def test_a_rollback_over_them_leaves_them(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    build_vectors(metastore, table, 1, ((2,), (1,)))
    append(metastore, table, 2, names="c")
    restore(metastore, table, 2)
    assert deletion_vectors(metastore, table) == [False, True]
    assert committed(metastore, table)


def test_a_compaction_removes_the_deletion_vectors_of_its_inputs(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="abc")
    build_vectors(metastore, table, 1, ((2, 3), (1,)))
    # Below them, and it is younger than what they name.
    rewrite(metastore, table, 1, 1, names="x", level=5)
    assert deletion_vectors(metastore, table) == [False, True, True]
    assert not committed(metastore, table)


def test_the_baseline_stays_the_baseline(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1, names="a")
    change, attempt = emitting(metastore, table, (1,), "x")
    assert commit(metastore, change, 1, attempt=attempt).dropped == ()
    append(metastore, table, 2, names="bc")
    before = baseline(metastore, table)
    assert before == "x"
    assert build_vectors(metastore, table, 1, ((2, 3, 4), ())).dropped == ()
    assert baseline(metastore, table) == before
    assert [file["file_id"] for file in files(metastore, table, baseline=True)] == [5]
    newest = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert newest.changelog is ChangelogState.LATER
    # What tells next leads from there.
    change, attempt = emitting(metastore, table, (5, 6, 7), "y", baseline=(5,))
    assert commit(metastore, change, 2, attempt=attempt).dropped == ()
    assert baseline(metastore, table) == "y"


def test_deletion_vectors_go_with_the_last_entry_that_names_them(metastore: Metastore) -> None:
    options = {"bucket": "4", "snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}
    table = make_table(metastore, options=options)
    append(metastore, table, 1, names="abc")
    build_vectors(metastore, table, 1, ((2, 3), (1,)))

    def aborted() -> list[str]:
        found = metastore.list_expired_files(table.table_uuid, 100)
        return sorted(path.rsplit("/", 1)[1] for path in found)

    metastore.expire_snapshots(table.table_uuid)
    # The entries before the marks went, and their files did not.
    assert aborted() == []
    rewrite(metastore, table, 1, 4, names="x", kind=SnapshotKind.OVERWRITE)
    metastore.expire_snapshots(table.table_uuid)
    assert aborted() == ["b.parquet"]
    rewrite(metastore, table, 2, 5, names="y", kind=SnapshotKind.OVERWRITE)
    metastore.expire_snapshots(table.table_uuid)
    assert aborted() == ["b.parquet", "c.parquet", "positions.parquet"]


def test_a_writer_that_looks_up_meanwhile_looks_again(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    build_vectors(metastore, table, 1, ((2,), (1,)))
    attempt = stage(metastore, table)
    knowing = make_file(attempt, "c", deletion_vector_path="")
    change = make_change(table, [knowing], base_snapshot_id=1, unchanged_buckets=(BUCKET,))
    with pytest.raises(CommitConflict, match="changed or compacted bucket 0 with snapshot 2"):
        metastore.commit(CommitRequest("l", 1, (change,), attempt))
    metastore.commit(CommitRequest("l", 1, (replace(change, base_snapshot_id=2),), attempt))
    assert committed(metastore, table)


def test_what_can_never_stand_is_refused(metastore: Metastore) -> None:
    table, append_only = make_table(metastore), make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    append(metastore, table, 2, names="c", bucket=1)
    append(metastore, append_only, 1, names="ab")
    with pytest.raises(InvalidArgument, match="has no primary key, so that none is"):
        build_vectors(metastore, append_only, 1, ((2,), (1,)))
    with pytest.raises(InvalidArgument, match="which is in another bucket than its own, 0"):
        build_vectors(metastore, table, 1, ((2,), (3,)))
    with pytest.raises(InvalidArgument, match="lie in the folder of its attempt"):
        build_vectors(metastore, table, 1, ((2,), (1,)), path="../../other/positions")
    with pytest.raises(InvalidArgument, match="names no attempt"):
        commit(metastore, vector_change(table, "0" * 32, ((2,), (1,))))
    assert reasons(build_vectors(metastore, table, 1, ((2,), (1,)), bucket_count=8)) == [BUCKET_COUNT_CHANGED]
    other = metastore.stage_attempt([append_only.table_uuid], "m").attempt_id
    with pytest.raises(InvalidArgument, match="was not opened for table"):
        commit(metastore, vector_change(table, other, ((2,), (1,))), attempt=other)


def first_row_of_a_file_that_is_gone(metastore: Metastore, table: TableInfo) -> tuple[Change, str]:
    append(metastore, table, 1, names="abc", **bounds(1, 5))
    overwritten(metastore, table)
    attempt = stage(metastore, table)
    return vector_change(table, attempt, ((2, 3), (1,))), attempt


def row_of_a_file_that_came_back(metastore: Metastore, table: TableInfo) -> tuple[Change, str]:
    append(metastore, table, 1, names="abc", **bounds(1, 5))
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((1,))), 90)
    restore(metastore, table, 1, 91)
    attempt = stage(metastore, table)
    # The oldest one that was seen has deletes, and is marked as well.
    return vector_change(table, attempt, ((2, 3), ())), attempt


@pytest.mark.parametrize("is_left_out", [False, True], ids=["protected", "control"])
@pytest.mark.parametrize(
    ("story", "check"),
    [(first_row_of_a_file_that_is_gone, "find_gone"), (row_of_a_file_that_came_back, "_find_older")],
    ids=["witness", "older"],
)
def test_deletion_vectors_rest_on_files_that_are_there(
    in_memory: Metastore,
    monkeypatch: pytest.MonkeyPatch,
    story: Callable[[Metastore, TableInfo], tuple[Change, str]],
    check: str,
    is_left_out: bool,
) -> None:
    table = make_table(in_memory)
    change, attempt = story(in_memory, table)
    if is_left_out:
        monkeypatch.setattr(f"lakelog.format.commit.vectors.deletion_vectors.{check}", lambda *_: None)
    commit(in_memory, change, 99, attempt=attempt)
    live = to_live_files(in_memory.plan(PlanRequest(table.table_uuid)).files)
    assert are_committed(live) is is_left_out


@pytest.mark.parametrize("is_left_out", [False, True], ids=["protected", "control"])
def test_a_rollback_distinguishes_entries_with_vectors_from_what_they_were(
    in_memory: Metastore, monkeypatch: pytest.MonkeyPatch, is_left_out: bool
) -> None:
    table = make_table(in_memory)
    for number, letter in enumerate("abc", 1):
        append(in_memory, table, number, names=letter)
    build_vectors(in_memory, table, 1, ((2, 3), (1,)))
    if is_left_out:
        monkeypatch.setattr("metastore.memory.commits.commits._says_no_more", lambda *_: True)
    restore(in_memory, table, 2)
    assert committed(in_memory, table) is is_left_out


BAD = [
    (
        CompactionGroup(BUCKET, deletion_vector_path="x"),
        "groups.deletion_vector_path",
        "Name the files that get it in vector_files",
    ),
    (
        CompactionGroup(BUCKET, inputs=(1,), covered_files=(2,)),
        "groups.deletion_vector_path",
        "Name the files that get it",
    ),
    (CompactionGroup(BUCKET, vector_files=(1,), level=1), "groups.vector_files", "leaves them at their levels"),
    (
        CompactionGroup(BUCKET, inputs=(1,), vector_files=(2,)),
        "groups.vector_files",
        "does nothing else with its files",
    ),
    (
        CompactionGroup(BUCKET, vector_files=(1,), emits_changelog=True),
        "groups.vector_files",
        "does nothing else with its files",
    ),
    (
        CompactionGroup(BUCKET, vector_files=(1,), is_full=True),
        "groups.vector_files",
        "does nothing else with its files",
    ),
    (
        CompactionGroup(BUCKET, vector_files=(1,), covered_files=(1,)),
        "groups.inputs",
        "a vector file or a covered file",
    ),
    (CompactionGroup(BUCKET, vector_files=(0,)), "groups.inputs", "Give a number from 1"),
    (
        CompactionGroup(BUCKET, vector_files=(1,), deletion_vector_path="x" * 1025),
        "groups.deletion_vector_path",
        "at most 900 characters",
    ),
    (CompactionGroup(BucketRef(b"", 0), vector_files=(1,)), "groups.vector_files", "add them in a change of its own"),
]


@pytest.mark.parametrize(
    ("group", "field", "remedy"), BAD, ids=[f"{each[1]}-{number}" for number, each in enumerate(BAD)]
)
def test_groups_of_deletion_vectors_have_nothing_else(
    in_memory: Metastore, group: CompactionGroup, field: str, remedy: str
) -> None:
    table = make_table(in_memory)
    groups = (group, CompactionGroup(BUCKET, (9,), level=1)) if "change of its own" in remedy else (group,)
    with pytest.raises(InvalidArgument, match=remedy) as refused:
        commit(in_memory, make_change(table, kind=SnapshotKind.COMPACT, groups=groups))
    assert refused.value.metadata["field"] == field
