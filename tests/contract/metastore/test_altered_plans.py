"""Which files a plan lists after a table's columns were changed, and how it shows the table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, Plan, PlanRequest
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn, WidenColumn
from tests.support.metastore.making import append, day, make_table

V = 3


def alter(metastore: Metastore, table: TableInfo, *changes: ColumnChange) -> TableInfo:
    return metastore.alter_columns(table.table_uuid, changes=changes)


def names(plan: Plan) -> str:
    return "".join(sorted(path.split("/")[-1][:-8] for path in plan.files.column("path").to_pylist()))


def listed(metastore: Metastore, table: TableInfo, condition: str, **request: Any) -> str:
    """The files of a plan with a condition on the table's present columns."""
    predicate = parse_filter(condition, table.schema.arrow).to_predicate(table.schema.field_ids)
    return names(metastore.plan(PlanRequest(table.table_uuid, predicate=predicate, **request)))


def statistics(column: int, low: Any, high: Any, data_type: pa.DataType, nulls: int = 0) -> tuple[ColumnStatistics]:
    first, last = (encode_key([pa.scalar(value, data_type)]) for value in (low, high))
    return (ColumnStatistics(column, nulls, first, last),)


def test_files_without_a_column_show_its_default_in_all_rows(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="a", row_count=10)
    changes = [AddColumn("d", pa.int32(), default=5), AddColumn("n", pa.string())]
    table = alter(metastore, table, *changes)
    d, n = (table.schema.field_ids[name] for name in ("d", "n"))
    append(metastore, table, 2, names="b", schema_id=1, statistics=statistics(d, 7, 9, pa.int32()))
    append(metastore, table, 3, names="c", schema_id=1, statistics=statistics(n, "x", "y", pa.string()))
    assert listed(metastore, table, "d = 5") == "ac"
    assert listed(metastore, table, "d = 7") == "bc"
    assert listed(metastore, table, "d <> 5") == "bc"
    assert listed(metastore, table, "d is null") == "c"
    assert listed(metastore, table, "n = 'x'") == "bc"
    assert listed(metastore, table, "n is null") == "ab"
    assert listed(metastore, table, "n is not null") == "bc"


def test_bounds_in_an_older_encoding_are_not_compared_with_new_ones(metastore: Metastore) -> None:
    metastore.create_database("shop", if_not_exists=True)
    schema = pa.schema([("i", pa.int32()), ("m", pa.decimal128(5, 2)), ("t", pa.date32())])
    table, _ = metastore.create_table(TableName("shop", "encodings"), schema, primary_key=[], partition_by=[])
    lows = {"i": 5, "m": Decimal("1.00"), "t": 10}
    highs = {"i": 9, "m": Decimal("2.00"), "t": 20}
    old = tuple(
        each
        for name, number in table.schema.field_ids.items()
        for each in statistics(number, lows[name], highs[name], schema.field(name).type)
    )
    append(metastore, table, 1, names="a", statistics=old)
    table = alter(
        metastore,
        table,
        WidenColumn("i", pa.decimal128(12, 2)),
        WidenColumn("m", pa.decimal128(9, 4)),
        WidenColumn("t", pa.timestamp("us")),
    )
    low = {"i": Decimal(50), "m": Decimal(30), "t": 10**15}
    new = tuple(
        each
        for name, number in table.schema.field_ids.items()
        for each in statistics(number, low[name], low[name], table.schema.arrow.field(name).type)
    )
    append(metastore, table, 2, names="b", schema_id=1, statistics=new)
    for condition in ("i = 6", "m = 1.5", "t = TIMESTAMP_NTZ '1970-01-15 00:00:00'"):
        assert listed(metastore, table, condition) == "a", condition
    assert listed(metastore, table, "i = 50 AND m = 30") == "ab"
    # How many values are NULL is known in any encoding.
    assert listed(metastore, table, "i is null") == ""


@pytest.mark.parametrize("wider", [pa.int32(), pa.int64()])
def test_bounds_of_wider_integers_go_on_excluding_files(metastore: Metastore, wider: pa.DataType) -> None:
    metastore.create_database("shop", if_not_exists=True)
    name = TableName("shop", f"integers_{wider}")
    table, _ = metastore.create_table(name, pa.schema([("i", pa.int16())]), primary_key=[], partition_by=[])
    append(metastore, table, 1, names="a", statistics=statistics(1, -3, 3, pa.int16()))
    table = alter(metastore, table, WidenColumn("i", wider))
    append(metastore, table, 2, names="b", schema_id=1, statistics=statistics(1, 70_000, 80_000, wider))
    assert listed(metastore, table, "i < 10") == "a"
    assert listed(metastore, table, "i > 10") == "b"


