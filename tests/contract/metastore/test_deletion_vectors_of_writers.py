"""Files that know which rows they supersede."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import BucketRef, CommitRequest
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import ChangelogState
from tests.support.error_metadata import metadata_of
from tests.support.metastore.making import append, make_change, make_file, make_table, rewrite


def test_deletion_vectors_hold_as_long_as_no_file_of_the_bucket_came_or_went(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)

    def look_up(identifier: int, base: int, path: str | None = "positions", **changes: Any) -> Any:
        attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
        path = f"data/{attempt}/{path}.parquet" if path else path
        file = make_file(attempt, deletion_vector_path=path)
        fields = {"base_snapshot_id": base, "unchanged_buckets": (BucketRef(b"", 0),)} | changes
        metastore.commit(CommitRequest("l", identifier, (make_change(table, [file], **fields),), attempt))
        return path

    path = look_up(1, 1)
    look_up(2, 2, "")
    rewrite(metastore, table, 1, 1)
    # What was looked up before a compaction names rows of files that are no more.
    with pytest.raises(CommitConflict, match="'compactor' changed or compacted bucket 0 with snapshot 4"):
        look_up(3, 3, "")
    look_up(3, 3, None)
    look_up(4, 5, "")
    paths = metastore.plan(PlanRequest(table.table_uuid)).files.column("deletion_vector_path").to_pylist()
    assert paths == [None, path, "", None, ""]
    with pytest.raises(InvalidArgument, match="bucket 0, which is not among unchanged_buckets"):
        look_up(5, 6, unchanged_buckets=())
    with pytest.raises(InvalidArgument, match="lie in the folder of its attempt"):
        look_up(5, 6, "../other")
    with pytest.raises(InvalidArgument, match="at most 900 characters"):
        look_up(5, 6, "x" * 1100)


@pytest.mark.parametrize("path", ["positions", ""])
def test_where_there_is_no_key_no_row_supersedes_another(metastore: Metastore, path: str) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1)
    attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
    path = path and f"data/{attempt}/{path}.parquet"
    fields: dict[str, Any] = {"base_snapshot_id": 1, "unchanged_buckets": (BucketRef(b"", 0),)}
    change = make_change(table, [make_file(attempt), make_file(attempt, "b", deletion_vector_path=path)], **fields)
    with pytest.raises(InvalidArgument) as refused:
        metastore.commit(CommitRequest("l", 1, (change,), attempt))
    assert refused.value.message == (
        f"deletion_vector_path is {path!r}. {table.name} has no primary key, so none of its rows supersedes another. "
        "Leave the path out."
    )
    assert metadata_of(refused.value) == {"field": "deletion_vector_path", "value": repr(path)}
    assert metastore.commit(CommitRequest("l", 1, (make_change(table, [make_file(attempt)], **fields),), attempt))


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_deletion_vectors_stand_in_a_file_of_their_own(metastore: Metastore, name: str) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
    path = f"data/{attempt}/{name}.parquet"
    change = make_change(
        table,
        [make_file(attempt, deletion_vector_path=path), make_file(attempt, "b")],
        base_snapshot_id=1,
        unchanged_buckets=(BucketRef(b"", 0),),
        changelog=ChangelogState.ATTACHED,
        changelog_files=(make_file(attempt, "c"),),
    )
    with pytest.raises(InvalidArgument) as refused:
        metastore.commit(CommitRequest("l", 1, (change,), attempt))
    assert refused.value.message == (
        f"deletion_vector_path is '{path}'. That is a data or changelog file of the same commit, which holds rows and "
        "no positions. Name the file that the positions were written to, or leave the path out."
    )
