"""Rows of append tables that an overwrite removes by position: entered again, all or nothing, and never undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import BucketRef, Change, CompactionGroup, RemoveEverything, RemoveFiles
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.restoring import restore
from tests.support.metastore.making import append, compaction, make_change, make_file, make_table, rewrite

from .compacting import BUCKET, commit, files, place, stage


def removal(table: TableInfo, attempt: str, counts: dict[int, int], bucket: BucketRef = BUCKET, **more: Any) -> Change:
    group = CompactionGroup(
        bucket,
        vector_files=tuple(counts),
        deletion_vector_path=f"data/{attempt}/removed.parquet",
        delete_counts=tuple(counts.values()),
    )
    return make_change(table, more.pop("add", ()), kind=SnapshotKind.OVERWRITE, groups=(group,), **more)


def remove(metastore: Metastore, table: TableInfo, identifier: int, counts: dict[int, int], **more: Any) -> None:
    attempt = stage(metastore, table)
    commit(metastore, removal(table, attempt, counts, **more), identifier, writer="r", attempt=attempt)


def counts(metastore: Metastore, table: TableInfo, at: Any = None) -> list[tuple[int, int]]:
    return [(file["row_count"], file["delete_count"]) for file in files(metastore, table, at)]


def plain(metastore: Metastore, **more: Any) -> TableInfo:
    return make_table(metastore, keyed=False, **more)


def test_a_file_is_entered_again_with_its_count(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")
    before = files(metastore, table)
    attempt = stage(metastore, table)
    added = make_file(attempt, "new", row_count=7)
    change = removal(table, attempt, {1: 3}, add=[added], remove=RemoveFiles((2,)))
    result = commit(metastore, change, 7, writer="r", attempt=attempt)
    assert result.snapshot_id == 2
    assert commit(metastore, change, 7, writer="r", attempt=attempt) == result
    again, new = files(metastore, table)
    own = {
        "file_id": 4,
        "added_snapshot": 2,
        "delete_count": 3,
        "deletion_vector_path": f"data/{attempt}/removed.parquet",
    }
    assert again == before[0] | own
    assert (new["file_id"], new["row_count"]) == (3, 7)
    snapshot = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (snapshot.kind, snapshot.added_files, snapshot.added_rows, snapshot.removed_files) == (
        SnapshotKind.OVERWRITE,
        2,
        7,
        2,
    )
    assert (snapshot.total_rows, snapshot.total_files) == (17, 2)
    assert files(metastore, table, AtSnapshot(1)) == before


def compacted(metastore: Metastore, table: TableInfo) -> None:
    rewrite(metastore, table, 90, 1, 2, names="x", file={"row_count": 20})


def overwritten(metastore: Metastore, table: TableInfo) -> None:
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything()), 90)


def removed_by_another(metastore: Metastore, table: TableInfo) -> None:
    remove(metastore, table, 90, {1: 1})


@pytest.mark.parametrize("happen", [compacted, overwritten, removed_by_another], ids=lambda f: f.__name__)
def test_it_is_refused_if_a_file_is_gone(metastore: Metastore, happen: Callable[[Metastore, TableInfo], None]) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")
    happen(metastore, table)
    before = files(metastore, table)
    attempt = stage(metastore, table)
    with pytest.raises(CommitConflict, match="not live any more") as error:
        commit(metastore, removal(table, attempt, {1: 1}), attempt=attempt, writer="r")
    assert (error.value.reason, error.value.metadata["retry"]) == ("INPUT_GONE", "replan")
    assert files(metastore, table) == before
    metastore.abandon_attempt(attempt)


def test_appends_are_no_conflict(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2)
    remove(metastore, table, 1, {1: 1})
    assert counts(metastore, table) == [(10, 1), (10, 0)]


def test_a_compaction_drops_exactly_the_removed_rows(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")
    remove(metastore, table, 1, {1: 3})
    late = rewrite(metastore, table, 1, 1, 2, names="x", file={"row_count": 20})
    assert [each.reason for each in late.results[0].dropped] == ["INPUT_GONE"]
    for rows in (20, 16):
        with pytest.raises(InvalidArgument, match=r"writes \d+ rows in the place of 17"):
            rewrite(metastore, table, rows, 3, 2, names="x", file={"row_count": rows})
    done = rewrite(metastore, table, 2, 3, 2, names="x", file={"row_count": 17})
    assert done.results[0].dropped == ()
    assert counts(metastore, table) == [(17, 0)]


def test_rows_never_come_back(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1)
    remove(metastore, table, 1, {1: 3})
    for count in (2, 11):
        attempt = stage(metastore, table)
        with pytest.raises(InvalidArgument, match="removed already") as error:
            commit(metastore, removal(table, attempt, {2: count}), 50 + count, attempt=attempt)
        assert error.value.reason == "DELETE_COUNT_INVALID"
    remove(metastore, table, 2, {2: 4})
    assert counts(metastore, table) == [(10, 4)]


def test_a_rollback_brings_the_count_of_then_back(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")
    remove(metastore, table, 1, {1: 3})
    remove(metastore, table, 2, {3: 5, 2: 1})
    then = [(file["path"], file["delete_count"], file["deletion_vector_path"]) for file in files(metastore, table)]
    for number, (snapshot_id, wanted) in enumerate(((2, {0, 3}), (1, {0}), (3, {1, 5}), (2, {0, 3})), 100):
        restore(metastore, table, snapshot_id, number)
        assert {file["delete_count"] for file in files(metastore, table)} == wanted
        at = files(metastore, table, AtSnapshot(snapshot_id))
        assert [file["deletion_vector_path"] for file in files(metastore, table)] == [
            file["deletion_vector_path"] for file in at
        ]
        assert [place(file) for file in files(metastore, table)] == [place(file) for file in at]
    now = files(metastore, table, AtSnapshot(3))
    assert [(file["path"], file["delete_count"], file["deletion_vector_path"]) for file in now] == then


def test_files_of_one_place_keep_their_order(metastore: Metastore) -> None:
    """A compaction has written them, and only their ids decide their order."""
    table = plain(metastore, options={"bucket": "2", "bucket-key": "id"})
    append(metastore, table, 1, names="ab")
    attempt = stage(metastore, table)
    made = [make_file(attempt, letter) for letter in "xyz"]
    made[2] = replace(made[2], row_count=0)
    commit(metastore, compaction(table, made, (1, 2)), attempt=attempt)
    names = [file["path"] for file in files(metastore, table)]
    remove(metastore, table, 1, {3: 4})
    assert [file["path"] for file in files(metastore, table)] == names
    assert counts(metastore, table) == [(10, 4), (10, 0), (0, 0)]
    restore(metastore, table, 2, 60)
    assert [file["path"] for file in files(metastore, table)] == names
    assert counts(metastore, table) == [(10, 0), (10, 0), (0, 0)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda group: replace(group, delete_counts=()), "delete_counts"),
        (lambda group: replace(group, delete_counts=(0,)), "delete_counts"),
        (lambda group: replace(group, deletion_vector_path=""), "deletion_vector_path"),
        (lambda group: replace(group, deletion_vector_path="data/other/x.parquet"), "folder of its attempt"),
        (lambda group: replace(group, inputs=(1,)), "vector files"),
        (lambda group: replace(group, covered_files=(2,)), "vector files"),
        (lambda group: replace(group, bucket=BucketRef(b"", 1)), "another bucket"),
        (lambda group: replace(group, vector_files=(1, 1), delete_counts=(1, 1)), "each file once"),
    ],
)
def test_nonsense_is_refused(
    metastore: Metastore, change: Callable[[CompactionGroup], CompactionGroup], said: str
) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")
    attempt = stage(metastore, table)
    wanted = removal(table, attempt, {1: 1})
    (group,) = wanted.groups
    with pytest.raises(InvalidArgument, match=said):
        commit(metastore, replace(wanted, groups=(change(group),)), attempt=attempt)
    for more in ({"remove": RemoveEverything()}, {"remove": RemoveFiles((1,))}, {"kind": SnapshotKind.APPEND}):
        with pytest.raises(InvalidArgument):
            commit(metastore, replace(wanted, **more), attempt=attempt)
    assert counts(metastore, table) == [(10, 0), (10, 0)]


def test_tables_with_a_key_commit_deletes(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    attempt = stage(metastore, table)
    with pytest.raises(InvalidArgument, match="has a primary key"):
        commit(metastore, removal(table, attempt, {1: 1}), attempt=attempt)


def test_new_files_have_no_removed_rows(metastore: Metastore) -> None:
    table = plain(metastore)
    with pytest.raises(InvalidArgument, match="can hold no deletes"):
        append(metastore, table, 1, delete_count=1)


def test_what_a_guard_covers_has_changed(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1)
    remove(metastore, table, 1, {1: 1})
    attempt = stage(metastore, table)
    change = removal(table, attempt, {2: 2}, if_unchanged=1)
    with pytest.raises(CommitConflict, match="if_unchanged=1"):
        commit(metastore, change, attempt=attempt)


def test_a_client_from_before_it_never_shows_removed_rows(metastore: Metastore) -> None:
    table = plain(metastore)
    append(metastore, table, 1, names="ab")

    def see(at: AtSnapshot | InRange | None = None) -> int:
        return metastore.plan(PlanRequest(table.table_uuid, at, reads_changed_columns=False)).files.num_rows

    assert see() == 2
    remove(metastore, table, 1, {1: 1})
    for at in (None, AtSnapshot(2)):
        with pytest.raises(InvalidArgument, match=r"Rows of .* were deleted by a condition") as error:
            see(at)
        assert error.value.reason == "CLIENT_TOO_OLD"
    # What was before, what was added, and what a compaction has left are as they always were.
    assert (see(AtSnapshot(1)), see(InRange(0, 1))) == (2, 2)
    rewrite(metastore, table, 1, 3, file={"row_count": 9})
    assert see() == 2
