"""Streams go over changes of columns as they began, or end with one error (semantics 7.6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged, InvalidArgument
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    WidenColumn,
)
from lakelog.format.types.evolution import ColumnRoles, evolve
from lakelog.format.types.schema import TableSchema
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

WAIT_S = 10.0

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("qty", pa.int32()),
        pa.field("place", pa.struct([pa.field("zip", pa.string()), pa.field("no", pa.int32())])),
    ]
)

UNASKED: dict[str, Sequence[ColumnChange]] = {
    "added": [AddColumn("note", pa.string(), default="-", first=True)],
    "added inside": [AddColumn("place.floor", pa.int32())],
    "renamed": [RenameColumn("qty", "amount")],
    "renamed inside": [RenameColumn("place.no", "number")],
    "names swapped": [RenameColumn("name", "x"), RenameColumn("qty", "name"), RenameColumn("x", "qty")],
    "moved": [MoveColumn("qty", first=True)],
    "comment": [CommentColumn("qty", "pieces")],
    "key renamed": [RenameColumn("id", "number")],
}

TABLES: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"primary_key": ["id"], "options": {"bucket": "1"}},
    "changelog": {"primary_key": ["id"], "options": {"bucket": "1", "changelog-producer": "input"}},
    "sequence": {"primary_key": ["id"], "options": {"bucket": "1", "sequence.field": "qty"}},
}


def alter(table: Table, *changes: ColumnChange) -> Table:
    return table.alter(columns=changes)


def write(table: Table, *rows: Sequence[Any]) -> None:
    """Rows by the places of the columns that the table was made with."""
    by_id = {field.metadata[b"PARQUET:field_id"]: field for field in table.info.schema.arrow}
    fields = [by_id[key] for key in (b"1", b"2", b"3", b"4") if key in by_id]
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(columns[place], field.type) for place, field in enumerate(fields)]
    data = pa.Table.from_arrays(arrays, names=[field.name for field in fields])
    (table.upsert if table.info.schema.primary_key else table.append)(data, fill_missing=True)


def row(number: int, name: str, qty: int) -> tuple[Any, ...]:
    return number, name, qty, None


def take(stream: Subscription, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        batch = stream.read(WAIT_S)
        assert batch is not None
        found += batch.data.to_pylist()
    assert len(found) == count
    return found


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("change", UNASKED)
def test_a_stream_goes_on_over_changes_that_it_did_not_ask_for(catalog: Catalog, kind: str, change: str) -> None:
    table = catalog.create_table("shop.t", COLUMNS, **TABLES[kind])
    write(table, row(1, "a", 1))
    mode = "latest-full"
    with table.subscribe(mode) as all_columns, table.subscribe(mode, columns=["name", "qty"], filter="id < 9") as some:
        before = take(all_columns, 1)
        take(some, 1)
        altered = alter(table, *UNASKED[change])
        write(altered, row(1, "b", 2), row(9, "z", 3))
        count = 2 if kind in ("append", "changelog") else 3
        after = take(all_columns, count)
        assert all(list(each) == list(before[0]) for each in after)
        assert (after[-1]["id"], after[-1]["name"], after[-1]["qty"]) == (9, "z", 3)
        shown = take(some, count - 1)[-1]
        assert (shown["name"], shown["qty"]) == ("b", 2)
        if kind in ("keyed", "sequence"):
            assert [each["_row_kind"] for each in after] == ["-U", "+U", "+I"]
            assert after[0]["name"] == "a"


@pytest.mark.parametrize("kind", TABLES)
def test_a_stream_that_begins_later_shows_the_present_columns(catalog: Catalog, kind: str) -> None:
    table = catalog.create_table("shop.t", COLUMNS, **TABLES[kind])
    write(table, row(1, "a", 1))
    altered = alter(
        table,
        RenameColumn("qty", "amount"),
        WidenColumn("amount", pa.int64()),
        AddColumn("note", pa.string(), default="-"),
        DropColumn("place"),
    )
    for mode, options in (("latest-full", {}), ("from-snapshot", {"scan.snapshot-id": "1"})):
        with altered.subscribe(mode, options=options) as stream:
            batch = stream.read(WAIT_S)
            assert batch is not None
            assert batch.data.schema.names[:4] == ["id", "name", "amount", "note"]
            assert batch.data.schema.field("amount").type == pa.int64()
            assert list(batch.data.to_pylist()[0].values())[:4] == [1, "a", 1, "-"]


ENDING: dict[str, tuple[list[ColumnChange], str]] = {
    "dropped": ([DropColumn("name")], "name: was dropped"),
    "dropped and added again": ([DropColumn("name"), AddColumn("name", pa.string())], "name: was dropped"),
    "widened": ([WidenColumn("qty", pa.int64())], "qty: INT became BIGINT"),
    "dropped inside": ([DropColumn("place.zip")], "place.zip: was dropped"),
    "widened inside": ([WidenColumn("place.no", pa.int64())], "place.no: INT became BIGINT"),
}


@pytest.mark.parametrize("change", ENDING)
def test_a_stream_ends_with_one_error_behind_all_that_was_there_before(catalog: Catalog, change: str) -> None:
    table = catalog.create_table("shop.t", COLUMNS)
    changes, line = ENDING[change]
    with table.subscribe("latest", consumer_id="c") as stream, table.subscribe("latest", columns=["id"]) as unharmed:
        write(table, row(1, "a", 1))
        write(table, row(2, "b", 2))
        altered = alter(table, *changes)
        altered.append(pa.table({"id": pa.array([3], pa.int32())}), fill_missing=True)
        assert [each["id"] for each in take(stream, 2)] == [1, 2]
        for _ in range(2):
            with pytest.raises(InvalidArgument, match="everything up to snapshot 2") as caught:
                stream.read(WAIT_S)
            assert caught.value.reason == "COLUMNS_CHANGED"
            assert line in caught.value.message
            assert caught.value.metadata["snapshot_id"] == "2"
        assert stream.position == 2
        assert [each["id"] for each in take(unharmed, 3)] == [1, 2, 3]
    with altered.subscribe(consumer_id="c") as stream:
        assert [each["id"] for each in take(stream, 1)] == [3]


def test_a_filter_on_a_dropped_column_ends_a_stream_that_does_not_show_it(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", COLUMNS)
    with table.subscribe("latest", columns=["id"], filter="name = 'a'") as stream:
        write(table, row(1, "a", 1))
        altered = alter(table, DropColumn("name"))
        altered.append(pa.table({"id": pa.array([3], pa.int32())}), fill_missing=True)
        assert take(stream, 1) == [{"id": 1}]
        with pytest.raises(InvalidArgument, match="name: was dropped"):
            stream.read(WAIT_S)


def test_columns_show_null_from_when_they_may_be(catalog: Catalog) -> None:
    strict = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("n", pa.int32(), nullable=False)])
    table = catalog.create_table("shop.t", strict)
    with table.subscribe("latest") as stream:
        table.append(pa.table({"id": [1], "n": [1]}, strict))
        first = stream.read(WAIT_S)
        altered = alter(table, AllowNull("n"))
        altered.append(pa.table({"id": pa.array([2], pa.int32()), "n": pa.array([None], pa.int32())}))
        second = stream.read(WAIT_S)
        assert first is not None
        assert second is not None
        assert not first.data.schema.field("n").nullable
        assert second.data.schema.field("n").nullable
        assert second.data.to_pylist() == [{"id": 2, "n": None}]


def test_tables_of_one_stream_change_each_for_itself(catalog: Catalog) -> None:
    one, two = (catalog.create_table(f"shop.{name}", COLUMNS) for name in ("one", "two"))
    with catalog.subscribe(["shop.one", "shop.two"], "latest") as stream:
        write(alter(one, AddColumn("note", pa.string())), row(1, "a", 1))
        write(alter(two, RenameColumn("qty", "amount")), row(2, "b", 2))
        assert [list(each.values())[:3] for each in take(stream, 2)] == [[1, "a", 1], [2, "b", 2]]
        altered = alter(two, WidenColumn("amount", pa.int64()))
        write(altered, row(3, "c", 3))
        with pytest.raises(InvalidArgument, match=r"The stream of shop\.two"):
            stream.read(WAIT_S)
        assert stream.positions == {"shop.one": 1, "shop.two": 1}


def test_a_stream_ends_if_its_columns_are_of_a_lost_history(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", COLUMNS, **TABLES["append"])
    began = alter(table, AddColumn("note", pa.string())).info
    write(table, row(1, "a", 1))
    plan = table._context.metastore.plan(PlanRequest(began.table_uuid))
    first, lost = table._context.metastore.list_schemas(began.table_uuid)
    # After the database was set back to the first version, another column got its number.
    other = evolve(first, [AddColumn("mail", pa.string())], ColumnRoles())
    assert (other.schema_id, other.field_ids["mail"]) == (lost.schema_id, lost.field_ids["note"])
    more = evolve(other, [AddColumn("note", pa.string())], ColumnRoles())
    for schema in (first, other, more):
        continued = ContinuedColumns(began, frozenset({"note"}), "")
        with pytest.raises(HistoryDiverged, match="schema 1, are not in the table's history"):
            continued.apply(dataclasses.replace(plan, schema=schema), lambda: [first, other, more])
    asked = []

    def load_versions() -> Sequence[TableSchema]:
        asked.append(1)
        return [first, lost, later]

    later = evolve(lost, [AddColumn("mail", pa.string())], ColumnRoles())
    for _ in range(2):
        shown = continued.apply(dataclasses.replace(plan, schema=later), load_versions)
        assert "mail" in shown.schema.arrow.names
    assert len(asked) == 1
