"""What reads of system tables request, and what they show of tables that have changed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.predicate import Comparison
from lakelog.reads.scan_planning import plan_changes
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema(
    [pa.field("dt", pa.string(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())]
)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    catalog.create_database("seen", if_not_exists=True)
    catalog.drop_table("seen.t", if_exists=True)
    made = catalog.create_table("seen.t", SCHEMA, primary_key=["dt", "k"], partition_by=["dt"], options={"bucket": "2"})
    made.upsert(pa.table({"dt": ["a", "a", "b"], "k": [1, 2, 3], "v": [10, 20, None]}))
    return made


@pytest.fixture
def requests(table: Table, monkeypatch: pytest.MonkeyPatch) -> list[PlanRequest]:
    """The plans that were requested."""
    found: list[PlanRequest] = []
    metastore = table._context.metastore
    plan = metastore.plan

    def noted(request: PlanRequest) -> Plan:
        found.append(request)
        return plan(request)

    monkeypatch.setattr(metastore, "plan", noted)
    return found


def test_conditions_on_files_are_requested(table: Table, requests: list[PlanRequest]) -> None:
    files = table.system_table("files")
    condition = "partition.dt = 'a' AND bucket IN (0, 1) AND level = 0 AND rows > 0"
    assert sum(files.scan(["rows"], condition).to_arrow().column("rows").to_pylist()) == 2
    (request,) = requests
    assert isinstance(request.predicate, Comparison)
    assert request.predicate.field_id == table.info.schema.field_ids["dt"]
    assert (request.buckets, request.levels, request.with_statistics) == ((0, 1), (0,), False)
    requests.clear()
    files.scan(["path"], "bucket > 0 OR level = 1").to_arrow()
    assert requests == [PlanRequest(table.uuid)]
    requests.clear()
    files.scan(filter="partition.dt IS NOT NULL", limit=1).to_arrow()
    assert requests[0].with_statistics


def test_impossible_conditions_show_nothing(table: Table) -> None:
    files = table.system_table("files")
    for condition in ("bucket = 1 AND bucket = 0", "bucket = -1", "level = 100000", "partition.dt = 'c'", "false"):
        assert files.count(condition) == 0
    assert table.system_table("snapshots").count("id > 7") == 0
    assert table.system_table("snapshots").count("id < 0") == 0
    assert table.system_table("changelog").count("_snapshot_id > 7") == 0
    assert table.system_table("changelog").count("_snapshot_id < 1") == 0


def test_snapshots_are_requested_by_range(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        table.upsert(pa.table({"dt": ["a"], "k": [number], "v": [1]}))
    metastore = table._context.metastore
    list_snapshots, asked = metastore.list_snapshots, []

    def noted(uuid: str, **arguments: Any) -> Any:
        asked.append(arguments)
        return list_snapshots(uuid, **arguments)

    monkeypatch.setattr(metastore, "list_snapshots", noted)
    monkeypatch.setattr(metastore, "list_log_offsets", pytest.fail)
    found = table.system_table("snapshots").scan(["id"], "id BETWEEN 2 AND 3").to_arrow()
    assert found.column("id").to_pylist() == [2, 3]
    assert [(each["after"], each["until"]) for each in asked] == [(1, 3)]


def test_changes_read_only_what_is_asked_for(catalog: Catalog) -> None:
    catalog.create_database("seen", if_not_exists=True)
    catalog.drop_table("seen.l", if_exists=True)
    made = catalog.create_table("seen.l", SCHEMA, primary_key=["k"], options={"changelog-producer": "lookup"})
    made.upsert(pa.table({"dt": ["a"], "k": [1], "v": [1]}))
    made.upsert(pa.table({"dt": ["a"], "k": [1], "v": [2]}))
    scans: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:

        def noted(*args: Any, **more: Any) -> Any:
            scans.append(more)
            return plan_changes(*args, **more)

        patch.setattr("lakelog.system_tables.rows.changes.plan_changes", noted)
        rows = made.system_table("audit_log").scan(["dt"], "_row_kind = '+U'").to_arrow()
        assert rows.to_pylist() == [{"dt": "a"}]
        assert scans[0]["columns"] == ["dt", "_row_kind", "_snapshot_id"]
        # Snapshots without a changelog are compared: by all columns, whichever are read.
        made.alter(set={"changelog-producer": "none"})
        made.upsert(pa.table({"dt": ["a"], "k": [1], "v": [3]}))
        scans.clear()
        made.alter(set={"changelog-producer": "lookup"})
        assert made.system_table("audit_log").scan(["dt"]).to_arrow().num_rows == 5
        assert [each["columns"] for each in scans] == [
            ["dt", "_row_kind", "_snapshot_id"],
            ["dt", "k", "v", "_row_kind", "_snapshot_id"],
        ]


def test_columns_that_were_renamed_and_widened(table: Table) -> None:
    table.alter(columns=[lakelog.RenameColumn("v", "amount"), lakelog.WidenColumn("amount", pa.int64())])
    table.upsert(pa.table({"dt": ["a"], "k": [9], "amount": [2**40]}, schema=table.schema))
    files = table.system_table("files").scan(["statistics"]).to_arrow().column("statistics").to_pylist()
    assert max(each["amount"]["max"] for each in files if each["amount"]["max"] is not None) == 2**40
    assert min(each["amount"]["min"] for each in files if each["amount"]["min"] is not None) == 10
    old = table.system_table("files").scan(["statistics", "schema_id"], snapshot_id=1).to_arrow()
    assert {old.column("statistics").type[each].name for each in range(3)} == {"dt", "k", "v"}
    assert set(old.column("schema_id").to_pylist()) == {0}
    audit = table.system_table("audit_log").scan(["_row_kind", "k", "amount"]).to_arrow().to_pylist()
    assert {"_row_kind": "+I", "k": 2, "amount": 20} in audit


def test_a_partition_column_that_was_renamed(table: Table) -> None:
    table.alter(columns=[lakelog.RenameColumn("dt", "day")])
    files = table.system_table("files")
    assert files.count("partition.day = 'a'") == 2
    assert files.scan(["rows"], "partition.dt = 'b'", snapshot_id=1).count() == 1
    with pytest.raises(InvalidArgument, match="dt"):
        files.count("partition.dt = 'a'")
    assert {row["partition"]["day"] for row in table.system_table("partitions").to_arrow().to_pylist()} == {"a", "b"}


def test_states(table: Table) -> None:
    table.tags.create("first")
    table.upsert(pa.table({"dt": ["a"], "k": [1], "v": [11]}))
    assert table.system_table("partitions").scan(["rows"], tag="first").to_arrow().num_rows == 2
    assert table.system_table("audit_log").scan(tag="first").count() == 3
    moment = table.system_table("snapshots").scan(["committed_at"], "id = 1").to_arrow()[0][0].as_py()
    assert table.system_table("changelog").scan(timestamp=moment).snapshot_id == 1
    assert table.system_table("binlog").scan(options={"incremental-between": "1,2"}).count() == 1
    assert table.system_table("files").scan(options={"scan.snapshot-id": "1"}).snapshot_id == 1
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("tags", {"tag": "first"}, "shows only the present state"),
        ("files", {"options": {"incremental-between": "1,2"}}, "shows no changes"),
        ("audit_log", {"snapshot_id": 1, "options": {"incremental-between": "1,2"}}, "Leave one out"),
        ("audit_log", {"snapshot_id": 1, "tag": "first"}, "both say which state"),
        ("files", {"tag": "frist"}, "first"),
        ("files", {"limit": -1}, "limit=-1"),
        ("files", {"columns": ["pth"]}, "path"),
        ("files", {"columns": ["path", "path"]}, "twice"),
        ("files", {"filter": "rows = 'x'"}, "rows"),
    ]
    for kind, arguments, message in refused:
        with pytest.raises(LakelogError, match=message):
            table.system_table(kind).scan(**arguments)


def test_what_expired_is_named(table: Table) -> None:
    for _ in range(2):
        table.upsert(pa.table({"dt": ["a"], "k": [1], "v": [1]}))
    table.expire_snapshots(older_than=2**50, retain_last=1)
    assert table.system_table("snapshots").scan(["id"]).to_arrow().column("id").to_pylist() == [3]
    assert table.system_table("audit_log").count() == 0
    with pytest.raises(LakelogError, match="snapshots 3 to 3 are all that is kept"):
        table.system_table("audit_log").scan(options={"incremental-between": "0,3"})
    with pytest.raises(LakelogError, match=r"Snapshot 1 of .* has expired"):
        table.system_table("files").scan(snapshot_id=1)


def test_a_table_that_was_dropped(catalog: Catalog, table: Table) -> None:
    files = table.system_table("files")
    catalog.drop_table("seen.t")
    with pytest.raises(NotFound, match="was dropped"):
        files.scan()
    with pytest.raises(NotFound, match=r"seen\.t"):
        catalog.system_table("seen.t$files")


def test_a_table_without_snapshots(catalog: Catalog) -> None:
    catalog.create_database("seen", if_not_exists=True)
    catalog.drop_table("seen.e", if_exists=True)
    made = catalog.create_table("seen.e", pa.schema([("a", pa.list_(pa.int32()))]))
    for kind in ("snapshots", "files", "partitions", "buckets", "ro", "audit_log", "changelog", "binlog", "jobs"):
        assert made.system_table(kind).to_arrow().num_rows == 0
    assert made.system_table("files").schema.field("statistics").type.num_fields == 0


def test_a_scan_is_a_source_of_rows(catalog: Catalog, table: Table) -> None:
    scan = table.system_table("files").scan(["path", "bytes"], limit=2)
    catalog.drop_table("seen.kept", if_exists=True)
    kept = catalog.create_table("seen.kept", scan.schema)
    kept.append(scan)
    assert kept.count() == scan.count() == 2
    assert list(scan.to_pandas().columns) == list(scan.to_polars().columns) == ["path", "bytes"]


def test_rows_that_were_deleted_by_a_condition(catalog: Catalog) -> None:
    catalog.create_database("seen", if_not_exists=True)
    catalog.drop_table("seen.a", if_exists=True)
    made = catalog.create_table("seen.a", pa.schema([("k", pa.int32())]))
    made.append(pa.table({"k": list(range(10))}))
    made.delete_where("k < 3")
    files = made.system_table("files").scan(["rows", "deletes", "deletion_vector"]).to_arrow().to_pylist()
    assert sum(each["rows"] - each["deletes"] for each in files) == made.count() == 7
    assert any(each["deletion_vector"] for each in files)
    assert made.system_table("ro").count() == 7
    assert made.system_table("ro").count("k < 5") == 2
    changed = made.changes().to_arrow().select(["_row_kind", "k"]).to_pylist()
    assert made.system_table("audit_log").scan(["_row_kind", "k"]).to_arrow().to_pylist() == changed
