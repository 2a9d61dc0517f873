"""Consumers and logs of all tables: who lags, and who keeps snapshots from expiring."""

from __future__ import annotations

from typing import Final

from lakelog.format.jobs.overview import MAX_OVERDUE, Overview
from lakelog.format.retention.expiry import SnapshotLeaseKind

from ..page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address
from .all_consumers import list_consumers
from .all_logs import list_logs

RETAINING: Final = (
    Column("table", "Table", "code"),
    Column("kind", "Held back by"),
    Column("holder", "Who", "code"),
    Column("count", "Snapshots kept", "count", "that would have expired"),
    Column("since_ms", "Since", "time", "when the oldest snapshot that it keeps was committed"),
    Column("snapshot_id", "Needs snapshots after", "code", "it needs the changes after this snapshot"),
)
LAGGING: Final = (
    Column("consumer", "Consumer", "code"),
    Column("table", "Table", "code"),
    Column("state", "Read by", "text"),
    Column("snapshots", "Snapshots behind", "count"),
    Column("rows", "Rows behind", "count", "without those of compactions"),
    Column("behind_ms", "Behind by", "age", "how long ago the first snapshot to do that brings changes was committed"),
)

_HOLDERS: Final = {
    SnapshotLeaseKind.CONSUMER: "consumer",
    SnapshotLeaseKind.READER: "reader",
    SnapshotLeaseKind.CHANGELOG: "changelog to be made",
    SnapshotLeaseKind.PUBLISHER: "publisher of the log",
}


def streams(request: PageRequest) -> Page:
    """Streams and logs of all tables."""
    found = request.catalog.overview()
    parts = (list_retaining(found), list_lagging(found), list_consumers(request, found.now_ms), list_logs(request))
    return Page("listings.html", "Streams and logs", {each.name: each for each in parts}, area="streams")


def list_retaining(found: Overview) -> Listing:
    """Who keeps which snapshots from expiring. Pure."""
    rows = [
        {
            "table": each.table,
            "kind": _HOLDERS[each.lease.kind],
            "holder": each.lease.holder or None,
            "count": each.count,
            "since_ms": each.since_ms,
            "snapshot_id": each.lease.snapshot_id,
            "_links": {"table": table_address(each.table), "holder": table_address(each.table, "streams")},
        }
        for each in found.overdue
    ]
    note = "Looked for once a minute. A snapshot counts once the table's options would let it expire."
    if len(rows) == MAX_OVERDUE:
        note += f" These are the {MAX_OVERDUE} oldest."
    empty = "Nothing keeps a snapshot longer than its table's options say."
    return Listing("retaining", "Held back from expiry", RETAINING, rows, empty, note=note)


def list_lagging(found: Overview) -> Listing:
    """The consumers that lag most. Pure."""
    states = {"served": "reader service", "read": "a program", "silent": "no one"}
    named = [(lags.state, each) for lags in (found.work.consumers if found.work else ()) for each in lags.named]
    named.sort(key=lambda pair: -pair[1].behind_ms)
    rows = [
        {
            "consumer": each.consumer_id,
            "table": each.table,
            "state": states[state],
            "snapshots": each.snapshots,
            "rows": each.rows,
            "behind_ms": each.behind_ms,
            "_links": {"table": table_address(each.table), "consumer": table_address(each.table, "streams")},
        }
        for state, each in named[:PAGE_ROWS]
    ]
    note = f"As measured {found.work_age_ms // 1000} s ago." if found.work else "Nothing has been measured yet."
    return Listing("lagging", "Consumers that lag most", LAGGING, rows, "No consumer lags.", note=note)
