"""An overview of all that a caller may see: sums over tables, and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.format.jobs.waiting_work import WaitingWork
from lakelog.format.retention.expiry import OverdueSnapshots

MAX_OVERDUE: Final = 50
"""Overdue snapshots that an overview names."""


@dataclass(frozen=True)
class Overview:
    """Sums over the tables that a caller may read, as of one moment, and what waits, as it was measured last.

    Args:
        database_count: Databases.
        table_count: Tables.
        snapshot_count: Snapshots that were ever committed to them. The difference of two overviews is what was
            committed in between, less what was committed to tables that were dropped.
        total_rows: Rows in live files, including rows that merging hides.
        total_files: Live data files.
        total_bytes: Their size.
        committed_at_ms: When the newest snapshot was committed, in milliseconds since the epoch by the metastore's
            clock; 0: there is none.
        now_ms: The metastore's clock; 0: not known, as the caller may see nothing.
        work: What waits. A caller without a role sees no numbers of jobs, and of logs, consumers and failed jobs only
            those of its tables that are among the worst of all. None: nothing has been measured yet.
        work_age_ms: How long ago that was measured.
        overdue: Snapshots that would have expired without what retains them, the oldest first; at most `MAX_OVERDUE`.
            The metastore that answers looks for them once a minute.
    """

    database_count: int
    table_count: int
    snapshot_count: int
    total_rows: int
    total_files: int
    total_bytes: int
    committed_at_ms: int
    now_ms: int
    work: WaitingWork | None = None
    work_age_ms: int = 0
    overdue: tuple[OverdueSnapshots, ...] = ()
