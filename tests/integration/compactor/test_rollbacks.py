"""Rollbacks next to a compactor: nothing of what it does or leaves behind changes what comes back, or is told."""

from __future__ import annotations

import pytest

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, to_bucket_scope
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import emitted, make, replayed, rows, shown


def compact(metastore: InProcessMetastore, table: Table) -> None:
    """Compacts every bucket that has files, or whose files were told of, as a whole."""
    states = (PlanRequest(table.uuid), PlanRequest(table.uuid, baseline=True))
    files = [metastore.plan(each).files for each in states]
    buckets = {
        pair for each in files for pair in zip(each["partition"].to_pylist(), each["bucket"].to_pylist(), strict=True)
    }
    scopes = [to_bucket_scope(partition, bucket) for partition, bucket in sorted(buckets)]
    asked = {job.job_id: job.epoch for job in metastore.request_jobs(table.uuid, COMPACT, scopes, {STRATEGY: FULL})}
    attach_all(metastore)
    # What commits make due by themselves may have made them due again.
    done = {job.job_id: job.done_epoch or 0 for job in metastore.list_jobs()}
    assert all(done[job_id] > epoch for job_id, epoch in asked.items())


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_states_before_and_after_compactions_come_back(
    metastore: InProcessMetastore, catalog: Catalog, producer: str
) -> None:
    table = make(catalog, producer, bucket="2", streaming_read_overwrite="true")
    table.write(rows("+I 1|1|1", "+I 1|2|2", "+I 2|3|3"))
    table.write(rows("+U 1|1|11", "-D 1|2|0"))
    then = shown(table)
    compact(metastore, table)
    table.write(rows("+U 1|1|12", "+I 1|4|4"))
    compact(metastore, table)
    newest = table.snapshots().column("id").to_pylist()[-1]
    table.rollback_to(2)
    assert shown(table) == then
    assert set(table.files().column("level").to_pylist()) == {0}
    # Files that only moved are in both states; of what they hold nothing is told.
    assert sorted(emitted(table, newest)) == ["+U 1|1|11", "-D 1|4|4", "-U 1|1|12"]
    compact(metastore, table)
    assert shown(table) == then
    table.write(rows("+I 1|2|22"))
    compact(metastore, table)
    table.rollback_to(newest)
    assert shown(table) == table_at(table, newest)
    assert replayed(table) == shown(table)


def table_at(table: Table, snapshot_id: int) -> dict[tuple[int, int], int]:
    found = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {(row["pt"], row["k"]): row["v"] for row in found}


def test_what_is_open_is_reported_as_it_was(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """Changelogs of commits that were rolled back, and of one behind, which a compactor makes later."""
    table = make(catalog, "lookup", lookup_wait="false", streaming_read_overwrite="true")
    table.write(rows("+I 1|1|1", "+I 1|2|2"))
    table.write(rows("+U 1|1|11", "-D 1|2|0", "+I 1|3|3"))
    table.rollback_to(1)
    table.write(rows("+U 1|1|12", "-D 1|3|0"))
    states = [each.changelog for each in metastore.list_snapshots(table.uuid).snapshots]
    assert states == [ChangelogState.PENDING, ChangelogState.PENDING, ChangelogState.NONE, ChangelogState.PENDING]
    attach_all(metastore)
    assert emitted(table, 1, 2) == ["-U 1|1|1", "+U 1|1|11", "-D 1|2|2", "+I 1|3|3"]
    assert emitted(table, 2, 3) == ["-U 1|1|11", "+U 1|1|1", "+I 1|2|2", "-D 1|3|3"]
    assert emitted(table, 3, 4) == ["-U 1|1|1", "+U 1|1|12"]
    assert replayed(table) == shown(table) == {(1, 1): 12, (1, 2): 2}


def test_full_compactions_emit_it(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """A state that is compacted as a whole comes back behind one that was told: the next one tells the difference."""
    table = make(catalog, "full-compaction")
    table.write(rows("+I 1|1|1", "+I 1|2|2", "+I 2|1|1"))
    compact(metastore, table)
    first = table.snapshots().column("id").to_pylist()[-1]
    table.write(rows("+U 1|1|11", "-D 1|2|0", "+I 3|3|3"))
    compact(metastore, table)
    second = table.snapshots().column("id").to_pylist()[-1]
    table.rollback_to(first)
    back = table.snapshots().column("id").to_pylist()[-1]
    assert shown(table) == {(1, 1): 1, (1, 2): 2, (2, 1): 1}
    assert emitted(table, second, back) == []
    compact(metastore, table)
    assert sorted(emitted(table, back)) == ["+I 1|2|2", "+U 1|1|1", "-D 3|3|3", "-U 1|1|11"]
    assert replayed(table) == shown(table)
    # Forth again, with a row that no full compaction has told of.
    table.write(rows("+I 2|9|9"))
    table.rollback_to(second)
    compact(metastore, table)
    assert replayed(table) == shown(table) == {(1, 1): 11, (2, 1): 1, (3, 3): 3}
