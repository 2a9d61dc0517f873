"""How many jobs wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobQueue:
    """The jobs of one kind that are not done.

    Args:
        kind: Which one.
        due_count: May be taken now; also those whose holder was not heard of in time.
        resting_count: Rest after a failure, or are due later.
        leased_count: Are being done.
        failed_count: Failed for good.
        oldest_due_ms: For how long the oldest of those that may be taken has been waiting; 0: there is none.
    """

    kind: str
    due_count: int
    resting_count: int
    leased_count: int
    failed_count: int
    oldest_due_ms: int


@dataclass(frozen=True)
class PlannedTable:
    """What was planned for a compactor that was started for a table.

    Args:
        planned_until: Up to this snapshot.
        job_count: How many jobs it made due; those that waited before are not counted.
    """

    planned_until: int
    job_count: int
