"""What full compactions have told (semantics 3.6): which files, from and until which snapshots."""

from __future__ import annotations

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import PRODUCER_CHANGED, TOLD_BY_OTHERS, RemoveEverything
from lakelog.format.tables.plan import InRange
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.deferring import baseline, compact, emitting, make_deferring
from tests.support.metastore.making import append, make_change, make_file, make_table

from .compacting import bounds, commit, files, name, stage


def states(metastore: Metastore, table: TableInfo) -> list[ChangelogState]:
    return [each.changelog for each in metastore.list_snapshots(table.table_uuid).snapshots]


def test_each_snapshot_says_when_it_is_emitted(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    # Also what a writer tells that does not know the producer yet.
    append(metastore, table, 1, changelog=ChangelogState.ATTACHED)
    attempt = stage(metastore, table)
    extra = make_change(table, changelog=ChangelogState.ATTACHED, changelog_files=(make_file(attempt, "c"),))
    commit(metastore, extra, 2, writer="w", attempt=attempt)
    assert compact(metastore, table, 3, (1,), "x", "t") == []
    append(metastore, table, 4)
    assert compact(metastore, table, 5, (3,), "y", level=1, emits_changelog=False, is_full=False) == []
    later = ChangelogState.LATER
    assert states(metastore, table) == [later, later, ChangelogState.ATTACHED, later, later]
    assert [name(each) for each in files(metastore, table, InRange(0, 5), changelog=True)] == ["t"]


def test_the_baseline_at_each_snapshot(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1, names="ab")
    assert compact(metastore, table, 2, (1, 2), "x", "t") == []
    append(metastore, table, 3, names="c")
    assert compact(metastore, table, 4, (3, 4), "y", "u", baseline=(3,)) == []
    assert [baseline(metastore, table, at) for at in range(1, 5)] == ["", "x", "x", "y"]
    assert baseline(metastore, table) == "y"
    # The same as what is live where each commit tells by itself.
    other = make_table(metastore)
    append(metastore, other, 1, names="ab")
    assert baseline(metastore, other) == "a b"


def test_what_an_overwrite_removes_stays_in_the_baseline(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1)
    compact(metastore, table, 2, (1,), "x", "t")
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything()), 3)
    assert (baseline(metastore, table), files(metastore, table)) == ("x", [])
    # A group of nothing else says what became of it.
    assert compact(metastore, table, 4, baseline=(2,)) == []
    assert baseline(metastore, table) == ""
    assert [baseline(metastore, table, at) for at in (2, 3)] == ["x", "x"]
    assert states(metastore, table)[-1] is ChangelogState.ATTACHED


def test_nothing_is_emitted_twice(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1)
    compact(metastore, table, 2, (1,), "x", "t")
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything()), 3)
    first, second = (
        emitting(metastore, table, changelog="u", baseline=(2,)),
        emitting(metastore, table, changelog="v", baseline=(2,)),
    )
    assert commit(metastore, first[0], 4, attempt=first[1]).dropped == ()
    (dropped,) = commit(metastore, second[0], 5, attempt=second[1]).dropped
    assert (dropped.reason, dropped.file_id) == (TOLD_BY_OTHERS, 2)
    assert "has written the changelog of file 2 already" in dropped.message
    assert [name(each) for each in files(metastore, table, InRange(0, 4), changelog=True)] == ["t", "u"]


def test_files_inside_and_outside_the_baseline_are_not_mixed_unawares(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1)
    compact(metastore, table, 2, (1,), "x", "t")
    append(metastore, table, 3)
    for fields in ({"emits_changelog": False}, {"changelog": "u"}):
        assert compact(metastore, table, 4, (2, 3), "y", **fields) == [TOLD_BY_OTHERS]
    # What was told and is only written anew stays told.
    assert compact(metastore, table, 5, (2,), "z", emits_changelog=False) == []
    assert baseline(metastore, table) == "z"


def test_moved_files_are_emitted(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1, **bounds(1, 5))
    append(metastore, table, 2, names="b", **bounds(6, 9))
    assert compact(metastore, table, 3, (), "", "t", level=2, moves=(1,)) == []
    assert baseline(metastore, table) == "a"
    assert compact(metastore, table, 4, (), "", "", moves=(3,), baseline=(3,)) == []
    assert [(name(each), each["level"]) for each in files(metastore, table)] == [("a", 5), ("b", 0)]
    assert baseline(metastore, table) == "a"


def test_a_table_that_is_altered(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    change, attempt = emitting(metastore, table, (1, 2), "x", "t")
    (dropped,) = commit(metastore, change, 2, attempt=attempt).dropped
    assert dropped.reason == PRODUCER_CHANGED
    set_producer = {"changelog-producer": "full-compaction"}
    metastore.alter_table(table.table_uuid, set_options=set_producer, unset_options=())
    # All that was there was told by then, however it was.
    assert (baseline(metastore, table), baseline(metastore, table, 1)) == ("a b", "a b")
    append(metastore, table, 3, names="c")
    assert (baseline(metastore, table), states(metastore, table)[1:]) == ("a b", [ChangelogState.LATER])
    with pytest.raises(CommitConflict, match=r"compact\(full=True\)") as refused:
        metastore.alter_table(table.table_uuid, set_options={}, unset_options=list(set_producer))
    assert (refused.value.reason, refused.value.metadata["retry"]) == ("CHANGES_UNTOLD", "never")
    assert compact(metastore, table, 4, (1, 2, 3), "y", "u", baseline=(1, 2)) == []
    metastore.alter_table(table.table_uuid, set_options={"changelog-producer": "lookup"}, unset_options=())
    append(metastore, table, 5, names="d", changelog=ChangelogState.ATTACHED)
    assert states(metastore, table)[-1] is ChangelogState.ATTACHED
    assert (baseline(metastore, table), baseline(metastore, table, 3)) == ("d y", "y")
    metastore.alter_table(table.table_uuid, set_options=set_producer, unset_options=())
    assert baseline(metastore, table) == "d y"
    append(metastore, table, 6, names="e")
    assert [baseline(metastore, table, at) for at in range(1, 6)] == ["a b", "a b", "y", "d y", "d y"]


def test_the_newest_full_compaction(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2)
    (found,) = metastore.list_latest([table.table_uuid])
    assert found.last_full_snapshot_id == 0
    compact(metastore, table, 3, (1,), "x", emits_changelog=False)
    append(metastore, table, 4)
    (found,) = metastore.list_latest([table.table_uuid])
    assert (found.last_full_snapshot_id, found.snapshot_id) == (3, 4)


def test_a_range_has_no_baseline(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match="baseline is True"):
        files(metastore, table, InRange(0, 1), baseline=True)
    with pytest.raises(InvalidArgument, match="'changelog-producer' says what makes it"):
        append(metastore, table, 2, changelog=ChangelogState.LATER)
