"""The sample rows that are remembered: of which table, for whom, and how many."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any
from weakref import ref

import pyarrow as pa
import pytest

from console.pages.page import Listing
from console.pages.tables.sample.cache import MOST_BYTES, MOST_TABLES, SampleCache
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema


class _Catalog:
    """Nothing of a catalog is needed but that it is one."""


def table_of(name: str = "t") -> TableInfo:
    schema = TableSchema(0, pa.schema([("id", pa.int64())]))
    return TableInfo(name, TableName("shop", name), "file:///t/", schema, {}, 7, 0)


ROWS = Listing("rows", "Rows", (), [{"id": 1}])


@pytest.fixture
def cache() -> SampleCache:
    return SampleCache()


@pytest.fixture
def catalog() -> Any:
    return _Catalog()


def test_rows_of_an_unchanged_table_are_found(cache: SampleCache, catalog: Any) -> None:
    cache.put(catalog, table_of(), ROWS, 8)
    assert cache.find(catalog, table_of()) is ROWS


@pytest.mark.parametrize(
    "changes",
    [
        {"latest_snapshot_id": 8},
        {"options": {"merge-engine": "first-row"}},
        {"schema": TableSchema(1, pa.schema([("id", pa.int64())]))},
        {"name": TableName("shop", "renamed")},
    ],
)
def test_rows_of_a_table_that_changed_are_not(cache: SampleCache, catalog: Any, changes: dict[str, Any]) -> None:
    cache.put(catalog, table_of(), ROWS, 8)
    assert cache.find(catalog, replace(table_of(), **changes)) is None


def test_rows_of_another_caller_are_not_found(cache: SampleCache, catalog: Any) -> None:
    cache.put(catalog, table_of(), ROWS, 8)
    assert cache.find(_Catalog(), table_of()) is None  # type: ignore[arg-type]


def test_rows_go_with_their_caller(cache: SampleCache) -> None:
    catalog: Any = _Catalog()
    gone, rows = ref(catalog), Listing("rows", "Rows", (), [])
    rows_gone = ref(rows)
    cache.put(catalog, table_of(), rows, 8)
    del catalog, rows
    gc.collect()
    assert gone() is None
    assert rows_gone() is None


def test_few_tables_are_remembered(cache: SampleCache, catalog: Any) -> None:
    for number in range(MOST_TABLES):
        cache.put(catalog, table_of(f"t{number}"), ROWS, 8)
    assert cache.find(catalog, table_of("t0")), "this makes it the one that was used last"
    cache.put(catalog, table_of("one more"), ROWS, 8)
    found = [number for number in range(MOST_TABLES) if cache.find(catalog, table_of(f"t{number}"))]
    assert found == [0, *range(2, MOST_TABLES)]


def test_large_rows_are_not_remembered(cache: SampleCache, catalog: Any) -> None:
    cache.put(catalog, table_of(), ROWS, MOST_BYTES + 1)
    assert cache.find(catalog, table_of()) is None
