"""Restoring an earlier state: which files are live again, in which place, and who hears of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.format.commit.request import BucketRef, CommitRequest, RemoveFiles, RestoreState
from lakelog.format.tables.plan import AtSnapshot
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from metastore.postgres.commits.restoring import PostgresRestoring
from tests.contract.metastore.restoring import restore
from tests.support.metastore.making import (
    append,
    compaction,
    day,
    make_change,
    make_file,
    make_table,
    rewrite,
    snapshot_ids,
)
from tests.support.metastore.opening import open_in_process

from .compacting import BUCKET, bounds, commit, files, place, shown, stage


def test_what_came_since_goes(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number, letter in enumerate("abc"):
        append(metastore, table, number, names=letter)
    assert restore(metastore, table, 2).snapshot_id == 4
    assert shown(metastore, table) == "a0 b0"
    newest = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (newest.kind, newest.changelog) == (SnapshotKind.OVERWRITE, ChangelogState.NONE)
    assert (newest.total_files, newest.total_rows, newest.total_bytes) == (2, 20, 2000)
    assert (newest.added_files, newest.added_rows, newest.removed_files) == (0, 0, 1)
    # Nothing is lost, and what comes next stands behind it.
    assert shown(metastore, table, AtSnapshot(3)) == "a0 b0 c0"
    append(metastore, table, 3, names="d")
    assert shown(metastore, table) == "a0 b0 d0"
    assert restore(metastore, table, 3, 2).snapshot_id == 6
    assert shown(metastore, table) == "a0 b0 c0"
    assert snapshot_ids(metastore, table) == [1, 2, 3, 4, 5, 6]


def test_what_went_since_is_back_in_its_place(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    for number, letter in enumerate("abc"):
        append(metastore, table, number, names=letter, partition=day("mon"), bucket=2)
    append(metastore, table, 3, names="d", partition=day("tue"), bucket=1)
    then = files(metastore, table)
    attempt = stage(metastore, table)
    merged = make_file(attempt, "z", partition=day("mon"), bucket=2, row_count=20)
    commit(metastore, compaction(table, [merged], (1, 2)), attempt=attempt)
    rewrite(metastore, table, 9, 4, kind=SnapshotKind.OVERWRITE, names="y", file={"partition": day("tue")})
    assert restore(metastore, table, 4).snapshot_id == 7
    again = files(metastore, table)
    for old, new in zip(then, again, strict=True):
        assert place(new) == place(old)
        same = {name: value for name, value in old.items() if name not in ("file_id", "added_snapshot")}
        assert {name: new[name] for name in same} == same
    # The third was there all the time.
    assert [(file["file_id"], file["added_snapshot"]) for file in again] == [(7, 7), (8, 7), (3, 3), (9, 7)]
    newest = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (newest.added_files, newest.added_rows, newest.removed_files, newest.total_files) == (3, 30, 2, 4)
    append(metastore, table, 4, names="e", partition=day("mon"), bucket=2)
    assert shown(metastore, table) == "a0 b0 c0 e0 d0"


def test_a_file_that_moved_is_where_it_was(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", **bounds(1, 5))
    append(metastore, table, 2, names="b", **bounds(6, 9))
    commit(metastore, compaction(table, moves=(1,), level=5))
    assert shown(metastore, table) == "a5 b0"
    restore(metastore, table, 2)
    assert shown(metastore, table) == "a0 b0"
    restore(metastore, table, 3, 2)
    assert shown(metastore, table) == "a5 b0"


def test_it_has_no_deletion_vector_any_more(metastore: Metastore) -> None:
    """They are of files that stood there in another entry; whoever reads finds them."""
    table = make_table(metastore)
    append(metastore, table, 1, names="a")
    attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
    knowing = make_file(attempt, "b", deletion_vector_path=f"data/{attempt}/positions.parquet")
    change = make_change(table, [knowing], base_snapshot_id=1, unchanged_buckets=(BUCKET,))
    metastore.commit(CommitRequest("l", 1, (change,), attempt))
    rewrite(metastore, table, 1, 2, kind=SnapshotKind.OVERWRITE, names="")
    restore(metastore, table, 2)
    assert [file["deletion_vector_path"] for file in files(metastore, table)] == [None, None]
    assert [file["deletion_vector_path"] is None for file in files(metastore, table, AtSnapshot(2))] == [True, False]


def test_a_restored_state_can_be_compacted_and_restored(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    rewrite(metastore, table, 1, 1, 2, names="y", file={"row_count": 20})
    restore(metastore, table, 1)
    # What was planned before it is dropped: its inputs are gone, though files of their paths are there.
    late = rewrite(metastore, table, 2, 1, 2, names="x", file={"row_count": 20})
    assert [each.reason for each in late.results[0].dropped] == ["INPUT_GONE"]
    done = rewrite(metastore, table, 3, 4, 5, names="z", file={"row_count": 20})
    assert done.results[0].dropped == ()
    assert shown(metastore, table) == "z1"
    restore(metastore, table, 2, 2)
    assert shown(metastore, table) == "y1"
    for snapshot_id, then in ((1, "a0 b0"), (2, "y1"), (3, "a0 b0"), (4, "z1"), (5, "y1")):
        assert shown(metastore, table, AtSnapshot(snapshot_id)) == then


def test_who_looked_rows_up_learns_of_it(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", bucket=1)
    rewrite(metastore, table, 1, 1, kind=SnapshotKind.OVERWRITE, names="")
    append(metastore, table, 2, names="b", bucket=2)
    restore(metastore, table, 1)

    def looked_up(bucket: int, identifier: int) -> None:
        touched = (BucketRef(b"", bucket),)
        change = make_change(table, allow_empty=True, base_snapshot_id=3, unchanged_buckets=touched)
        metastore.commit(CommitRequest("l", identifier, (change,)))

    for bucket in (1, 2):
        with pytest.raises(CommitConflict, match="'r' changed or compacted bucket"):
            looked_up(bucket, 1)
    looked_up(3, 1)


def test_nothing_to_restore_makes_no_snapshot(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    assert restore(metastore, table, 1).snapshot_id is None
    assert restore(metastore, table, 1, 2, allow_empty=True).snapshot_id == 2
    assert restore(metastore, table, 1, 3).snapshot_id is None
    rewrite(metastore, table, 1, 1, kind=SnapshotKind.OVERWRITE, names="")
    assert restore(metastore, table, 1, 4).snapshot_id == 4
    # What was brought back once is there.
    assert restore(metastore, table, 1, 5).snapshot_id is None
    assert restore(metastore, table, 2, 6).snapshot_id is None


def test_it_is_applied_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2)
    metastore.create_tag(table.table_uuid, "x", 1)
    first = restore(metastore, table, None, 7, "x")
    append(metastore, table, 3, names="c")
    metastore.delete_tag(table.table_uuid, "x")
    assert restore(metastore, table, None, 7, "x") == first
    assert snapshot_ids(metastore, table) == [1, 2, 3, 4]


def test_a_state_that_is_not_there(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(NotFound, match="has no snapshot 1; it has no snapshot yet"):
        restore(metastore, table, 1)
    append(metastore, table, 1)
    metastore.create_tag(table.table_uuid, "first")
    with pytest.raises(NotFound, match="has no snapshot 2; it has the snapshots 1 to 1"):
        restore(metastore, table, 2)
    with pytest.raises(NotFound, match="has no tag 'frist'; it has 'first'"):
        restore(metastore, table, None, tag="frist")
    assert restore(metastore, table, None, tag="first").snapshot_id is None


def test_what_a_restore_may_not_be(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    change = make_change(table, remove=RestoreState(1))
    with pytest.raises(InvalidArgument, match="An APPEND removes nothing; commit it as OVERWRITE"):
        metastore.commit(CommitRequest("r", 1, (change,)))
    with pytest.raises(InvalidArgument, match=r"remove\.restore.*Name a snapshot or a tag, one of them"):
        restore(metastore, table, None)
    with pytest.raises(InvalidArgument, match=r"snapshot_id is 0\. Give a number from 1"):
        restore(metastore, table, 0)
    with pytest.raises(InvalidArgument, match="A number means a snapshot"):
        restore(metastore, table, None, tag="1")
    with pytest.raises(InvalidArgument, match="a state is restored without a changelog"):
        restore(metastore, table, 1, changelog=ChangelogState.ATTACHED)
    attempt = stage(metastore, table)
    with pytest.raises(InvalidArgument, match="a change that restores a state has no files"):
        restore(metastore, table, 1, add_files=(make_file(attempt),))


def lose_one_of_two(metastore: Metastore) -> str:
    """Two files that a compaction wrote share a place; an overwrite takes the first, and a rollback brings it back."""
    table = make_table(metastore, keyed=False, options={"bucket": "1", "bucket-key": "id"})
    append(metastore, table, 1, names="abc")
    attempt = stage(metastore, table)
    outputs = [make_file(attempt, letter, row_count=15) for letter in "xy"]
    commit(metastore, compaction(table, outputs, (1, 2, 3)), attempt=attempt)
    assert shown(metastore, table) == "x0 y0"
    gone = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((4,)))
    metastore.commit(CommitRequest("w", 2, (gone,)))
    restore(metastore, table, 2)
    newest = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (newest.total_files, newest.total_rows) == (2, 30)
    brought = shown(metastore, table)
    # Once more, when the second has an entry that is not of that state either.
    first = next(file["file_id"] for file in files(metastore, table) if str(file["path"]).endswith("x.parquet"))
    gone = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveFiles((first,)))
    metastore.commit(CommitRequest("w", 3, (gone,)))
    restore(metastore, table, 2, 2)
    return f"{brought}, {shown(metastore, table)}"


def test_files_of_one_place_keep_their_order(metastore: Metastore) -> None:
    assert lose_one_of_two(metastore) == "x0 y0, x0 y0"


@pytest.fixture
def in_postgres(migrated_url: str) -> Iterator[Metastore]:
    opened = open_in_process(migrated_url)
    yield opened
    opened.close()


def test_control_where_the_others_of_its_place_stay_a_file_comes_after_them(
    in_postgres: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = "WHERE added_snapshot > order_snapshot AND"
    assert PostgresRestoring.restore_sql.count(taken) == 1
    monkeypatch.setattr(
        PostgresRestoring, "restore_sql", PostgresRestoring.restore_sql.replace(taken, "WHERE false AND")
    )
    assert lose_one_of_two(in_postgres) == "y0 x0, y0 x0"


def test_control_without_its_place_what_is_back_hides_what_was_newer(
    in_postgres: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older of two files of one key is overwritten and brought back: a read must go on showing the newer one."""

    def bring_back() -> str:
        table = make_table(in_postgres)
        append(in_postgres, table, 1, names="a")
        append(in_postgres, table, 2, names="b")
        rewrite(in_postgres, table, 1, 1, kind=SnapshotKind.OVERWRITE, names="")
        restore(in_postgres, table, 2)
        return shown(in_postgres, table)

    assert bring_back() == "a0 b0"
    taken = "%s::bigint, order_snapshot,"
    assert PostgresRestoring.restore_sql.count(taken) == 1
    without = PostgresRestoring.restore_sql.replace(taken, "%s::bigint, 3,")
    monkeypatch.setattr(PostgresRestoring, "restore_sql", without)
    assert bring_back() == "b0 a0"
