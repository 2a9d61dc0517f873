"""Snapshots that are not kept any more: refused by name, never answered wrongly."""

from __future__ import annotations

import psycopg
import pytest

from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import CommitConflict, HistoryDiverged, NotFound, SnapshotExpired
from lakelog.format.commit.request import BucketRef, CommitRequest
from lakelog.format.tables.plan import AtSnapshot, AtTime, InRange, PlanRequest
from metastore.postgres.connection.connections import libpq_url
from tests.support.metastore.making import append, make_change, make_table
from tests.support.metastore.opening import open_in_process


def test_what_has_expired(migrated_url: str) -> None:
    metastore = open_in_process(migrated_url)
    table = make_table(metastore)
    for n in range(5):
        append(metastore, table, n, names=str(n))
    before = metastore.list_snapshots(table.table_uuid).snapshots
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute("UPDATE table_head SET earliest_snapshot_id = 3")
        connection.execute("DELETE FROM snapshot WHERE snapshot_id < 3")
    page = metastore.list_snapshots(table.table_uuid)
    assert (page.earliest_snapshot_id, page.latest_snapshot_id, page.snapshots) == (3, 5, before[2:])

    def plan(at: AtSnapshot | AtTime | InRange) -> int:
        return int(metastore.plan(PlanRequest(table.table_uuid, at=at)).files.num_rows)

    with pytest.raises(SnapshotExpired, match=r"Snapshot 2 .* has expired; the snapshots 3 to 5 can still be read"):
        plan(AtSnapshot(2))
    with pytest.raises(SnapshotExpired, match=r"Snapshot 2 .* has expired"):
        plan(InRange(1, 4))
    with pytest.raises(NotFound, match=rf"the earliest one kept is 3, of .*\({before[2].committed_at_ms}\)"):
        plan(AtTime(before[0].committed_at_ms - 1))
    assert (plan(AtSnapshot(3)), plan(InRange(2, 4))) == (3, 2)

    def watch(after: int, uuid: str = "") -> list[int]:
        opened = metastore.watch([WatchPosition(table.table_uuid, after, uuid)])
        event = next(iter(opened))
        opened.close()
        return [snapshot.snapshot_id for snapshot in event.snapshots]

    with pytest.raises(SnapshotExpired, match="the snapshots up to 2 have expired; 3 to 5 can still be read"):
        watch(1)
    assert watch(2, before[1].snapshot_uuid) == [3, 4, 5]
    with pytest.raises(HistoryDiverged):
        watch(2, before[0].snapshot_uuid)

    change = make_change(table, allow_empty=True, base_snapshot_id=1, unchanged_buckets=(BucketRef(b"", 0),))
    with pytest.raises(CommitConflict, match=r"only known from snapshot 3 on\. Plan anew") as error:
        metastore.commit(CommitRequest("l", 1, (change,)))
    assert (error.value.reason, error.value.metadata["retry"]) == ("BASE_EXPIRED", "replan")
    # A repeat is answered all the same: results are kept without end.
    assert metastore.get_writer_progress("w", table.table_uuid).last_identifier == 4
    metastore.close()
