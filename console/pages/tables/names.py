"""Databases, the tables of one, and the search for a table by a part of its name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import quote

from lakelog.errors import NotFound
from lakelog.sdk.catalog import Catalog

from ..page import PAGE_ROWS, Column, Listing, Page, PageRequest, Redirect, table_address
from .rows import to_rows

_TABLES_A_PAGE: Final = 50
"""Each costs requests of its own."""

_REQUESTED_AT_ONCE: Final = 8

_DATABASES: Final = (
    Column("name", "Database", "code"),
    Column("tables", "Tables", "count"),
    Column("bytes", "Size", "bytes", "the files of the newest snapshots"),
    Column("comment", "Comment"),
)
_TABLES: Final = (
    Column("name", "Table", "code"),
    Column("snapshot_id", "Snapshot", "count"),
    Column("committed_at", "Last commit", "time"),
    Column("rows", "Stored rows", "count", "in live files, with rows that merging hides"),
    Column("files", "Files", "count"),
    Column("bytes", "Size", "bytes"),
    Column("primary_key", "Primary key"),
    Column("partition_by", "Partitioned by"),
    Column("comment", "Comment"),
)
_FOUND: Final = (Column("name", "Table", "code"), Column("database", "Database", "code"))


def databases(request: PageRequest) -> Page:
    """All databases."""
    rows = [
        {**row, "_links": {"name": database_address(row["name"])}}
        for row in to_rows(request.catalog.system_table("sys.databases").to_arrow())
    ]
    shown, after = _take([row["name"] for row in rows], request, PAGE_ROWS)
    return Page(
        "tables/databases.html",
        "Tables",
        {
            "databases": Listing(
                "databases",
                "Databases",
                _DATABASES,
                rows[shown],
                "There is no database that you may see. Make one: lakelog database create shop",
                _next(request, after),
                note=_count(len(rows), "database", shown),
            )
        },
        area="tables",
    )


def tables(request: PageRequest) -> Page:
    """The tables of a database."""
    database = request.path["database"]
    names = request.catalog.tables(database)
    shown, after = _take(names, request, _TABLES_A_PAGE)
    listing = Listing(
        "tables",
        "Tables",
        _TABLES,
        _load_tables(request.catalog, database, names[shown]),
        f"The database {database} has no table that you may see. Make one: lakelog table create --help",
        _next(request, after),
        note=_count(len(names), "table", shown),
    )
    return Page("tables/tables.html", database, {"tables": listing}, [("Tables", "/tables")], "tables")


def search(request: PageRequest) -> Page | Redirect:
    """Tables whose name, with its database, contains a text."""
    wanted = request.query.get("q", "").strip()
    found = list(_find(request.catalog, wanted.casefold())) if wanted else []
    if wanted in found:
        return Redirect(table_address(wanted))
    shown, after = _take(found, request, PAGE_ROWS)
    rows = [
        {
            "name": name,
            "database": name.partition(".")[0],
            "_links": {"name": table_address(name), "database": database_address(name.partition(".")[0])},
        }
        for name in found[shown]
    ]
    empty = "No table that you may see has this in its name." if wanted else "Type a part of a table's name."
    listing = Listing(
        "tables", "Tables found", _FOUND, rows, empty, _next(request, after), note=_count(len(found), "table", shown)
    )
    return Page("tables/search.html", "Find a table", {"tables": listing}, area="tables", extra={"wanted": wanted})


def database_address(name: str) -> str:
    """The address of a database's tables. Pure."""
    return f"/tables/{quote(name, safe='')}"


def _load_tables(catalog: Catalog, database: str, names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    found = catalog.system_table("sys.tables").scan(
        [column.key for column in _TABLES],
        "database = :database AND name IN :names",
        params={"database": database, "names": list(names)},
    )
    return [
        {
            **row,
            "primary_key": ", ".join(row["primary_key"]) or None,
            "partition_by": ", ".join(row["partition_by"]) or None,
            "_links": {"name": table_address(f"{database}.{row['name']}")},
        }
        for row in to_rows(found.to_arrow())
    ]


def _find(catalog: Catalog, wanted: str) -> Iterator[str]:
    names = catalog.databases()

    def list_tables(database: str) -> list[str]:
        try:
            return catalog.tables(database)
        except NotFound:
            # It was dropped meanwhile.
            return []

    with ThreadPoolExecutor(_REQUESTED_AT_ONCE) as threads:
        for database, tables in zip(names, threads.map(list_tables, names), strict=True):
            full = (f"{database}.{table}" for table in tables)
            yield from (name for name in full if wanted in name.casefold())


def _take(names: Sequence[str], request: PageRequest, most: int) -> tuple[slice, str | None]:
    """Which of the sorted names the page shows, and the name after which the next page begins."""
    first = bisect_right(names, request.query.get("after", ""))
    end = min(first + most, len(names))
    return slice(first, end), names[end - 1] if end < len(names) else None


def _next(request: PageRequest, after: str | None) -> str | None:
    return None if after is None else request.with_query(after=after)


def _count(total: int, noun: str, shown: slice) -> str:
    if shown.stop - shown.start >= total:
        return ""
    if shown.start >= total:
        return f"There are {total:,} {noun}s, and none after this place."
    return f"{noun.capitalize()}s {shown.start + 1:,} to {shown.stop:,} of {total:,}, by name."
