"""Grants: who may do what, what the caller may do, and who wrote lately."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied
from lakelog.health.problem import say_remedy

from .page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address, to_ms
from .rights import has_role, is_admin, who_is

GRANTS: Final = (
    Column("scope", "Database or table", "code"),
    Column("principal", "Caller", "code"),
    Column("level", "Level"),
    Column("granted_by", "Granted by", "code"),
    Column("granted_ms", "Granted", "time"),
    Column("dropped_ms", "Table dropped", "time", "it counts again if the table is restored"),
)
WRITES: Final = (
    Column("snapshot_id", "Snapshot", "code"),
    Column("committed_ms", "Committed", "time"),
    Column("writer", "Writer", "ids", "the name that the program gave itself; job/7: a compactor, for job 7"),
    Column("kind", "Kind"),
    Column("added_rows", "Rows", "count"),
)
_WRITES_SHOWN: Final = 50

_LEVELS: Final = {
    "reader": "reads rows, snapshots and options",
    "writer": "also changes rows, compacts, tags, rolls back",
    "owner": "also alters, drops and grants",
}


def grants(request: PageRequest) -> Page:
    """Grants of the caller and, for owners and admins, of others."""
    scope, to = request.query.get("scope", "").strip(), request.query.get("to", "").strip()
    own = request.catalog.grants.list()
    name = who_is(request.catalog).name
    parts: dict[str, Any] = {
        "you": {
            "names": [name] if name else [],
            "has_role": has_role(request.catalog),
            "is_admin": is_admin(request.catalog),
            "grants": own.num_rows,
        },
        "own": _to_listing(
            "own", "Your grants", own, request, _say_none(name, "No grant is yours; a role may let you do more.")
        ),
    }
    problem = ""
    if scope or to:
        try:
            found = request.catalog.grants.list(scope or None, to=to or None)
            on = f"Grants{f' on {scope}' if scope else ''}{f' of {to}' if to else ''}"
            parts["found"] = _to_listing("found", on, found, request, _say_none(name, "There is no such grant."))
        except (InvalidArgument, NotFound, PermissionDenied) as error:
            problem = error.message
    if "." in scope:
        try:
            parts["writes"] = _list_writes(request, scope)
        except LakelogError as error:
            problem = problem or error.message
    if "." in scope and not to and not problem:
        database = scope.partition(".")[0]
        title = f"Grants on the database {database}, which count for all its tables"
        try:
            on_database = request.catalog.grants.list(database)
        except PermissionDenied:
            # An owner of the table alone sees the grants on the table.
            parts["database"] = Listing("database", title, GRANTS, [], "Owners of the database and admins see them.")
        else:
            parts["database"] = _to_listing("database", title, on_database, request, _say_none(name, "There is none."))
    words = ["grants", *([scope] if scope else []), *(["--to", to] if to else [])]
    return Page(
        "grants.html",
        "Grants",
        parts,
        [(scope, table_address(scope))] if "writes" in parts else (),
        area="grants",
        extra={"scope": scope, "to": to, "problem": problem, "levels": _LEVELS, "command": say_remedy(*words)},
    )


def _say_none(name: str, otherwise: str) -> str:
    return otherwise if name else "There is none, and none is needed: callers are not identified."


def _to_listing(name: str, title: str, found: pa.Table, request: PageRequest, empty: str) -> Listing:
    start = f"{name}_after"
    after = request.query.get(start, "0")
    first = int(after) if after.isascii() and after.isdecimal() and len(after) < 10 else 0
    rows = [
        {
            "scope": each["scope"],
            "principal": each["principal"],
            "level": each["level"],
            "granted_by": each["granted_by"] or None,
            "granted_ms": to_ms(each["granted_at"]),
            "uuid": each["uuid"] or None,
            "dropped_ms": to_ms(each["dropped_at"]),
            "_links": {} if each["dropped_at"] else {"scope": _address_of(each["scope"])},
        }
        for each in found.slice(first, PAGE_ROWS).to_pylist()
    ]
    is_more = found.num_rows > first + PAGE_ROWS
    return Listing(
        name,
        title,
        GRANTS,
        rows,
        empty,
        next_query=request.with_query(**{start: first + PAGE_ROWS}) if is_more else None,
        note=f"{found.num_rows:,} in all." if is_more or first else "",
    )


def _address_of(scope: str) -> str:
    return table_address(scope) if "." in scope else f"/tables/{scope}"


def _list_writes(request: PageRequest, table: str) -> Listing:
    """Who wrote to a table lately, as far as its snapshots say."""
    metastore = request.catalog.metastore
    info = metastore.get_table(parse_table_name(table))
    page = metastore.list_snapshots(info.table_uuid, limit=_WRITES_SHOWN, newest=True)
    rows = [
        {
            "snapshot_id": each.snapshot_id,
            "committed_ms": each.committed_at_ms,
            "writer": each.writer or None,
            "kind": each.kind.value,
            "added_rows": each.added_rows,
            "_links": {"snapshot_id": table_address(table, f"snapshots/{each.snapshot_id}")},
        }
        for each in sorted(page.snapshots, key=lambda each: -each.snapshot_id)
    ]
    title = f"Who wrote to {table} lately"
    return Listing("writes", title, WRITES, rows, "Nothing was written yet.", note=f"The newest {len(rows)} snapshots.")
