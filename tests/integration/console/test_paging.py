"""A page asks a bounded number of tables, and leads to the next ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pyarrow as pa
import pytest

from console.pages.streams_and_logs import all_consumers
from lakelog.sdk.catalog import Catalog
from tests.support.running_console import RunningConsole

TABLES = [f"paged.t{number}" for number in range(5)]


@pytest.fixture
def consumers(catalog: Catalog) -> Iterator[None]:
    """A database of tables of which every second has a consumer."""
    catalog.create_database("paged")
    for number, name in enumerate(TABLES):
        table = catalog.create_table(name, pa.schema([("id", pa.int64())]))
        if number % 2 == 0:
            catalog.metastore.open_consumer(f"c{number}", [table.uuid], "a reader")
    yield
    catalog.drop_database("paged", cascade=True)


def test_all_consumers_come_some_tables_at_a_time(
    console: RunningConsole, consumers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_consumers, "_TABLES", 2)
    assert walk(console) == ["paged.t0 c0", "paged.t2 c2", "paged.t4 c4"]


def test_all_consumers_come_some_rows_at_a_time(
    console: RunningConsole, consumers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_consumers, "PAGE_ROWS", 1)
    assert walk(console) == ["paged.t0 c0", "paged.t2 c2", "paged.t4 c4"]


def walk(console: RunningConsole) -> list[str]:
    """The consumers of the tables, page by page."""
    found: list[str] = []
    address = "/streams"
    for _ in range(20):
        join = "&" if "?" in address else "?"
        rows = console.get(f"{address}{join}as=json&part=consumers").json
        assert len({row["table"] for row in rows}) <= 2
        found += [f"{row['table']} {row['consumer']}" for row in rows if row["table"] in TABLES]
        more = re.search(r'href="(\?[^"]*)#consumers"', console.get(address).text)
        if more is None:
            break
        address = "/streams" + unescape(more[1])
    return found
