"""Writes from Spark whose table got other columns after the rows were made for it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import RenameColumn
from lakelog.format.types.schema import TableSchema
from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import table_write
from lakelog.spark.names import statements
from lakelog.sql.parser import parse_statement
from lakelog.writes.row_changes.unaltered import check_unaltered

EXCHANGED = [RenameColumn("a", "x"), RenameColumn("b", "a"), RenameColumn("x", "b")]


def make_rows(*columns: str) -> Any:
    """What a write asks of a DataFrame before it looks at the rows."""
    rows = Mock(columns=list(columns), isStreaming=False)
    rows.toDF.side_effect = make_rows
    rows.withColumns.side_effect = lambda columns: rows
    return rows


@pytest.fixture
def table(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    catalog.create_database("shop", if_not_exists=True)
    table = catalog.create_table("shop.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    installation = SimpleNamespace(catalog=catalog, metastore=table._context.metastore, attempts_ahead=None)
    for module in (table_write, statements):
        monkeypatch.setattr(module, "installation_of", lambda spark: installation)
    monkeypatch.setattr(table_write, "check_not_remote", lambda *arguments: None)
    yield table
    catalog.drop_table("shop.t")


def test_other_columns_or_another_table_are_no_target(table: Table) -> None:
    info = table.info
    check_unaltered(info, info.table_uuid, info.schema)
    later = TableSchema(1, info.schema.arrow)
    # The id of a version that was lost with a database that was set back.
    lost = TableSchema(0, pa.schema([info.schema.arrow.field("a")]))
    for uuid, schema in ((info.table_uuid, later), (info.table_uuid, lost), ("other", info.schema)):
        with pytest.raises(CommitConflict) as caught:
            check_unaltered(info, uuid, schema)
        assert (caught.value.reason, caught.value.metadata["retry"]) == ("SCHEMA_CHANGED", "replan")


def test_a_write_refuses_columns_that_its_rows_were_not_made_for(table: Table) -> None:
    rows = make_rows("a", "b")
    before = table.info
    table.alter(columns=EXCHANGED)
    with pytest.raises(CommitConflict) as caught:
        table_write.write_to(rows, table.name, before)
    assert caught.value.reason == "SCHEMA_CHANGED"
    assert table.snapshots().num_rows == 0


@pytest.mark.parametrize("word", ["INTO", "OVERWRITE"])
def test_an_insert_begins_again_if_columns_are_altered(
    table: Table, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    written: list[tuple[list[str], TableInfo]] = []

    def query(spark: object, text: str) -> tuple[Any, set[str]]:
        if not written:
            table.alter(columns=EXCHANGED)
        return make_rows("x", "y"), set()

    def write_to(rows: Any, name: str, expected: TableInfo, **others: Any) -> WriteResult:
        written.append((rows.columns, expected))
        now = table._context.metastore.get_table(expected.name)
        check_unaltered(expected, now.table_uuid, now.schema)
        return WriteResult(1, False)

    monkeypatch.setattr(statements, "_query", query)
    monkeypatch.setattr(statements, "write_to", write_to)
    found = run(f"INSERT {word} shop.t SELECT x, y FROM z")
    assert found.snapshot_id == 1
    assert [columns for columns, _ in written] == [["a", "b"], ["b", "a"]]
    assert [info.schema.schema_id for _, info in written] == [0, 1]


def run(statement: str) -> Any:
    spark: Any = None
    return statements._SparkStatements(spark, None).run(parse_statement(statement))
