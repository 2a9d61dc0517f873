"""The changelog producer `full-compaction`: what full compactions tell, and what streams show (semantics 3.6)."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import CommitConflict
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, STRATEGY, JobState, to_bucket_scope
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.compaction_result import CompactionState
from lakelog.sdk.tables.table import Table
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import emitted, make, replayed, rows, shown

FIRST = ("+I 1|10|100", "+I 1|20|200", "+I 1|40|400")
SECOND = ("+I 1|10|101", "+I 1|30|300", "+I 1|10|102", "-D 1|40|0")


def compact(metastore: InProcessMetastore, table: Table, strategy: str = FULL) -> None:
    """Compacts every bucket that has files, or whose files were told of."""
    at = PlanRequest(table.uuid)
    files = [metastore.plan(at).files, metastore.plan(PlanRequest(table.uuid, baseline=True)).files]
    buckets = {
        pair for each in files for pair in zip(each["partition"].to_pylist(), each["bucket"].to_pylist(), strict=True)
    }
    scopes = [to_bucket_scope(partition, bucket) for partition, bucket in sorted(buckets)]
    metastore.request_jobs(table.uuid, COMPACT, scopes, {STRATEGY: strategy})
    attach_all(metastore)
    assert {job.state for job in metastore.list_jobs()} == {JobState.DONE}


def test_the_vector(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "full-compaction")
    table.write(rows(*FIRST))
    table.write(rows(*SECOND))
    assert emitted(table, 0) == []
    assert shown(table) == {(1, 10): 102, (1, 20): 200, (1, 30): 300}
    compact(metastore, table)
    assert emitted(table, 0) == ["+I 1|10|102", "+I 1|20|200", "+I 1|30|300"]
    assert emitted(table, 2) == emitted(table, 0)
    assert emitted(table, 0, 2) == []
    table.write(rows("+I 1|10|102", "+I 1|50|500", "-D 1|30|0"))
    table.write(rows("-D 1|50|0", "-D 1|60|0"))
    compact(metastore, table)
    compact(metastore, table)
    assert emitted(table, 3) == ["-U 1|10|102", "+U 1|10|102", "-D 1|30|300"]
    assert replayed(table) == shown(table)


def test_overwrites_are_emitted_with_the_next_full_compaction(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "full-compaction")
    table.write(rows("+I 1|1|1", "+I 1|2|2", "+I 2|1|1", "+I 3|1|1"))
    compact(metastore, table)
    table.overwrite(plain("+I 1|2|2", "+I 1|3|3"), partition={"pt": 1})
    table.overwrite(plain(), partition={"pt": 2})
    table.write(rows("+I 3|2|2"))
    last = metastore.list_snapshots(table.uuid).latest_snapshot_id
    assert emitted(table, 4) == []
    compact(metastore, table)
    assert sorted(emitted(table, last)) == [
        "+I 1|3|3",
        "+I 3|2|2",
        "+U 1|2|2",
        "-D 1|1|1",
        "-D 2|1|1",
        "-U 1|2|2",
    ]
    assert replayed(table) == shown(table)
    compact(metastore, table)
    assert replayed(table) == shown(table)


def test_files_that_only_move_up_are_emitted(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """So is what is compacted below the highest level before, and each row once."""
    table = make(catalog, "full-compaction", target_file_size="1 kb")
    for first in (0, 1000, 2000):
        table.write(rows(*(f"+I 1|{first + key}|{key}" for key in range(500))))
    compact(metastore, table)
    table.write(rows(*(f"+I 1|{5000 + key}|{key}" for key in range(500))))
    compact(metastore, table, MINOR)
    (levels,) = {tuple(sorted(set(table.files()["level"].to_pylist())))}
    assert len(emitted(table, 0)) == (2000 if len(levels) == 1 else 1500)
    compact(metastore, table)
    assert replayed(table) == shown(table)
    assert len(emitted(table, 0)) == 2000


def test_a_stream_begins_with_the_baseline(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "full-compaction")
    table.write(rows(*FIRST))
    compact(metastore, table)
    table.write(rows(*SECOND))
    table.overwrite(plain("+I 1|20|222"))
    for mode in ("latest-full", "compacted-full", None):
        with table.subscribe(mode) as stream:
            assert kinds(stream, 3) == ["+I 1|10|100", "+I 1|20|200", "+I 1|40|400"]
    with table.subscribe("latest-full") as stream, table.subscribe("latest") as late:
        compact(metastore, table)
        changes = ["+U 1|20|222", "-D 1|10|100", "-D 1|40|400", "-U 1|20|200"]
        assert kinds(stream, 3) == ["+I 1|10|100", "+I 1|20|200", "+I 1|40|400"]
        assert kinds(stream, 4) == kinds(late, 4) == changes
    with table.subscribe() as stream:
        assert kinds(stream, 1) == ["+I 1|20|222"]


def test_altered_tables_report_what_has_changed_since(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none")
    table.write(rows(*FIRST))
    table.write(rows("+I 1|20|201"))
    with table.subscribe() as stream:
        assert kinds(stream, 3) == ["+I 1|10|100", "+I 1|20|201", "+I 1|40|400"]
        table = table.alter(set={"changelog-producer": "full-compaction"})
        table.write(rows("+I 1|20|202", "+I 1|50|500"))
        compact(metastore, table, MINOR)
        compact(metastore, table)
        assert kinds(stream, 3) == ["+I 1|50|500", "+U 1|20|202", "-U 1|20|201"]
        table.write(rows("-D 1|50|0"))
        with pytest.raises(CommitConflict, match="does not hold yet what has changed") as refused:
            table.alter(unset=["changelog-producer"])
        assert refused.value.reason == "CHANGES_UNTOLD"
        compact(metastore, table)
        table = table.alter(set={"changelog-producer": "lookup"})
        table.write(rows("-D 1|10|0"))
        assert kinds(stream, 2) == ["-D 1|10|100", "-D 1|50|500"]
        table = table.alter(set={"changelog-producer": "full-compaction"})
        table.write(rows("-D 1|20|0"))
        compact(metastore, table)
        assert kinds(stream, 1) == ["-D 1|20|202"]
    assert replayed(table) == shown(table) == {(1, 40): 400}


@pytest.mark.parametrize("strategy", [MINOR, FULL])
def test_a_compaction_from_before_the_table_was_altered(
    metastore: InProcessMetastore, catalog: Catalog, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told before goes on being told; nothing of it comes again."""
    table = make(catalog, "none")
    for line in FIRST:
        table.write(rows(line))
    commit = metastore.commit

    def alter_first(request: Any) -> Any:
        monkeypatch.undo()
        table.alter(set={"changelog-producer": "full-compaction"})
        return commit(request)

    monkeypatch.setattr(metastore, "commit", alter_first)
    compact(metastore, table, strategy)
    assert [each.kind for each in metastore.list_snapshots(table.uuid).snapshots][-1] is SnapshotKind.COMPACT
    table.write(rows("+I 1|50|500"))
    compact(metastore, table)
    assert emitted(table, 3) == ["+I 1|50|500"]
    assert replayed(table) == shown(table)


