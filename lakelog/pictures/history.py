"""The newest snapshots of a table, and who has come how far in them: what several pictures show."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound
from lakelog.format.retention.lag import Lag, measure_lag
from lakelog.format.tables.snapshot import Snapshot
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

    def measure_lag(self, snapshot_id: int, now_ms: int) -> Lag:
        """How far behind a reader is that has done this snapshot.

        Args:
            snapshot_id: What it has done.
            now_ms: The metastore's clock.
        """
        return measure_lag(self.after(snapshot_id), max(self.latest_id - snapshot_id, 0), now_ms)


def load_history(table: Table, most: int = MOST_SNAPSHOTS) -> History:
    """The newest snapshots whose state can be read."""
    page = table.context.metastore.list_snapshots(table.uuid, limit=most, newest=True)
    found = tuple(each for each in page.snapshots if each.snapshot_id >= page.earliest_snapshot_id)
    earlier = found[0].snapshot_id - page.earliest_snapshot_id if found else 0
    return History(found, page.latest_snapshot_id, max(earlier, 0))


def load_now_ms(table: Table) -> int:
    """The metastore's clock, which dates snapshots; that of this machine where it is not known."""
    return table.context.metastore.get_overview().now_ms or table.context.clock.now_ms()


def load_log(table: Table, now_ms: int) -> LogStatus | None:
    """How far the table's log is published; None: it has no log."""
    try:
        return load_log_status(table.context.metastore, [table.uuid], now_ms)[0]
    except NotFound as error:
        if error.reason != "LOG_NOT_FOUND":
            raise
        return None
