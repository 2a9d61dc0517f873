"""The bounds of what one request, and all requests together, may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds that keep the service within its memory, whatever is requested.

    Args:
        max_commit_files: Files that one commit may add; a full bulk load of a large table fits.
        max_commit_tables: Tables of one commit.
        max_waiting_commits: Commits that wait at the gate, all tables together.
        max_waiting_files: Files of the commits that wait at the gate.
        max_group_commits: Commits that share a transaction; beyond this a group only adds latency.
        max_group_files: Files of the commits that share a transaction.
        max_parallel_groups: Transactions of the gate at once; each takes a connection.
        max_parallel_plans: Plans that look files up at once; each takes a connection meanwhile.
        max_range_snapshots: Snapshots of one incremental plan.
        watch_lag_snapshots: How far a watcher that was up to date may fall behind before its watch is ended.
        max_watched_tables: Tables of one watch.
        max_requested_jobs: Jobs that one request makes due.
        max_services: Service processes that are listed.
        chunk_cache_bytes: Packed entries kept in memory.
    """

    max_commit_files: int = 100_000
    max_commit_tables: int = 256
    max_waiting_commits: int = 10_000
    max_waiting_files: int = 1_000_000
    max_group_commits: int = 256
    max_group_files: int = 20_000
    max_parallel_groups: int = 6
    max_parallel_plans: int = 8
    max_range_snapshots: int = 100_000
    watch_lag_snapshots: int = 10_000
    max_watched_tables: int = 1000
    max_requested_jobs: int = 4000
    max_services: int = 1000
    chunk_cache_bytes: int = 256 << 20
