"""Tables whose columns were changed, read by Spark: older files show the same as in lakelog."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog import AddColumn, DropColumn, RenameColumn, WidenColumn
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.types.column_changes import ColumnChange
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.widening import is_widening
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch.live_rows import scan_live_rows
from lakelog.spark.older_files import reading
from lakelog.spark.older_files.native_versions import is_native
from lakelog.storage.parquet.live_file import to_live_files
from tests.integration.spark.spark_tables import MakeTable

D = Decimal
SINGLE: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 127, None],
    pa.int16(): [-(2**15), 0, 2**15 - 1, None],
    pa.int32(): [-(2**31), 0, 2**31 - 1, None],
    pa.int64(): [-(2**63), 0, 2**63 - 1, None],
    pa.float32(): [1.5, float("-inf"), 0.0, None],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None],
    pa.decimal128(3, 0): [D(-999), D(0), D(999), None],
    pa.decimal128(9, 4): [D("-99999.9999"), D(0), D("0.0001"), None],
    pa.decimal128(18, 3): [D("-0.001"), D(0), D("999999999999999.999"), None],
    pa.decimal128(21, 2): [D("-0.01"), D(0), D("9999999999999999999.99"), None],
}
WIDER = (
    *(pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.timestamp("us")),
    *(
        pa.decimal128(*each)
        for each in ((3, 0), (5, 2), (10, 0), (12, 2), (18, 8), (19, 0), (38, 0), (38, 10), (38, 18))
    ),
)
PAIRS = [(old, new) for old, new in itertools.product(SINGLE, WIDER) if is_widening(old, new)]
DEFAULTS: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), -5),
    (pa.int64(), -(2**63)),
    (pa.float32(), 1.5),
    (pa.float64(), float("nan")),
    (pa.float64(), float("-inf")),
    (pa.float64(), 1e-300),
    (pa.decimal128(9, 2), D("1.50")),
    (pa.decimal128(38, 10), D("12345.5")),
    (pa.string(), "ż x"),
    (pa.string(), "it's \\ \n"),
    (pa.binary(), b"\x00\xff"),
    (pa.date32(), dt.date(1, 2, 3)),
    (pa.timestamp("us"), dt.datetime.fromisoformat("2020-01-02 03:04:05.000678")),
    (pa.timestamp("us", "UTC"), dt.datetime.fromisoformat("2020-01-02 03:04:05.000678Z")),
]


def shown(rows: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows.to_pylist())


def check_same(spark: SparkSession, table: Table, condition: str | None = None, **at: Any) -> DataFrame:
    """Both ways of Spark show what the SDK shows."""
    wanted = shown(table.scan(filter=condition, **at).to_arrow())
    frame = lakelog.spark.read_table(spark, table.name, filter=condition, **at)
    assert shown(frame.toArrow()) == wanted
    options = {"table": table.name} | ({} if condition is None else {"filter": condition})
    options |= {} if not at else {"scan.snapshot-id": str(at["snapshot_id"])}
    assert shown(spark.read.format("lakelog").options(**options).load().toArrow()) == wanted
    return frame


def alter(catalog: Catalog, table: Table, *changes: ColumnChange) -> Table:
    table.alter(columns=list(changes))
    return catalog.table(table.name)


@pytest.mark.slow
@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_wider_types(spark: SparkSession, catalog: Catalog, make_table: MakeTable, vectorised: str) -> None:
    """Each widening alone: what is called native is right, with the vectorised reader and without."""
    schema = pa.schema([("k", pa.int64()), *((f"c{place}", old) for place, (old, _) in enumerate(PAIRS))])
    table = make_table(schema)
    rows = {"k": list(range(40))} | {f"c{place}": SINGLE[old] * 10 for place, (old, _) in enumerate(PAIRS)}
    table.append(pa.table(rows, schema=schema))
    before = table._refresh().schema
    table = alter(catalog, table, *(WidenColumn(f"c{place}", new) for place, (_, new) in enumerate(PAIRS)))
    after = table._info.schema
    native = [field.name for field in after.arrow if is_native(_only(before, field.name), _only(after, field.name))]
    assert len(native) > len(PAIRS) * 2 // 3
    wanted = table.scan(native).to_arrow()
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
    try:
        files = to_live_files(table._context.metastore.plan(PlanRequest(table.uuid)).files)
        schema_of_native = TableSchema(after.schema_id, pa.schema([after.arrow.field(name) for name in native]))
        frame = scan_live_rows(spark, schema_of_native, table._info.location, files, {})
        assert shown(frame.toArrow()) == shown(wanted)
        for name in native:
            value = wanted.column(name)[2]
            expected = wanted.filter(pa.compute.equal(wanted.column(name), value)).num_rows
            literal = frame.select(name).distinct().where(frame[name].isNotNull()).collect()
            assert any(repr(row[0]) == repr(value.as_py()) for row in literal), name
            if not isinstance(value.as_py(), dt.datetime):
                assert frame.where(frame[name] == value.as_py()).count() == expected, name
        check_same(spark, table)
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_columns_that_came_later(
    spark: SparkSession, catalog: Catalog, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1, 2, 3]}))
    table = alter(
        catalog, table, *(AddColumn(f"d{n}", each, default=value) for n, (each, value) in enumerate(DEFAULTS))
    )
    table.append(pa.table({"k": [4]}))
    frame = check_same(spark, table)
    assert frame.where("d1 = -5 AND k < 3").count() == 2
    assert frame.where("d9 IS NULL").count() == 0
    check_same(spark, table, "d4 = 1 OR k = 2")
    check_same(spark, table, snapshot_id=1)
    # Alone, those that Spark takes are read by Spark.
    table = alter(catalog, table, *(DropColumn(f"d{n}") for n in (7, 8, 10, 11)))
    monkeypatch.setattr(reading, "reader_of", None)
    check_same(spark, table)


def test_names_that_changed_and_fields_inside(spark: SparkSession, catalog: Catalog, make_table: MakeTable) -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    table = make_table(pa.schema([("k", pa.int64()), ("a", pa.string()), ("s", inner), ("l", pa.list_(inner))]))
    row = {"k": 1, "a": "x", "s": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4}, None]}
    table.append([row, {"k": 2, "a": None, "s": None, "l": []}])
    table = alter(catalog, table, RenameColumn("a", "b"), AddColumn("a", pa.string()))
    check_same(spark, table)
    for path in ("s", "l.element"):
        table = alter(catalog, table, DropColumn(f"{path}.y"))
        table = alter(catalog, table, AddColumn(f"{path}.y", pa.int32(), default=9), WidenColumn(f"{path}.x", "bigint"))
    check_same(spark, table)
    check_same(spark, table, "s.y = 9")
    check_same(spark, table, snapshot_id=1)


def test_deleted_rows_of_older_files(spark: SparkSession, catalog: Catalog, make_table: MakeTable) -> None:
    schema = pa.schema([("k", pa.int64()), ("q", pa.int32()), ("v", pa.string())])
    table = make_table(schema, ("k",), options={"sequence.field": "q"})
    table.upsert(pa.table({"k": range(200), "q": [1] * 200, "v": ["old"] * 200}, schema=schema))
    # Its default is one that Spark does not take, so tasks in Python read the older file.
    table = alter(catalog, table, RenameColumn("q", "seq"), AddColumn("d", pa.binary(), default=b"d"))
    table.upsert([{"k": key, "seq": key % 3, "v": "new", "d": b"e"} for key in range(0, 200, 2)])
    table.delete([{"k": key, "seq": 5} for key in range(0, 200, 5)])
    frame = check_same(spark, table)
    assert frame.count() == 160
    check_same(spark, table, "k = 7")
    check_same(spark, table, "v = 'old' AND d = X'64'")
    check_same(spark, table, snapshot_id=1)


def _only(schema: TableSchema, name: str) -> TableSchema:
    place = [field.name for field in schema.arrow].index(name)
    return TableSchema(schema.schema_id, pa.schema([schema.arrow.field(place)]))


def test_rows_of_older_files_are_deleted_by_condition(
    spark: SparkSession, catalog: Catalog, make_table: MakeTable, by_tasks: None
) -> None:
    table = make_table(pa.schema([("k", pa.int64()), ("v", pa.int32())]))
    table.append(pa.table({"k": range(100), "v": [1] * 100}, schema=table.schema))
    # One that Spark fills in itself, then one that it does not.
    for name, default in (("d5", 5), ("db", b"x")):
        table = alter(catalog, table, AddColumn(name, pa.scalar(default).type, default=default))
        table.append([{"k": 1000, "v": 2}], fill_missing=True)
    before = shown(table.scan(filter="k >= 10").to_arrow())
    lakelog.spark.delete_where(spark, table.name, "k < 10 AND d5 = 5")
    assert shown(table.scan().to_arrow()) == before
    check_same(spark, table)


def test_defaults_do_not_go_on_to_copies(spark: SparkSession, catalog: Catalog, make_table: MakeTable) -> None:
    table = make_table(pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    table = alter(catalog, table, AddColumn("d", pa.int32(), default=5))
    (_, column) = lakelog.spark.read_table(spark, table.name).schema.fields
    assert [*column.metadata] == ["parquet.field.id"]
