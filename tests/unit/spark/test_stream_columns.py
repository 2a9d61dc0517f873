"""Which columns a stream of changes has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.stream.read_options import name_columns

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def make_table(*key: str) -> TableInfo:
    schema = TableSchema(0, assign_field_ids(COLUMNS), primary_key=key, partition_by=())
    return TableInfo("0" * 32, TableName("shop", "t"), "file:///w/t/", schema, {}, 0, 0)


@pytest.mark.parametrize("columns", [["v"], ["v", "_row_kind"], ["_row_kind", "v"]])
def test_the_kind_comes_last_named_or_not(columns: list[str]) -> None:
    assert name_columns(make_table("id"), columns, ["_snapshot_id"]) == ("v", "_snapshot_id", "_row_kind")


def test_rows_without_a_key_have_no_kind_among_their_columns() -> None:
    assert name_columns(make_table(), ["v"], ["_row_kind"]) == ("v", "_row_kind")
    with pytest.raises(InvalidArgument, match="has no column '_row_kind'"):
        name_columns(make_table(), ["v", "_row_kind"], [])
