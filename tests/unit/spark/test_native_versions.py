"""Which files of earlier schemas are left to Spark's own reader; `tests/integration/spark` shows that it is right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn, WidenColumn
from lakelog.format.types.evolution import ColumnRoles, evolve
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.older_files.native_versions import NativeVersions, is_native, to_sql_default

INNER = pa.struct([("x", pa.int32()), ("y", pa.int32())])
BEFORE = TableSchema(0, assign_field_ids(pa.schema([("i", pa.int32()), ("b", pa.int64()), ("s", INNER)])))


def change(*changes: ColumnChange) -> TableSchema:
    schema = BEFORE
    for each in changes:
        schema = evolve(schema, [each], ColumnRoles())
    return schema


@pytest.mark.parametrize(
    ("changes", "native"),
    [
        ([RenameColumn("i", "j"), DropColumn("b"), AddColumn("b", pa.int64())], True),
        ([WidenColumn("i", pa.int64())], True),
        ([WidenColumn("i", pa.float64())], True),
        ([WidenColumn("i", pa.decimal128(12, 2))], True),
        # Room for all numbers of the column, but not for all that Spark thinks possible.
        ([WidenColumn("b", pa.decimal128(19, 0))], False),
        ([WidenColumn("b", pa.decimal128(20, 0))], True),
        ([AddColumn("d", pa.int32(), default=5)], True),
        ([AddColumn("d", pa.binary(), default=b"x")], False),
        ([WidenColumn("s.x", pa.int64())], False),
        ([AddColumn("s.z", pa.int32())], False),
        # The same names and types as before.
        ([DropColumn("s.y"), AddColumn("s.y", pa.int32())], False),
    ],
)
def test_what_spark_reads_by_itself(changes: list[ColumnChange], native: bool) -> None:
    assert is_native(BEFORE, change(*changes)) is native


@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -5, "-5"),
        (pa.float32(), 0.5, "CAST('0.5' AS FLOAT)"),
        (pa.float64(), float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (pa.string(), "ż", "'ż'"),
        (pa.string(), "it's", None),
        (pa.string(), "\\", None),
        (pa.string(), "\n", None),
        (pa.decimal128(5, 2), 1, None),
    ],
)
def test_defaults_as_spark_writes_them(data_type: pa.DataType, value: Any, text: str | None) -> None:
    assert to_sql_default(change(AddColumn("d", data_type, default=value)).arrow.field("d")) == text


def test_versions_are_asked_for_once() -> None:
    schema = change(WidenColumn("i", pa.int64()), AddColumn("s.z", pa.int32()))
    versions = [BEFORE, evolve(BEFORE, [WidenColumn("i", pa.int64())], ColumnRoles()), schema]

    class Metastore:
        calls = 0

        def list_schemas(self, table_uuid: str) -> list[TableSchema]:
            self.calls += 1
            return versions

    metastore: Any = Metastore()
    known = NativeVersions()
    assert known.pick(metastore, "t", schema, {2}) == {2}
    assert metastore.calls == 0
    for _ in range(2):
        assert known.pick(metastore, "t", schema, {0, 1, 2}) == {2}
        assert known.pick(metastore, "t", versions[1], {0}) == {0, 1}
    assert metastore.calls == 2


def test_the_id_of_a_lost_version_may_mean_others() -> None:
    lost, present = change(AddColumn("n", pa.int32())), change(AddColumn("d", pa.binary(), default=b"x"))
    assert lost.schema_id == present.schema_id
    assert is_native(BEFORE, lost) != is_native(BEFORE, present)

    class Metastore:
        def list_schemas(self, table_uuid: str) -> list[TableSchema]:
            return [BEFORE]

    metastore: Any = Metastore()
    known = NativeVersions()
    for schema in (lost, present):
        assert (0 in known.pick(metastore, "t", schema, {0})) == is_native(BEFORE, schema)
