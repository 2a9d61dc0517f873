"""Who reads the changes of a table, how far behind they are, and who holds back expiry."""

from __future__ import annotations

from typing import Any, Final

from lakelog.format.retention.consumer import name_state
from lakelog.pictures.history import MOST_SNAPSHOTS, History, load_history, load_now_ms
from lakelog.sdk.tables.table import Table

from ..actions.offered import action_address, is_offered
from ..page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address
from .opened import open_table, table_page
from .rows import to_rows

_CONSUMERS: Final = (
    Column("id", "Consumer", "code"),
    Column("snapshot_id", "Has done", "count", "the last snapshot that it has done"),
    Column("snapshots_behind", "Snapshots behind", "count"),
    Column(
        "rows_behind", "Rows behind", "count", f"without those of compactions; none: over {MOST_SNAPSHOTS:,} snapshots"
    ),
    Column("behind_ms", "Behind by", "age", "how long ago the first of these that brings changes was committed"),
    Column("state", "State", "state"),
    Column("holder", "Read by", "code"),
    Column("used_at", "Last used", "time"),
    Column("expires_at", "Expires", "time", "then it retains nothing until it is used again"),
)
_OVERDUE: Final = (
    Column("holder", "Held back by", "code"),
    Column("kind", "Which is a"),
    Column("count", "Overdue snapshots", "count", "they would have expired without it"),
    Column("since", "Since", "time", "when the oldest of them was committed"),
    Column("age_ms", "Which is", "age"),
    Column("snapshot_id", "It needs snapshots from", "count"),
)
_LEASES: Final = (
    Column("holder", "Needed by", "code"),
    Column("kind", "Which is a"),
    Column("snapshot_id", "Snapshots from", "count"),
    Column("expires_at", "Until", "time", "none: it does not end by itself"),
)


def streams(request: PageRequest) -> Page:
    """Consumers of the table, and what retains its snapshots."""
    opened = open_table(request)
    table = opened.table
    now_ms = load_now_ms(table)
    overdue = request.catalog.metastore.list_overdue_snapshots(table.uuid)
    parts: dict[str, Any] = {
        "overdue": Listing(
            "overdue",
            "What holds back expiry",
            _OVERDUE,
            [
                {
                    "holder": each.lease.holder,
                    "kind": each.lease.kind.value,
                    "count": each.count,
                    "since": each.since_ms,
                    "age_ms": max(now_ms - each.since_ms, 0),
                    "snapshot_id": each.lease.snapshot_id,
                }
                for each in overdue
            ],
            "Nothing: no snapshot is older than the options of the table want.",
        ),
        "consumers": _list_consumers(request, table, now_ms),
        "leases": _list_leases(request, table),
    }
    return table_page(opened, "streams", "streams.html", parts)


def _list_consumers(request: PageRequest, table: Table, now_ms: int) -> Listing:
    found = to_rows(table.system_table("consumers").to_arrow())
    history = load_history(table) if found else History((), 0, 0)
    rows = [_describe(row, history, now_ms, table) for row in found]
    if is_offered(request, table.info):
        for row in rows:
            row["_links"]["id"] = action_address(table.info, "reset-consumer", consumer=row["id"])
    rows.sort(key=lambda row: (-(row["snapshots_behind"] or 0), row["id"]))
    note = f"The {PAGE_ROWS} that are furthest behind, of {len(rows):,}." if len(rows) > PAGE_ROWS else ""
    return Listing(
        "consumers",
        "Consumers",
        _CONSUMERS,
        rows[:PAGE_ROWS],
        "No named reader: table.subscribe(consumer_id='etl') makes one. Readers without a name are not known here.",
        note=note,
    )


def _describe(row: dict[str, Any], history: History, now_ms: int, table: Table) -> dict[str, Any]:
    rows_behind, behind_ms, links = None, None, {}
    if row["snapshot_id"] is not None:
        lag = history.measure_lag(row["snapshot_id"], now_ms)
        rows_behind, behind_ms = None if lag.is_least else lag.rows, lag.age_ms
        if row["snapshot_id"]:
            links["snapshot_id"] = table_address(table.name, f"snapshots/{row['snapshot_id']}")
    state = name_state(row["holder"] or "", is_expired=row["expired"])
    return {**row, "rows_behind": rows_behind, "behind_ms": behind_ms, "state": state, "_links": links}


def _list_leases(request: PageRequest, table: Table) -> Listing:
    rows = [
        {
            "holder": each.holder,
            "kind": each.kind.value,
            "snapshot_id": each.snapshot_id,
            "expires_at": each.expires_at_ms or None,
        }
        for each in request.catalog.metastore.list_snapshot_leases(table.uuid)
    ]
    note = f"The first {PAGE_ROWS} of {len(rows):,}." if len(rows) > PAGE_ROWS else ""
    return Listing(
        "leases",
        "What needs snapshots now",
        _LEASES,
        rows[:PAGE_ROWS],
        "Nothing but the newest one is needed.",
        note=note,
    )
