"""The versions of a table's schema, and what two of them differ in."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from lakelog.errors import NotFound
from lakelog.sdk.tables.table import Table

from ...page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address
from ..first import COLUMNS
from ..numbers import NumberField, read_number
from ..opened import open_table, table_page
from ..rows import to_rows
from .first_uses import find_first_uses
from .schema_changes import Columns, list_changes, say_changes

_VERSIONS: Final = (
    Column("schema_id", "Version", "count"),
    Column("columns", "Columns", "count"),
    Column("changed", "What it changed"),
    Column("created_at", "Made", "time", "when this version was made"),
    Column("created_by", "Made by", "text", "the caller that made it, if the metastore identifies callers"),
    Column("used_since", "In use since", "time", "when the first snapshot with it was committed"),
    Column("first_snapshot", "First snapshot", "count"),
)
_NOT_USED: Final = (
    "Versions without a time of use: no commit has used them yet, or the snapshots from their beginning have expired."
)
_NOT_MADE: Final = "Versions without the time when they were made: the metastore of that time did not store it."
_NUMBER: Final = NumberField("schema_id", "version", 0)


def history(request: PageRequest) -> Page:
    """All versions of the schema, and the differences of two."""
    opened = open_table(request)
    table = opened.table
    versions = load_versions(table)
    newest = max(versions)
    first, last = read_number(request.query.get("from"), _NUMBER), read_number(request.query.get("to"), _NUMBER)
    after = last.value if last.value is not None else newest
    before = first.value if first.value is not None else max(after - 1, 0)
    parts: dict[str, Any] = {"versions": _list_versions(request, table, versions)}
    problem = first.problem or last.problem
    if not problem:
        for wanted in (after, before):
            _check_version(table, versions, wanted)
        parts["changes"] = list_changes(
            versions[before], versions[after], f"Versions {before} and {after} have the same columns."
        )
        parts["columns"] = Listing("columns", f"Columns of version {after}", COLUMNS, versions[after])
    return table_page(opened, "history", "history.html", parts, before=first, after=last, shown=(before, after))


def load_versions(table: Table) -> dict[int, Columns]:
    """The columns of each version of the schema, by version."""
    rows = to_rows(table.system_table("schemas").to_arrow())
    return {version: list(columns) for version, columns in groupby(rows, key=lambda row: row["schema_id"])}


def _check_version(table: Table, versions: dict[int, Columns], wanted: int) -> None:
    if wanted not in versions:
        raise NotFound(
            f"Table {table.name} has no version {wanted} of its schema: it has those from {min(versions)} to "
            f"{max(versions)}.",
            reason="SCHEMA_NOT_FOUND",
            metadata={"table": table.name},
        )


def _list_versions(request: PageRequest, table: Table, versions: dict[int, Columns]) -> Listing:
    ids = sorted(versions, reverse=True)
    until = read_number(request.query.get("after"), _NUMBER).value
    left = [each for each in ids if until is None or each < until]
    shown = left[:PAGE_ROWS]
    uses = find_first_uses(request.catalog, table, shown)
    rows = []
    for each in shown:
        first = uses.get(each)
        made = versions[each][0]
        links = {"schema_id": f"{table_address(table.name, 'history')}?from={max(each - 1, 0)}&to={each}"}
        if first is not None:
            links["first_snapshot"] = table_address(table.name, f"snapshots/{first.snapshot_id}")
        rows.append(
            {
                "schema_id": each,
                "columns": len(versions[each]),
                "changed": say_changes(versions[each - 1], versions[each]) if each - 1 in versions else "made",
                "created_at": made["created_at"],
                "created_by": made["created_by"],
                # A new table is in use at once.
                "used_since": made["created_at"] if each == 0 else None if first is None else first.committed_at_ms,
                "first_snapshot": None if first is None else first.snapshot_id,
                "_links": links,
            }
        )
    more = len(left) > PAGE_ROWS
    next_query = request.with_query(after=left[PAGE_ROWS - 1], of=table.uuid) if more else None
    notes = (("used_since", _NOT_USED), ("created_at", _NOT_MADE))
    note = " ".join(text for key, text in notes if not all(row[key] for row in rows))
    return Listing("versions", "Versions of the schema", _VERSIONS, rows, next_query=next_query, note=note)
