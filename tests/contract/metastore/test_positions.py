"""Files that know which rows they supersede (DESIGN: superseded positions)."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.client.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit import BucketRef, CommitRequest
from lakelog.format.plan import PlanRequest

from .making import append, make_change, make_file, make_table, rewrite


def test_positions_hold_as_long_as_no_file_of_the_bucket_came_or_went(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)

    def look_up(identifier: int, base: int, path: str | None = "positions", **changes: Any) -> Any:
        attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
        path = f"data/{attempt}/{path}.parquet" if path else path
        file = make_file(attempt, superseded_path=path)
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
    paths = metastore.plan(PlanRequest(table.table_uuid)).files.column("superseded_path").to_pylist()
    assert paths == [None, path, "", None, ""]
    with pytest.raises(InvalidArgument, match="bucket 0, which is not among unchanged_buckets"):
        look_up(5, 6, unchanged_buckets=())
    with pytest.raises(InvalidArgument, match="lie in the folder of its attempt"):
        look_up(5, 6, "../other")
    with pytest.raises(InvalidArgument, match="at most 1024 characters"):
        look_up(5, 6, "x" * 1100)
