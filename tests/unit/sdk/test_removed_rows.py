"""Removals by condition beside rollbacks, and columns with the names that they use inside."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.writes.row_changes.row_removal import KnownRows


def _make(catalog: Catalog) -> Table:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
    table.append([{"id": number} for number in range(6)])
    return table


def _read(table: Table) -> list[int]:
    return table.scan().to_arrow().column("id").to_pylist()


def test_rows_that_a_rollback_brought_back_are_looked_for_again(catalog: Catalog) -> None:
    table, known = _make(catalog), KnownRows()
    table.delete_where("id = 3")
    first = catalog.transaction()
    assert first.table("shop.t")._delete_where("id IN (3, 4)", known) == 1
    first.abandon()
    table.rollback_to(1)
    with catalog.transaction() as second:
        assert second.table("shop.t")._delete_where("id IN (3, 4)", known) == 2
    assert _read(table) == [0, 1, 2, 5]


def test_a_column_may_be_called_as_the_position_of_a_row(catalog: Catalog) -> None:
    other = catalog.create_table("shop.o", pa.schema([("id", pa.int64()), ("_row_position", pa.int64())]))
    other.append([{"id": number, "_row_position": 10 * number} for number in range(3)])
    assert other.delete_where("_row_position = 10").deleted_rows == 1
    assert other.update({"_row_position": 7}, "id = 2").updated_rows == 1
    assert other.scan().to_arrow().to_pylist() == [{"id": 0, "_row_position": 0}, {"id": 2, "_row_position": 7}]
