"""What became of a job at one of the times that it was done."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class RunResult(enum.Enum):
    """How a run ended."""

    DONE = "done"
    """Well."""
    GIVEN_BACK = "given back"
    """Its compactor was stopped, and left the rest to another."""
    FAILED = "failed"
    """With an error, which its message says."""
    LOST = "lost"
    """Its compactor stopped reporting: it was killed, or lost its connection."""


@dataclass(frozen=True)
class JobRun:
    """A run of a job. Times are in milliseconds by the database's clock.

    Runs that found nothing to do are not recorded.

    Args:
        run_id: Rises with the end of runs.
        job_id: The job.
        table_uuid: The table.
        table: Its name as `database.table`.
        kind: What was to be done.
        scope: The part of the table; empty: all of it.
        epoch: Of the lease under which it was done.
        holder: The process that did it.
        started_at_ms: When it was taken; 0: it is not known.
        ended_at_ms: When it ended; of a lost one, when its deadline passed.
        result: How it ended.
        message: What was done, or why it failed.
    """

    run_id: int
    job_id: int
    table_uuid: str
    table: str
    kind: str
    scope: str
    epoch: int
    holder: str
    started_at_ms: int
    ended_at_ms: int
    result: RunResult
    message: str

    @property
    def duration_ms(self) -> int | None:
        """How long it took; None: it is not known."""
        return max(self.ended_at_ms - self.started_at_ms, 0) if self.started_at_ms else None
