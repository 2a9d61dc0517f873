"""Dropped tables: kept for a while, restored or purged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from lakelog.errors import NotFound
from lakelog.format.tables.table import TableInfo, TableName


@dataclass(frozen=True)
class DroppedTable:
    """A table that was dropped and is still known. Times are in milliseconds by the database's clock.

    Args:
        table_uuid: The table.
        name: Its former name.
        location: Where its files are; ends with a slash.
        dropped_at_ms: When it was dropped.
        kept_until_ms: Until then it can certainly be restored.
        is_purged: Its files are being deleted, or soon will be: it can no longer be restored.
    """

    table_uuid: str
    name: TableName
    location: str
    dropped_at_ms: int
    kept_until_ms: int
    is_purged: bool


@dataclass(frozen=True)
class RestoredTable:
    """A table that was restored.

    Args:
        table: The table in its current state.
        dropped_at_ms: When it had been dropped.
        others: How many further dropped tables of its former name can be restored.
    """

    table: TableInfo
    dropped_at_ms: int
    others: int


def dropped_error(dropped: DroppedTable) -> NotFound:
    """The error for a request to a dropped table. Pure."""
    return NotFound(
        f"Table {dropped.name} ({dropped.table_uuid}) was dropped at {show_time(dropped.dropped_at_ms)}. "
        f"{how_to_restore(dropped)}",
        reason="TABLE_NOT_FOUND",
        metadata={
            "table": str(dropped.name),
            "table_uuid": dropped.table_uuid,
            "dropped_at_ms": str(dropped.dropped_at_ms),
            "restorable": "false" if dropped.is_purged else "true",
        },
    )


def how_to_restore(dropped: DroppedTable) -> str:
    """A sentence on how to restore a dropped table, if this is possible. Pure."""
    if dropped.is_purged:
        return "It is kept no longer and cannot be restored."
    return (
        f"Until {show_time(dropped.kept_until_ms)} it can be restored: lakelog table restore {dropped.name} --uuid "
        f"{dropped.table_uuid} (in Python catalog.restore_table)."
    )


def show_time(time_ms: int) -> str:
    """A time for people, to the second. Pure."""
    return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
