"""The number of waiting jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobQueue:
    """The jobs of one kind that are not done.

    Args:
        kind: The kind.
        due_count: Jobs that can be taken now; also those whose holder did not report in time.
        resting_count: Jobs that rest after a failure, or are due later.
        leased_count: Jobs in work.
        failed_count: Jobs that failed for good.
        oldest_due_ms: How long the oldest job that can be taken has been waiting; 0: there is none.
    """

    kind: str
    due_count: int
    resting_count: int
    leased_count: int
    failed_count: int
    oldest_due_ms: int


@dataclass(frozen=True)
class PlannedTable:
    """The result of planning for a compactor that was started for a table.

    Args:
        planned_until: Commits up to this snapshot are planned.
        job_count: How many jobs it made due; jobs that waited before are not counted.
    """

    planned_until: int
    job_count: int
