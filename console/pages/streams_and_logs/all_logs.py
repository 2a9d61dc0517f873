"""The external logs of all tables, some at a time."""

from __future__ import annotations

from typing import Any, Final

from lakelog.system_tables.metadata.log_status import LogStatus, load_log_status

from ..page import Column, Listing, PageRequest, table_address
from .walking import load_each

LOGS: Final = (
    Column("table", "Table", "code"),
    Column("state", "State", "state"),
    Column("topic", "Topic", "ids"),
    Column("published", "Published", "count", "the last snapshot that is in the topic as a whole"),
    Column("visible", "Visible", "count", "the table's newest snapshot"),
    Column("pending_snapshots", "Pending", "count", "snapshots with rows for the log; at most 1000 are counted"),
    Column("pending_rows", "Pending rows", "count"),
    Column("behind_ms", "Behind", "age"),
    Column("reported_ms", "Reported", "time"),
    Column("problem", "Problem"),
)

_LOG_ROWS: Final = 25
"""A log takes three requests."""

_LATE_MS: Final = 60_000


def list_logs(request: PageRequest) -> Listing:
    """The logs of the tables after the one that the address names."""
    metastore, after = request.catalog.metastore, request.query.get("logs_after", "")
    infos = sorted((each for each in metastore.list_logs() if str(each.name) > after), key=lambda each: str(each.name))
    shown = infos[:_LOG_ROWS]
    now_ms = request.now_ms
    found = load_each(lambda info: load_log_status(metastore, [info.table_uuid], now_ms)[0], shown)
    is_more = len(infos) > len(shown)
    return Listing(
        "logs",
        "Logs by table",
        LOGS,
        [_show_log(each) for each in found if each is not None],
        "No table has a log.",
        next_query=request.with_query(logs_after=str(shown[-1].name)) if is_more else None,
    )


def _show_log(status: LogStatus) -> dict[str, Any]:
    """A row. Pure."""
    table, state = str(status.info.name), status.state
    return {
        "table": table,
        "state": "failed" if status.problem else "late" if status.behind_ms > _LATE_MS else "published",
        "topic": status.info.topic,
        "partitions": status.partitions,
        "published": state.snapshot_id,
        "visible": state.latest_snapshot_id,
        "pending_snapshots": status.snapshots_behind,
        "pending_rows": status.rows_behind,
        "behind_ms": status.behind_ms,
        "reported_ms": state.reported_at_ms or None,
        "holder": state.holder or None,
        "problem": status.problem or None,
        "_links": {"table": table_address(table, "log")},
    }
