"""`$log` and `sys.logs`: how far external logs are published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.errors import NotFound
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, OfCatalog, OfTable
from lakelog.system_tables.metadata.log_status import LogStatus, load_log_status

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

_COLUMNS: Final = (
    Column("topic", TEXT, "The topic of the log."),
    Column("partition", SMALL_NUMBER, "The topic's partition, from 0."),
    Column("offset", NUMBER, "The next offset after what is published as a whole; NULL: nothing was reported yet."),
    Column("generation", NUMBER, "Rises when the log restarts; from 1."),
    Column("starts_after", NUMBER, "The log holds the snapshots after this one; 0: all."),
    Column("published_snapshot", NUMBER, "The last snapshot that is published as a whole."),
    Column("latest_snapshot", NUMBER, "The table's newest snapshot."),
    Column(
        "pending_snapshots", NUMBER, "Snapshots with rows for the log that are not published as a whole; at most 1000."
    ),
    Column("pending_rows", NUMBER, "The rows of these."),
    Column("behind_ms", NUMBER, "The age of the first of these in milliseconds; 0: there is none."),
    Column("reported_at", TIME, "When the publisher reported last; NULL: never."),
    Column("holder", TEXT, "The publisher; NULL: none."),
    Column("problem", TEXT, "Why it cannot be published now; NULL: no known problem."),
)


def _to_rows(found: Iterable[LogStatus]) -> pa.Table:
    parts = [(status, partition) for status in found for partition in range(_count_partitions(status))]
    states = [status.state for status, _ in parts]
    return pa.table(
        {
            "database": pa.array([status.info.name.database for status, _ in parts], TEXT),
            "table": pa.array([status.info.name.name for status, _ in parts], TEXT),
            "topic": pa.array([status.info.topic for status, _ in parts], TEXT),
            "partition": pa.array([partition for _, partition in parts], SMALL_NUMBER),
            "offset": pa.array(
                [
                    status.state.offsets[partition] if partition < len(status.state.offsets) else None
                    for status, partition in parts
                ],
                NUMBER,
            ),
            "generation": pa.array([each.generation for each in states], NUMBER),
            "starts_after": pa.array([status.info.starts_after for status, _ in parts], NUMBER),
            "published_snapshot": pa.array([each.snapshot_id for each in states], NUMBER),
            "latest_snapshot": pa.array([each.latest_snapshot_id for each in states], NUMBER),
            "pending_snapshots": pa.array([status.snapshots_behind for status, _ in parts], NUMBER),
            "pending_rows": pa.array([status.rows_behind for status, _ in parts], NUMBER),
            "behind_ms": pa.array([status.behind_ms for status, _ in parts], NUMBER),
            "reported_at": to_times(each.reported_at_ms or None for each in states),
            "holder": pa.array([each.holder or None for each in states], TEXT),
            "problem": pa.array([status.problem or None for status, _ in parts], TEXT),
        }
    )


def _count_partitions(status: LogStatus) -> int:
    return max(status.partitions, len(status.state.offsets))


def _read_log(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    try:
        return _to_rows(load_log_status(context.metastore, [info.table_uuid], context.clock.now_ms()))
    except NotFound as error:
        if error.reason != "LOG_NOT_FOUND":
            raise
        return _to_rows([])


def _read_logs(context: Context, wanted: Wanted) -> pa.Table:
    return _to_rows(load_log_status(context.metastore, (), context.clock.now_ms()))


LOG: Final = OfTable(
    "log",
    "The external log of the table, a row for each partition of its topic: what is published, and what is pending. "
    "Empty for a table without a log.",
    _COLUMNS,
    read=_read_log,
)
ALL_LOGS: Final = OfCatalog(
    "logs",
    "The external logs of all tables, as of `$log`.",
    (Column("database", TEXT, "The table's database."), Column("table", TEXT, "The table's name."), *_COLUMNS),
    read=_read_logs,
)