def test_a_column_of_a_dropped_name_is_another_one(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="a", statistics=statistics(V, 1.0, 2.0, pa.float64()))
    table = alter(metastore, table, DropColumn("v"))
    table = alter(metastore, table, AddColumn("v", pa.float64(), default=9.0))
    assert listed(metastore, table, "v = 1.5") == ""
    assert listed(metastore, table, "v = 9") == "a"


def test_partitions_are_found_under_a_new_name(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    append(metastore, table, 1, names="a", partition=day("mon"))
    append(metastore, table, 2, names="b", partition=day("tue"))
    table = alter(metastore, table, RenameColumn("day", "weekday"))
    assert listed(metastore, table, "weekday = 'tue'") == "b"
    append(metastore, table, 3, names="c", partition=day("tue"), schema_id=1)
    assert listed(metastore, table, "weekday = 'tue'") == "bc"


def test_a_state_is_planned_with_the_columns_and_options_of_its_time(metastore: Metastore) -> None:
    table = make_table(metastore, options={"bucket": "2", "bucket-key": "id", "sequence.field": "v"})
    append(metastore, table, 1)
    # The names change places: the options of now beside the columns of then would name other columns.
    for old, new in (("v", "x"), ("id", "v"), ("x", "id")):
        table = alter(metastore, table, RenameColumn(old, new))
    append(metastore, table, 2, names="b", schema_id=3)
    assert (table.options["bucket-key"], table.options["sequence.field"]) == ("v", "id")
    then = metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(1)))
    assert then.schema.schema_id == 0
    assert then.table.schema == then.schema
    assert (then.table.options["bucket-key"], then.table.options["sequence.field"]) == ("id", "v")
    assert then.schema.primary_key == ("id",)
    for at in (None, AtSnapshot(2), InRange(0, 1)):
        plan = metastore.plan(PlanRequest(table.table_uuid, at))
        assert plan.schema == table.schema
        assert plan.table.options == table.options


def test_a_predicate_on_a_state_has_the_types_of_its_time(metastore: Metastore) -> None:
    metastore.create_database("shop", if_not_exists=True)
    name = TableName("shop", "types_of_then")
    table, _ = metastore.create_table(name, pa.schema([("i", pa.int32())]), primary_key=[], partition_by=[])
    for number, (low, file) in enumerate(((1, "a"), (5, "b")), 1):
        append(metastore, table, number, names=file, statistics=statistics(1, low, low, pa.int32()))
    alter(metastore, table, WidenColumn("i", pa.decimal128(20, 5)))
    assert listed(metastore, table, "i = 5", at=AtSnapshot(2)) == "b"


def test_a_plan_of_the_log_names_the_schemas_of_its_files(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False, options={"log.system": "kafka"})
    for number in range(1, 4):
        append(metastore, table, number, schema_id=number - 1)
        table = alter(metastore, table, AddColumn(f"c{number}", pa.int32()))
    log = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 2), log=True))
    assert sorted(log.file_schemas) == [0, 1, 3]
    assert log.file_schemas[1].arrow.names == ["day", "id", "v", "c1"]
    state = metastore.plan(PlanRequest(table.table_uuid))
    assert sorted(state.file_schemas) == [2, 3]
    changes = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 2)))
    assert sorted(changes.file_schemas) == [0, 1, 3]


def test_a_client_from_before_changes_of_columns_is_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    old = PlanRequest(table.table_uuid, reads_changed_columns=False)
    assert names(metastore.plan(old)) == "a"
    alter(metastore, table, AddColumn("d", pa.int32(), default=5))
    for request in (old, PlanRequest(table.table_uuid, AtSnapshot(1), reads_changed_columns=False)):
        with pytest.raises(InvalidArgument, match="this client is from before columns could change") as caught:
            metastore.plan(request)
        assert caught.value.reason == "CLIENT_TOO_OLD"
    assert names(metastore.plan(PlanRequest(table.table_uuid))) == "a"


def test_a_plan_loads_the_versions_that_it_needs(metastore: Metastore) -> None:
    """Of hundreds of versions a plan of a state needs one or two."""
    table = make_table(metastore, keyed=False)
    for number in range(30):
        table = alter(metastore, table, AddColumn(f"c{number}", pa.int32()))
    append(metastore, table, 1, schema_id=30)
    table = alter(metastore, table, RenameColumn("c1", "d1"))
    assert sorted(metastore.plan(PlanRequest(table.table_uuid)).file_schemas) == [30, 31]
