"""CONSOLE: pages of a table with 10^6 live files, and the overview of 10,000 tables, on a real Postgres.

What is measured is a page from its request to its HTML: the console's work with the metastore's in one process; the
network is left out. The reference is the metastore's answer to the question for the table alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.plans import DATABASE, create_planned_table
from console.http.rendering import Rendering
from console.pages.overview import overview
from console.pages.page import Page, PageRequest, PageSettings
from console.pages.tables.files import files
from console.pages.tables.first import table
from console.pages.tables.jobs import jobs
from console.pages.tables.names import tables
from console.pages.tables.snapshots.snapshots import snapshots
from console.pages.tables.streams import streams
from lakelog.clock import SystemClock
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.format.tables.table import TableName
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.postgres import PostgresStore, migrate
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases

TITLE = "pages of the console: a table with 10^6 files, the overview of 10,000 tables"
PageFunction = Callable[[PageRequest], Page]

_TABLE: Final = "large"
_TABLE_MS: Final = 150.0
_OVERVIEW_MS: Final = 100.0
_TURNS: Final = 7
_PAGES: Final[tuple[tuple[str, PageFunction, dict[str, str], float | None], ...]] = (
    ("the table", table, {}, _TABLE_MS),
    ("snapshots", snapshots, {}, _TABLE_MS),
    ("files, not asked for", files, {}, _TABLE_MS),
    ("files of a partition", files, {"where": "partition.day = 5"}, _TABLE_MS),
    ("streams", streams, {}, _TABLE_MS),
    ("jobs", jobs, {}, _TABLE_MS),
)


def run(bench: Bench) -> Iterator[Figure]:
    """All figures; a quick run has a tenth of the files and tables."""
    count, table_count = bench.scaled(1_000_000), bench.scaled(10_000)
    with EmbeddedPostgres(bench.folder / "postgres") as postgres:
        migrate(postgres.database_url)
        made: list[UseCases] = []

        async def open_store() -> Store:
            return PostgresStore(postgres.database_url)

        def make_use_cases(store: Store) -> UseCases:
            made.append(UseCases(store, "file:///bench"))
            return made[0]

        metastore = in_process(open_store, make_use_cases)
        try:
            metastore.create_database(DATABASE)
            large = metastore.run(create_planned_table(made[0], _TABLE))
            metastore.run(large.fill(count))
            catalog = Catalog(metastore, LocationStores())
            yield from _measure_pages(catalog, count)
            _make_tables(metastore, table_count)
            show = _shower(catalog, {"database": DATABASE}, {})
            yield _measure(f"{table_count:,} tables: overview", lambda: show(overview), _OVERVIEW_MS)
            yield _measure(f"{table_count:,} tables: first page of their list", lambda: show(tables), None)
        finally:
            metastore.close()


def _measure_pages(catalog: Catalog, count: int) -> Iterator[Figure]:
    name = f"{DATABASE}.{_TABLE}"
    yield _measure(f"{count:,} files: catalog.table, without the console", lambda: catalog.table(name), None)
    for title, page, query, most_ms in _PAGES:
        show = _shower(catalog, {"database": DATABASE, "table": _TABLE}, query)
        text = show(page)
        if name not in text:
            raise WrongAnswerError(f"the page {title} does not name the table")
        yield _measure(f"{count:,} files: {title}", partial(show, page), most_ms)


def _shower(catalog: Catalog, path: dict[str, str], query: dict[str, str]) -> Callable[[PageFunction], str]:
    rendering = Rendering(is_read_only=True)
    settings = PageSettings("localhost:7450", actions=False, max_query_rows=1000, query_seconds=30)

    def show(page: PageFunction) -> str:
        made = page(PageRequest(catalog, path, query, SystemClock(), settings))
        return rendering.html(made, caller=False, message="", address="/", is_live=True)

    return show


def _make_tables(metastore: InProcessMetastore, count: int) -> None:
    schema = pa.schema([("id", pa.int64())])
    for number in range(count):
        metastore.create_table(TableName(DATABASE, f"t{number}"), schema)


def _measure(name: str, work: Callable[[], object], most_ms: float | None) -> Figure:
    work()
    times_ms = []
    for _ in range(_TURNS):
        began_s = time.perf_counter()
        work()
        times_ms.append((time.perf_counter() - began_s) * 1000)
    return absolute(name, "ms", times_ms, target=most_ms)
