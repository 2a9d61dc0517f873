"""Changes of columns at the metastore: versions of schemas, options that follow, and writers with an older version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument, LakelogError, NotFound, ResourceExhausted
from lakelog.format.commit.request import CommitRequest, RemovePartitionValues
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.column_changes import (
    AddColumn,
    ColumnChange,
    CommentColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from metastore.tables import columns
from tests.support.metastore.making import append, day, make_change, make_table

COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("v", pa.int32()), ("w", pa.string())])
OPTIONS = {"bucket": "2", "bucket-key": "id", "sequence.field": "v"}
PARTITIONED = {
    **OPTIONS, "partition.expiration-time": "7 d", "partition.timestamp-pattern": "$day", "rowkind.field": "w",
}  # fmt: skip


def make_keyed(
    metastore: Metastore,
    key: Sequence[str] = ("id",),
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType(OPTIONS),
) -> TableInfo:
    metastore.create_database("shop")
    name = TableName("shop", "orders")
    return metastore.create_table(name, COLUMNS, primary_key=key, partition_by=partition_by, options=options)[0]


def test_a_change_makes_a_version_and_leaves_the_earlier_ones(metastore: Metastore) -> None:
    table = make_keyed(metastore)
    altered = metastore.alter_columns(
        table.table_uuid, changes=[AddColumn("x", "INT", default=5), WidenColumn("v", "BIGINT")], comment="why"
    )
    assert metastore.get_table(table.name) == altered
    assert (altered.schema.schema_id, altered.comment, dict(altered.options)) == (1, "why", OPTIONS)
    assert metastore.list_schemas(table.table_uuid) == [table.schema, altered.schema]
    again = metastore.alter_columns(table.table_uuid, changes=[DropColumn("x")])
    assert (again.schema.schema_id, again.comment) == (2, "why")
    new = metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
    assert new.schema.field_ids["x"] == altered.schema.field_ids["x"] + 1
    assert new.latest_snapshot_id == 0


def test_the_comment_changes_alone(metastore: Metastore) -> None:
    table = make_table(metastore)
    altered = metastore.alter_columns(table.table_uuid, changes=[], comment="orders")
    assert (altered.comment, altered.schema) == ("orders", table.schema)
    assert metastore.alter_columns(table.table_uuid, changes=[], comment="").comment == ""
    with pytest.raises(InvalidArgument, match="neither a change of columns nor a comment"):
        metastore.alter_columns(table.table_uuid, changes=[])
    with pytest.raises(InvalidArgument, match="comment"):
        metastore.alter_columns(table.table_uuid, changes=[], comment="x" * 4097)


@pytest.mark.parametrize("change", [AddColumn("x", "INT", comment="c" * 4097), CommentColumn("v", "c" * 4097)])
def test_a_comment_of_a_column_is_as_short_as_one_of_a_table(metastore: Metastore, change: ColumnChange) -> None:
    """Each version of a schema has it, and so has each answer with a table."""
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match="4096") as refused:
        metastore.alter_columns(table.table_uuid, changes=[change])
    assert refused.value.metadata["field"] == "changes.comment"
    short = metastore.alter_columns(table.table_uuid, changes=[CommentColumn("v", "c" * 4096)])
    assert short.schema.arrow.field("v").metadata[b"comment"] == b"c" * 4096


@pytest.mark.parametrize(
    ("limit", "says"), [("MAX_SCHEMA_BYTES", "Shorten comments"), ("MAX_SCHEMAS_BYTES", "make a new table")]
)
def test_the_versions_of_a_schema_can_always_be_listed(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch, limit: str, says: str
) -> None:
    """They are one message, and nothing makes them fewer again."""
    table = make_table(metastore)
    change = CommentColumn("v", "c" * 1000)
    metastore.alter_columns(table.table_uuid, changes=[change])
    size_bytes = sum(len(each.to_ipc()) for each in metastore.list_schemas(table.table_uuid))
    monkeypatch.setattr(columns, limit, size_bytes)
    with pytest.raises(ResourceExhausted, match=says):
        metastore.alter_columns(table.table_uuid, changes=[replace(change, comment="c" * 4000)])
    assert len(metastore.list_schemas(table.table_uuid)) == 2
    monkeypatch.undo()
    metastore.alter_columns(table.table_uuid, changes=[CommentColumn("v", "short")])


def test_options_follow_a_new_name(metastore: Metastore) -> None:
    table = make_keyed(metastore, ["id", "day"], ["day"], PARTITIONED)
    renames = [RenameColumn("id", "key"), RenameColumn("v", "version"), RenameColumn("day", "date")]
    altered = metastore.alter_columns(table.table_uuid, changes=[*renames, RenameColumn("w", "kind")])
    assert (altered.schema.primary_key, altered.schema.partition_by) == (("key", "date"), ("date",))
    assert dict(altered.options) == {
        **PARTITIONED,
        "bucket-key": "key",
        "sequence.field": "version",
        "partition.timestamp-pattern": "$date",
        "rowkind.field": "kind",
    }
    with pytest.raises(InvalidArgument, match=r"cannot be called 'a,b' while option 'sequence.field' names it"):
        metastore.alter_columns(table.table_uuid, changes=[RenameColumn("version", "a,b")])
    with pytest.raises(InvalidArgument, match=r"partition.timestamp-pattern"):
        metastore.alter_columns(table.table_uuid, changes=[RenameColumn("date", "the day")])
    with pytest.raises(InvalidArgument, match=r"named by option 'sequence.field'"):
        metastore.alter_columns(table.table_uuid, changes=[DropColumn("version")])
    assert metastore.get_table(table.name) == altered


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([AddColumn("ok", "INT"), DropColumn("id")], "part of the primary key"),
        ([AddColumn("_row_kind", "INT")], "reserved name"),
        ([AddColumn("x\x00", "INT")], r"U\+0000"),
        ([AddColumn("x" * 256, "INT")], "256 characters"),
        ([RenameColumn("w", "ID")], "case does not count"),
        ([AddColumn("n", "INT", nullable=False)], "Give a default"),
    ],
)
def test_a_refused_change_leaves_the_table_as_it_was(
    metastore: Metastore, changes: list[ColumnChange], says: str
) -> None:
    table = make_keyed(metastore)
    with pytest.raises(InvalidArgument, match=says):
        metastore.alter_columns(table.table_uuid, changes=changes, comment="new")
    assert metastore.get_table(table.name) == table
    assert len(metastore.list_schemas(table.table_uuid)) == 1


def test_a_dropped_table_has_no_columns_to_change(metastore: Metastore) -> None:
    table = make_table(metastore)
    metastore.drop_table(table.name)
    with pytest.raises(NotFound, match=table.table_uuid):
        metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])


def test_a_writer_with_an_older_version_goes_on_while_its_rows_fit(metastore: Metastore) -> None:
    old = make_keyed(metastore, [], options={})
    append(metastore, old, 1)
    newer = metastore.alter_columns(
        old.table_uuid, changes=[AddColumn("x", "INT", default=5), RenameColumn("w", "text")]
    )
    append(metastore, old, 2, names="bc")
    append(metastore, newer, 3, names="de")
    assert [each.schema_id for each in metastore.list_snapshots(old.table_uuid).snapshots] == [0, 1, 1]
    metastore.alter_columns(old.table_uuid, changes=[DropColumn("text"), DropColumn("v")])
    for table, lost in ((old, ["v", "w"]), (newer, ["v", "text"])):
        with pytest.raises(CommitConflict, match="was dropped") as error:
            append(metastore, table, 4, names="fg")
        assert error.value.reason == "SCHEMA_CHANGED"
        for name in lost:
            assert f"{name}: was dropped, and its values would be lost" in error.value.message
    unknown = replace(newer, schema=replace(newer.schema, schema_id=7))
    with pytest.raises(CommitConflict, match="schema 7"):
        append(metastore, unknown, 5, names="hi")


def test_an_older_writer_overwrites_the_partitions_that_it_means(metastore: Metastore) -> None:
    metastore.create_database("shop")
    columns = pa.schema([("a", pa.string()), ("b", pa.string())])
    old = metastore.create_table(TableName("shop", "t"), columns, primary_key=[], partition_by=["a", "b"], options={})[
        0
    ]
    append(metastore, old, 1, names="p", partition=day("x") + day("y"))
    append(metastore, old, 2, names="q", partition=day("y") + day("x"))
    exchange = [RenameColumn("a", "c"), RenameColumn("b", "a"), RenameColumn("c", "b")]
    newest = metastore.alter_columns(old.table_uuid, changes=exchange)
    for identifier, (table, left) in enumerate([(old, ["q.parquet"]), (newest, [])]):
        change = make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemovePartitionValues({"a": day("x")}))
        metastore.commit(CommitRequest("o", identifier, (change,)))
        paths = metastore.plan(PlanRequest(old.table_uuid)).files.column("path").to_pylist()
        assert [path.split("/")[-1] for path in paths] == left


def test_of_two_that_add_one_column_one_does(metastore: Metastore) -> None:
    table = make_table(metastore)

    def add(_: int) -> str:
        try:
            metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
        except LakelogError as error:
            return error.reason
        return "added"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add, range(4))) == ["DUPLICATE_COLUMN"] * 3 + ["added"]
    assert len(metastore.list_schemas(table.table_uuid)) == 2