def test_compacting_on_demand_emits_too(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "full-compaction", write_only="true")
    table.write(rows("+I 1|1|1", "+I 2|1|1"))
    assert [each.state for each in table.compact(full=True, wait=False).buckets] == [CompactionState.REQUESTED] * 2
    attach_all(metastore)
    assert [each.state for each in table.compact(full=True).buckets] == [CompactionState.NOTHING] * 2
    table.overwrite(plain(), partition={"pt": 1})
    planned = table.compact(full=True, dry_run=True)
    assert [(each.state, each.partition) for each in planned.buckets] == [
        (CompactionState.PLANNED, {"pt": 1}),
        (CompactionState.NOTHING, {"pt": 2}),
    ]
    table.compact(full=True, wait=False, partitions=[{"pt": 1}])
    attach_all(metastore)
    assert emitted(table, 0) == ["+I 1|1|1", "+I 2|1|1", "-D 1|1|1"]
    assert replayed(table) == shown(table)


def test_several_tables_begin_with_their_newest_rows(metastore: InProcessMetastore, catalog: Catalog) -> None:
    """A full compaction of one says nothing of the others; and a commit to both is seen whole."""
    one, other = make(catalog, "none"), make(catalog, "full-compaction", name="shop.other")
    one.write(rows("+I 1|1|1"))
    compact(metastore, one)
    with catalog.transaction() as transaction:
        transaction.table(one.name).write(rows("+I 1|2|2"))
        transaction.table(other.name).write(rows("+I 1|2|2"))
    with catalog.subscribe([one.name, other.name], "compacted-full") as stream:
        assert kinds(stream, 2) == ["+I 1|1|1", "+I 1|2|2"]
        compact(metastore, other)
        assert kinds(stream, 1) == ["+I 1|2|2"]
    with one.subscribe("compacted-full") as stream:
        assert kinds(stream, 1) == ["+I 1|1|1"]
        assert kinds(stream, 1) == ["+I 1|2|2"]


def plain(*lines: str) -> Any:
    return rows(*lines).drop_columns(["_row_kind"])


def kinds(stream: Subscription, count: int) -> list[str]:
    """The next changes, sorted."""
    found: list[str] = []
    while len(found) < count:
        batch = stream.read(20.0)
        assert batch is not None, f"only {found} came"
        found += [f"{row['_row_kind']} {row['pt']}|{row['k']}|{row['v']}" for row in batch.data.to_pylist()]
    assert len(found) == count
    return sorted(found)
