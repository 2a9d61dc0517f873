"""Databases, the tables of one, and the search for a table by a part of its name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import quote

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.sdk.catalog import Catalog

from ..page import PAGE_ROWS, Column, Listing, Page, PageRequest, Redirect, table_address
from ..streams_and_logs.walking import load_each
from .rows import to_rows

_TABLES_A_PAGE: Final = 50
"""Each costs requests of its own."""

_REQUESTED_AT_ONCE: Final = 8

_RECENT_MINUTES: Final = 10
_MOST_RECENT: Final = 500
"""Snapshots that are looked at for the recent commits of one table."""

_RECENT_HINT: Final = f"without compactions; none: more than {_MOST_RECENT} snapshots"
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
    Column("recent_commits", f"Commits, {_RECENT_MINUTES} min", "count", _RECENT_HINT),
    Column("recent_rows", f"Rows written, {_RECENT_MINUTES} min", "count", f"upserts and deletes {_RECENT_HINT}"),
    Column("rows", "Stored rows", "count", "in live files, with rows that merging hides"),
    Column("files", "Files", "count"),
    Column("bytes", "Size", "bytes"),
    Column("primary_key", "Primary key"),
    Column("partition_by", "Partitioned by"),
    Column("comment", "Comment"),
)
_READ: Final = [column.key for column in _TABLES if not column.key.startswith("recent_")]
_RARE: Final = ("partition_by", "comment")
"""Columns that are shown if a table has them, so that the others fit."""

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
    rows = _load_tables(request, database, names[shown])
    listing = Listing(
        "tables",
        "Tables",
        [column for column in _TABLES if column.key not in _RARE or any(row[column.key] for row in rows)],
        rows,
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


def _load_tables(request: PageRequest, database: str, names: Sequence[str]) -> list[dict[str, Any]]:
    if not names:
        return []
    found = request.catalog.system_table("sys.tables").scan(
        ["uuid", *_READ],
        "database = :database AND name IN :names",
        params={"database": database, "names": list(names)},
    )
    rows = to_rows(found.to_arrow())
    since_ms = request.now_ms - _RECENT_MINUTES * 60_000
    recent = load_each(lambda row: _load_recent(request.catalog.metastore, row, since_ms), rows)
    return [
        {
            **row,
            **dict(zip(("recent_commits", "recent_rows"), counts or (None, None), strict=True)),
            "primary_key": ", ".join(row["primary_key"]) or None,
            "partition_by": ", ".join(row["partition_by"]) or None,
            "_links": {"name": table_address(f"{database}.{row['name']}")},
        }
        for row, counts in zip(rows, recent, strict=True)
    ]


def _load_recent(metastore: Metastore, row: Mapping[str, Any], since_ms: int) -> tuple[int, int] | None:
    if (row["committed_at"] or 0) < since_ms:
        return 0, 0
    page = metastore.list_snapshots(row["uuid"], limit=_MOST_RECENT, newest=True)
    is_whole = len(page.snapshots) < _MOST_RECENT or min(each.committed_at_ms for each in page.snapshots) < since_ms
    return count_writes(page.snapshots, since_ms) if is_whole else None


def count_writes(snapshots: Sequence[Snapshot], since_ms: int) -> tuple[int, int]:
    """The commits since a time, and their rows, without compactions. Pure."""
    written = [
        each.added_rows
        for each in snapshots
        if each.committed_at_ms >= since_ms and each.kind is not SnapshotKind.COMPACT
    ]
    return len(written), sum(written)


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
