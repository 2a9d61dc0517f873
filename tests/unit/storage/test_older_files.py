"""Files that were written before a table's columns were changed, read through the columns of now."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.filter.condition import parse_filter
from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn, WidenColumn
from lakelog.format.types.evolution import ColumnRoles, evolve
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.scan.file_scan import FileScan, ScanColumns
from tests.unit.storage.data_files import write_data_file

PATH = "data/a/f.parquet"


def make(columns: dict[str, list[Any]], schema: pa.Schema, rows: int = 2) -> tuple[MemoryStore, LiveFile, TableSchema]:
    """A file with row groups of so many rows."""
    table = TableSchema(0, assign_field_ids(schema))
    store = MemoryStore()
    data = pa.table([pa.array(columns[field.name], field.type) for field in table.arrow], schema=table.arrow)
    return store, write_data_file(store, PATH, table, data, row_group_rows=rows), table


def change(schema: TableSchema, *changes: ColumnChange) -> TableSchema:
    for each in changes:
        schema = evolve(schema, [each], ColumnRoles())
    return schema


def picked(store: MemoryStore, file: LiveFile, schema: TableSchema, condition: str) -> list[int]:
    predicate = parse_filter(condition, schema.arrow).to_predicate(schema.field_ids)
    with DataFileReader(store, file) as reader:
        return pick_row_groups(reader, schema.arrow, predicate)


def read(store: MemoryStore, file: LiveFile, schema: TableSchema, condition: str | None = None) -> list[dict[str, Any]]:
    columns = ScanColumns(tuple(schema.arrow), tuple(schema.arrow.names))
    if condition is not None:
        parsed = parse_filter(condition, schema.arrow)
        predicate = parsed.to_predicate(schema.field_ids)
        columns = ScanColumns(columns.read, columns.returned, parsed.to_arrow(), parsed.columns, predicate)
    found = pa.Table.from_batches(list(FileScan(store, [file], schema, columns).read_batches()))
    return found.to_pylist()


D = Decimal
WIDENINGS = [
    (pa.int8(), [-5, 0, 5, 9], pa.int64(), "c = 5", [1]),
    (pa.int32(), [-5, 0, 5, 9], pa.decimal128(12, 2), "c = 5", [1]),
    (pa.int32(), [-5, 0, 5, 9], pa.decimal128(12, 2), "c < -1", [0]),
    (pa.int64(), [-5, 0, 5, 2**62], pa.decimal128(38, 18), "c > 100", [1]),
    (pa.decimal128(5, 2), [D("-1.00"), D("0.00"), D("1.00"), D("2.00")], pa.decimal128(9, 4), "c = 1", [1]),
    (pa.decimal128(5, 2), [D("-1.00"), D("0.00"), D("1.00"), D("2.00")], pa.decimal128(38, 2), "c = 1", [1]),
    (
        pa.date32(),
        [dt.date(1969, 1, 1), dt.date(1970, 1, 1), dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
        pa.timestamp("us"),
        "c >= TIMESTAMP_NTZ '2020-06-01 00:00:00'",
        [1],
    ),
]


@pytest.mark.parametrize(("old", "values", "new", "condition", "groups"), WIDENINGS)
def test_bounds_of_footers_hold_for_a_wider_type(
    old: pa.DataType, values: list[Any], new: pa.DataType, condition: str, groups: list[int]
) -> None:
    store, file, schema = make({"c": values}, pa.schema([("c", old)]))
    schema = change(schema, WidenColumn("c", new))
    assert picked(store, file, schema, condition) == groups
    rows = [row["c"] for row in read(store, file, schema)]
    assert rows == pa.array(values, old).cast(new).to_pylist()
    # What bounds leave out no row of it matches: the same condition on all rows.
    matching = [row["c"] for row in read(store, file, schema, condition)]
    assert matching
    assert set(matching) <= set(rows[2 * groups[0] : 2 * groups[-1] + 2])


def test_row_groups_of_files_without_a_column_have_its_default_as_bounds() -> None:
    store, file, schema = make({"c": [1, 2, 3, 4]}, pa.schema([("c", pa.int32())]))
    schema = change(schema, AddColumn("d", "DECIMAL(9, 2)", nullable=False, default=7), AddColumn("n", pa.string()))
    assert picked(store, file, schema, "d = 7 AND c > 2") == [1]
    assert picked(store, file, schema, "d > 7") == []
    assert picked(store, file, schema, "d is null") == []
    assert picked(store, file, schema, "n is null AND c < 2") == [0]
    assert picked(store, file, schema, "n > ''") == []
    assert read(store, file, schema, "d = 7 AND c = 2") == [{"c": 2, "d": D("7.00"), "n": None}]


def test_a_field_inside_that_is_dropped_and_added_again_is_another_one() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    values: dict[str, list[Any]] = {
        "s": [{"x": 1, "y": 2}, None],
        "l": [[{"x": 3, "y": 4}, None], []],
        "m": [[("k", {"x": 5, "y": 6})], []],
    }
    nested = pa.schema([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    store, file, schema = make(values, nested)
    for path in ("s", "l.element", "m.value"):
        schema = change(schema, DropColumn(f"{path}.y"), AddColumn(f"{path}.y", pa.int32(), default=9))
    # The same names and types as before: only the ids differ.
    assert [field.type for field in schema.arrow] == nested.types
    assert read(store, file, schema) == [
        {"s": {"x": 1, "y": 9}, "l": [{"x": 3, "y": 9}, None], "m": [("k", {"x": 5, "y": 9})]},
        {"s": None, "l": [], "m": []},
    ]


def test_fields_inside_that_change_names_keep_their_values() -> None:
    store, file, schema = make(
        {"s": [{"x": 1, "y": 2}]}, pa.schema([("s", pa.struct([("x", "int32"), ("y", "int32")]))])
    )
    for old, new in (("x", "z"), ("y", "x"), ("z", "y")):
        schema = change(schema, RenameColumn(f"s.{old}", new))
    assert read(store, file, schema) == [{"s": {"y": 1, "x": 2}}]


def test_a_long_default_does_not_fill_the_memory() -> None:
    store, file, schema = make({"c": [1] * 30_000}, pa.schema([("c", pa.int32())]), rows=30_000)
    schema = change(schema, AddColumn("d", pa.string(), default="x" * 4000))
    with DataFileReader(store, file) as reader:
        mapping = reader.map_columns([schema.arrow.field("d")])
        sizes = [batch.nbytes for batch in reader.read_batches([0], mapping, budget_bytes=1 << 20)]
    assert max(sizes) < 2 << 20
    assert sum(sizes) > 30_000 * 4000
