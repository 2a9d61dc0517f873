"""Commits that remove rows of append tables by their positions: what they enter, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import (
    BucketRef,
    CommitRequest,
    CompactionGroup,
    RemoveEverything,
    RemoveFiles,
)
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, make_change, make_table, rewrite


def remove(
    metastore: Metastore, table: TableInfo, *groups: CompactionGroup, identifier: int = 1, **change: Any
) -> None:
    attempt = metastore.stage_attempt([table.table_uuid], "remover").attempt_id
    named = tuple(_in_attempt(group, attempt) for group in groups)
    made = make_change(table, groups=named, **{"kind": SnapshotKind.OVERWRITE, **change})
    metastore.commit(CommitRequest("remover", identifier, (made,), attempt))


def group(*files: int, counts: tuple[int, ...] = (), bucket: int = 0, **more: Any) -> CompactionGroup:
    counts = counts or (1,) * len(files)
    return CompactionGroup(
        BucketRef(b"", bucket), vector_files=files, deletion_vector_path="removed", delete_counts=counts, **more
    )


def _in_attempt(found: CompactionGroup, attempt: str) -> CompactionGroup:
    path = f"data/{attempt}/{found.deletion_vector_path}.parquet" if found.deletion_vector_path else ""
    return CompactionGroup(**{**vars(found), "deletion_vector_path": path})


def counts(metastore: Metastore, table: TableInfo, **request: Any) -> list[tuple[int, int]]:
    files = metastore.plan(PlanRequest(table.table_uuid, **request)).files
    return list(zip(*(files.column(name).to_pylist() for name in ("file_id", "delete_count")), strict=True))


def test_files_are_entered_again_in_their_order(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    append(metastore, table, 2, names="c")
    remove(metastore, table, group(1, 3, counts=(4, 5)))
    assert counts(metastore, table) == [(4, 4), (2, 0), (5, 5)]
    assert counts(metastore, table, at=AtSnapshot(2)) == [(1, 0), (2, 0), (3, 0)]
    snapshot = metastore.list_snapshots(table.table_uuid).snapshots[-1]
    assert (snapshot.kind, snapshot.total_rows, snapshot.added_rows) == (SnapshotKind.OVERWRITE, 30, 0)


def test_files_of_one_compaction_stay_in_its_order(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False, options={"bucket": "4", "bucket-key": "id"})
    append(metastore, table, 1, names="ab")
    rewrite(metastore, table, 1, 1, 2, names="yz")
    remove(metastore, table, group(3))
    paths = metastore.plan(PlanRequest(table.table_uuid)).files.column("path").to_pylist()
    assert [path.split("/")[-1] for path in paths] == ["y.parquet", "z.parquet"]
    assert counts(metastore, table) == [(5, 1), (6, 0)]


@pytest.mark.parametrize(
    ("groups", "change", "says"),
    [
        ([group(1, counts=(2,))], {}, "3 of them are removed already"),
        ([group(1, counts=(11,))], {}, "which has 10 rows"),
        ([group(1, counts=(3, 4))], {}, "Give one for each"),
        ([group(1, 2, bucket=1)], {}, "in another bucket than its own"),
        ([group(1), group(1)], {}, "Name each file once"),
        ([group(1)], {"remove": RemoveFiles((1,))}, "Name each file once"),
        ([group(1)], {"remove": RemoveEverything()}, "name the files to remove"),
        ([group(1, inputs=(2,))], {}, "A group of an OVERWRITE has vector files"),
        ([group()], {}, "Name the file with the positions"),
        ([group(1)], {"kind": SnapshotKind.APPEND}, "only an OVERWRITE removes rows"),
    ],
)
def test_what_is_refused(metastore: Metastore, groups: list[CompactionGroup], change: Any, says: str) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    remove(metastore, table, group(1, counts=(3,)), identifier=0)
    live = counts(metastore, table)
    present = {1: live[0][0], 2: live[1][0]}
    meant = [CompactionGroup(**{**vars(g), "vector_files": tuple(present[n] for n in g.vector_files)}) for g in groups]
    if isinstance(change.get("remove"), RemoveFiles):
        change = {"remove": RemoveFiles((present[1],))}
    with pytest.raises(InvalidArgument, match=says):
        remove(metastore, table, *meant, **change)
    assert counts(metastore, table) == live


def test_files_that_are_gone_refuse_the_whole_commit(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    rewrite(metastore, table, 1, 1, file={"row_count": 10})
    with pytest.raises(CommitConflict, match="is not live any more") as caught:
        remove(metastore, table, group(1, 2))
    assert caught.value.reason == "INPUT_GONE"
    assert [deleted for _, deleted in counts(metastore, table)] == [0, 0]


def test_a_table_with_a_key_has_none(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match="commit deletes of their keys instead"):
        remove(metastore, table, group(1))


def test_a_client_from_before_it_never_shows_removed_rows(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    old = {"reads_changed_columns": False}
    assert counts(metastore, table, **old) == [(1, 0), (2, 0)]
    remove(metastore, table, group(1))
    with pytest.raises(InvalidArgument, match=r"Rows of .* were deleted by a condition") as caught:
        counts(metastore, table, **old)
    assert caught.value.reason == "CLIENT_TOO_OLD"
    # What was before, what changed, and what a compaction has left are as they always were.
    assert counts(metastore, table, at=AtSnapshot(1), **old) == [(1, 0), (2, 0)]
    assert counts(metastore, table, at=InRange(0, 1), **old) == [(1, 0), (2, 0)]
    rewrite(metastore, table, 1, 3, file={"row_count": 9})
    assert len(counts(metastore, table, **old)) == 2
