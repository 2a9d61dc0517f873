"""What a tag keeps when its snapshot has expired."""

from __future__ import annotations

import psycopg
import pytest

from lakelog.errors import NotFound, SnapshotExpired
from lakelog.format.commit.request import CommitRequest, RestoreState
from lakelog.format.tables.plan import AtSnapshot, AtTag, AtTime, InRange, PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from metastore.postgres.connection.connections import libpq_url
from tests.contract.metastore.compacting import shown
from tests.support.metastore.making import append, make_change, make_table, rewrite
from tests.support.metastore.opening import open_in_process


def test_a_snapshot_with_a_tag_outlives_expiry(migrated_url: str) -> None:
    metastore = open_in_process(migrated_url)
    table = make_table(metastore)
    for number, letter in enumerate("abcde"):
        append(metastore, table, number, names=letter)
    made = metastore.create_tag(table.table_uuid, "x", 2)
    rewrite(metastore, table, 1, 1, 2, names="z", file={"row_count": 20})
    before = metastore.list_snapshots(table.table_uuid).snapshots
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute("UPDATE table_head SET earliest_snapshot_id = 4")
        connection.execute("DELETE FROM snapshot WHERE snapshot_id < 4 AND snapshot_id <> 2")

    assert metastore.list_tags(table.table_uuid) == [made]
    assert shown(metastore, table, AtTag("x")) == shown(metastore, table, AtSnapshot(2)) == "a0 b0"
    # Time travel looks at what is kept for all, so that the answer is never an older state than was asked for.
    with pytest.raises(SnapshotExpired, match=r"Snapshot 2 of .* has expired; the snapshots 4 to 6 can"):
        metastore.plan(PlanRequest(table.table_uuid, AtTime(before[3].committed_at_ms - 1)))
    with pytest.raises(NotFound, match="the earliest one kept is 4"):
        metastore.plan(PlanRequest(table.table_uuid, AtTime(before[0].committed_at_ms - 1)))
    # What came behind it is known no more.
    with pytest.raises(SnapshotExpired, match="Snapshot 2 of"):
        metastore.plan(PlanRequest(table.table_uuid, InRange(1, 5)))
    # A second tag may be given while the first one keeps it.
    assert metastore.create_tag(table.table_uuid, "y", 2).total_rows == made.total_rows
    for other in (1, 3):
        with pytest.raises(SnapshotExpired, match=rf"Snapshot {other} of .* has expired; the snapshots 4 to 6 can"):
            metastore.create_tag(table.table_uuid, "w", other)
        with pytest.raises(SnapshotExpired):
            metastore.commit(
                CommitRequest("r", 9, (make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(other)),))
            )
    change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RestoreState(tag="x"))
    (result,) = metastore.commit(CommitRequest("r", 1, (change,))).results
    assert result.snapshot_id == 7
    assert shown(metastore, table) == "a0 b0"
    metastore.delete_tag(table.table_uuid, "x")
    metastore.delete_tag(table.table_uuid, "y")
    with pytest.raises(SnapshotExpired, match="Snapshot 2 of"):
        metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(2)))
    metastore.close()
