"""`$tags` and `$consumers`: what retains snapshots of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.format.retention.consumer import Consumer
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import FLAG, NUMBER, TEXT, TIME, Column, OfTable

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

CONSUMER_COLUMNS: Final = (
    Column("id", TEXT, "The consumer's id."),
    Column("snapshot_id", NUMBER, "The last snapshot that it has done; 0: it begins with the first; NULL: none yet."),
    Column("holder", TEXT, "Its reader; NULL: there is none now."),
    Column("used_at", TIME, "When its reader reported last, or it was reset."),
    Column("expires_at", TIME, "When it stops retaining snapshots unless it is used."),
    Column("expired", FLAG, "Whether it retains nothing until it is used again."),
    Column("snapshots_behind", NUMBER, "How many snapshots of the table it has not done; NULL: none was ever done."),
)


def to_consumer_columns(consumers: Iterable[Consumer], latest_snapshot_id: int) -> dict[str, pa.Array]:
    """The columns of `$consumers`. Pure."""
    found = list(consumers)
    behind = [None if each.snapshot_id is None else latest_snapshot_id - each.snapshot_id for each in found]
    return {
        "id": pa.array([each.consumer_id for each in found], TEXT),
        "snapshot_id": pa.array([each.snapshot_id for each in found], NUMBER),
        "holder": pa.array([each.holder or None for each in found], TEXT),
        "used_at": to_times(each.used_at_ms for each in found),
        "expires_at": to_times(each.expires_at_ms or None for each in found),
        "expired": pa.array([each.is_expired for each in found], FLAG),
        "snapshots_behind": pa.array(behind, NUMBER),
    }


def _read_consumers(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    return pa.table(to_consumer_columns(context.metastore.list_consumers(info.table_uuid), info.latest_snapshot_id))


def _read_tags(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    tags = context.metastore.list_tags(info.table_uuid)
    return pa.table(
        {
            "name": pa.array([each.name for each in tags], TEXT),
            "snapshot_id": pa.array([each.snapshot_id for each in tags], NUMBER),
            "committed_at": to_times(each.committed_at_ms for each in tags),
            "rows": pa.array([each.total_rows for each in tags], NUMBER),
            "created_at": to_times(each.created_at_ms for each in tags),
        }
    )


CONSUMERS: Final = OfTable(
    "consumers",
    "Named readers and how far they are: to see which reader is late, or why snapshots do not expire. Empty "
    "for a table without consumers.",
    CONSUMER_COLUMNS,
    read=_read_consumers,
)
TAGS: Final = OfTable(
    "tags",
    "Names of snapshots, which are retained while they have one.",
    (
        Column("name", TEXT, "The tag."),
        Column("snapshot_id", NUMBER, "Its snapshot."),
        Column("committed_at", TIME, "When the snapshot was committed."),
        Column("rows", NUMBER, "The rows in the snapshot's live files, including rows that merging hides."),
        Column("created_at", TIME, "When the tag was made."),
    ),
    read=_read_tags,
)
