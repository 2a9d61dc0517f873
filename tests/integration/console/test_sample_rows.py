"""Sample rows are read once as long as their table stays as it is, and for each caller anew."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from console.pages.tables.sample import sample
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.running_console import RunningConsole

_numbers = itertools.count()


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table(f"shop.sampled{next(_numbers)}", pa.schema([("item", pa.string())]))
    made.append([{"item": "first row"}])
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    read = sample._read

    def count(found: Table, condition: str) -> object:
        names.append(found.name)
        return read(found, condition)

    monkeypatch.setattr(sample, "_read", count)
    return names


def page_of(console: RunningConsole, table: Table, who: str = "root") -> str:
    return console.get(f"/tables/{table.name.replace('.', '/')}", who).text


def test_rows_are_read_once_until_a_commit(console: RunningConsole, table: Table, reads: list[str]) -> None:
    for _ in range(3):
        assert "first row" in page_of(console, table)
    assert len(reads) == 1
    table.append([{"item": "second row"}])
    assert "second row" in page_of(console, table)
    assert len(reads) == 2


def test_rows_are_read_for_each_caller(console: RunningConsole, table: Table, reads: list[str]) -> None:
    for who in ("root", "viewer", "ann", "root"):
        assert "first row" in page_of(console, table, who)
    assert len(reads) == 3


def test_a_grant_that_is_taken_back_takes_the_rows(console: RunningConsole, catalog: Catalog, table: Table) -> None:
    catalog.grants.grant("reader", table.name, "stranger")
    assert "first row" in page_of(console, table, "stranger")
    catalog.grants.revoke(table.name, "stranger")
    answer = console.get(f"/tables/{table.name.replace('.', '/')}", "stranger")
    assert answer.status == 403
    assert "first row" not in answer.text


def test_rows_that_were_asked_for_are_read(console: RunningConsole, table: Table, reads: list[str]) -> None:
    for _ in range(2):
        assert "first row" in console.get(f"/tables/{table.name.replace('.', '/')}?rows=yes").text
    assert len(reads) == 2
