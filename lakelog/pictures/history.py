"""The newest snapshots of a table, and who has come how far in them: what several pictures show."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.sdk.tables.table import Table
from lakelog.system_tables.metadata.log_status import LogStatus, load_log_status

MOST_SNAPSHOTS: Final = 2000
"""Snapshots that a picture is made of. More would be less than a dot each, and each is an object here."""


@dataclass(frozen=True)
class History:
    """The newest snapshots of a table.

    Args:
        snapshots: In rising order, at most `MOST_SNAPSHOTS`.
        latest_id: The newest; 0: there is none.
        earlier: How many retained ones there are before these.
    """

    snapshots: tuple[Snapshot, ...]
    latest_id: int
    earlier: int

    def after(self, snapshot_id: int) -> tuple[Snapshot, ...]:
        """Those after a snapshot, as far as they are among these."""
        return self.snapshots[bisect_right(self.snapshots, snapshot_id, key=lambda each: each.snapshot_id) :]

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The one with this id; None: it is not among these."""
        found = self.after(snapshot_id - 1)
        return found[0] if found and found[0].snapshot_id == snapshot_id else None


@dataclass(frozen=True)
class Lag:
    """How far behind the newest snapshot a reader is.

    Args:
        snapshots: How many snapshots it has not done.
        rows: The rows that they added, without those that compactions rewrote.
        age_ms: How long ago the first of them that changed rows was committed; 0: there is none.
        is_least: There are more than were counted, so that rows and age are at least these.
    """

    snapshots: int
    rows: int
    age_ms: int
    is_least: bool = False


def load_history(table: Table, most: int = MOST_SNAPSHOTS) -> History:
    """The newest snapshots whose state can be read."""
    page = table.context.metastore.list_snapshots(table.uuid, limit=most, newest=True)
    found = tuple(each for each in page.snapshots if each.snapshot_id >= page.earliest_snapshot_id)
    earlier = found[0].snapshot_id - page.earliest_snapshot_id if found else 0
    return History(found, page.latest_snapshot_id, max(earlier, 0))


def load_log(table: Table, now_ms: int) -> LogStatus | None:
    """How far the table's log is published; None: it has no log."""
    try:
        return load_log_status(table.context.metastore, [table.uuid], now_ms)[0]
    except NotFound as error:
        if error.reason != "LOG_NOT_FOUND":
            raise
        return None


def measure_lag(history: History, snapshot_id: int, now_ms: int) -> Lag:
    """How far behind a reader is that has done this snapshot. Pure."""
    missing = history.after(snapshot_id)
    changes = [each for each in missing if each.kind is not SnapshotKind.COMPACT]
    count = max(history.latest_id - snapshot_id, 0)
    return Lag(
        count,
        sum(each.added_rows for each in changes),
        max(now_ms - changes[0].committed_at_ms, 0) if changes else 0,
        is_least=count > len(missing),
    )
