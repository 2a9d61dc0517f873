"""Tables whose columns are changed while others write, read what changed, and compact."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from compactor.compactions.bucket_work import Strategy, list_bucket, plan_work, run_rewrite_task, to_work_change
from lakelog import AddColumn, DropColumn, RenameColumn, WidenColumn
from lakelog.errors import CommitConflict
from lakelog.format.commit.request import BucketRef, CommitRequest
from lakelog.format.jobs.job import STRATEGY
from lakelog.format.types.column_changes import ColumnChange
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int32())])


def make(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.t", SCHEMA, primary_key=["k"], options={"bucket": "1"} | options)


def rows(scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return sorted(found, key=lambda row: repr([row.get("_snapshot_id"), row.get("k"), row]))


def alter(table: Table, *changes: ColumnChange) -> None:
    table.alter(columns=list(changes))


def test_a_writer_with_earlier_columns_makes_no_wrong_changelog(catalog: Catalog) -> None:
    table = make(catalog, **{"changelog-producer": "lookup"})
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 1}])
    late, fitting = catalog.transaction(), catalog.transaction()
    late.table("shop.t").upsert(pa.table({"k": [1], "v": [9]}, schema=SCHEMA))
    fitting.table("shop.t").upsert(pa.table({"k": [2], "v": [9]}, schema=SCHEMA))
    alter(table, AddColumn("c", pa.string()))
    # What it replaces was written with the columns that it knows.
    assert fitting.commit().snapshot_ids == {"shop.t": 2}
    assert rows(table.changes(1, 2))[0] == {"k": 2, "v": 1, "c": None, "_row_kind": "-U", "_snapshot_id": 2}
    table.upsert([{"k": 1, "v": 2, "c": "x"}])
    with pytest.raises(CommitConflict, match="columns were changed since this write began with schema 0") as caught:
        late.commit()
    assert caught.value.reason == "SCHEMA_CHANGED"
    assert rows(table.scan()) == [{"k": 1, "v": 2, "c": "x"}, {"k": 2, "v": 9, "c": None}]
    # With the columns of now the old row is shown with all that it had.
    table.upsert([{"k": 1, "v": 9, "c": None}])
    shown = {"k": 1, "_snapshot_id": 4}
    assert rows(table.changes(3, 4)) == [
        shown | {"v": 2, "c": "x", "_row_kind": "-U"},
        shown | {"v": 9, "c": None, "_row_kind": "+U"},
    ]


@pytest.mark.parametrize("mode", ["delta", "changelog", "diff"])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_what_changed_is_shown_with_the_columns_of_now(catalog: Catalog, producer: str, mode: str) -> None:
    table = make(catalog, **{"changelog-producer": producer})
    stale = catalog.table("shop.t")
    table.upsert([{"k": 1, "v": 1}])
    table.upsert([{"k": 1, "v": 2}])
    alter(table, RenameColumn("v", "w"), WidenColumn("w", pa.int64()), AddColumn("v", pa.int32(), default=7))
    between = {"incremental-between": "1,2", "incremental-between-scan-mode": mode}
    for handle in (table, stale):
        found = rows(handle.scan(options=between))
        assert found
        own = {} if mode == "delta" else {"_row_kind": found[-1]["_row_kind"]}
        assert found[-1] == {"k": 1, "w": 2, "v": 7} | own
        assert handle.scan(options=between, filter="w > 1 AND v = 7").count() == (len(found) if mode == "delta" else 1)
        assert handle.scan(options=between).schema.field("w").type == pa.int64()
    assert rows(table.changes(0, 1)) == [{"k": 1, "w": 1, "v": 7, "_row_kind": "+I", "_snapshot_id": 1}]
    table.upsert([{"k": 1, "w": 2**40, "v": None}])
    assert max(row["w"] for row in rows(table.changes(2, 3))) == 2**40


def test_a_condition_is_one_on_the_columns_of_the_state(catalog: Catalog) -> None:
    table = make(catalog)
    stale = catalog.table("shop.t")
    table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    table.tags.create("before")
    alter(table, RenameColumn("v", "w"), AddColumn("v", pa.string(), default="x"))
    assert rows(table.scan(snapshot_id=1, filter="v = 2")) == [{"k": 2, "v": 2}]
    assert rows(table.scan(tag="before", filter="v = 2", columns=["k"])) == [{"k": 2}]
    for handle in (table, stale):
        assert rows(handle.scan(filter="v = 'x' AND w = 2")) == [{"k": 2, "w": 2, "v": "x"}]
    with pytest.raises(Exception, match="There is no column 'w'"):
        table.scan(snapshot_id=1, filter="w = 2")


def test_a_rollback_keeps_the_columns_of_now(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert([{"k": 1, "v": 1}])
    alter(table, DropColumn("v"), AddColumn("c", pa.int32(), default=5))
    table.upsert([{"k": 1, "c": 1}])
    table.rollback_to(1)
    assert rows(table.scan()) == [{"k": 1, "c": 5}]
    assert rows(table.scan(snapshot_id=1)) == [{"k": 1, "v": 1}]


def compact(table: Table, info: Any = None) -> tuple[CommitRequest, list[int]]:
    """What a compactor does with all files; and the schemas of the files that it made."""
    metastore = table._context.metastore
    info = info or metastore.get_table_by_uuid(table.uuid)
    bucket, strategy = BucketRef(b"", 0), Strategy.FULL
    work: Any = plan_work(list_bucket(metastore, info, bucket, {STRATEGY: strategy.value}), bucket, strategy)
    attempt_id = metastore.stage_attempt([table.uuid], "compactor").attempt_id
    store = table._context.open_store(work.info)
    done = [run_rewrite_task(store, work.info, attempt_id, each) for each in work.rewrite_tasks]
    change = to_work_change(work, done, work.moved)
    return CommitRequest("compactor", 1, (change,), attempt_id), [file.schema_id for file in change.add_files]


def test_a_compaction_writes_the_columns_of_now(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert([{"k": 1, "v": 1}])
    table.upsert([{"k": 2, "v": 2}])
    alter(table, WidenColumn("v", "decimal(12, 2)"), AddColumn("c", pa.int32(), default=5))
    request, schema_ids = compact(table)
    assert schema_ids == [1]
    table._context.metastore.commit(request)
    assert [each["c"] for each in rows(table.scan(filter="c = 5"))] == [5, 5]
    # Their bounds are of the new type, so they exclude the file again.
    assert table.scan(filter="k = 2 AND v > 5").count() == 0
    assert len(table.scan(filter="k > 5").files) == 0


def test_a_compaction_that_began_before_a_change_replaces_no_newer_file(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert([{"k": 1, "v": 1}])
    table.upsert([{"k": 2, "v": 2}])
    began, _ = compact(table)
    alter(table, AddColumn("c", pa.int32(), default=5))
    table.upsert([{"k": 1, "v": 1, "c": 1}])
    (result,) = table._context.metastore.commit(began).results
    assert result.snapshot_id is not None
    assert rows(table.scan()) == [{"k": 1, "v": 1, "c": 1}, {"k": 2, "v": 2, "c": 5}]
