"""What a store does for runs of jobs: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.jobs.job_run import JobRun, RunResult

from .grants import Readable


@dataclass(frozen=True)
class RunEnd:
    """How a job's holder ended it; the store knows the rest of the run.

    Args:
        result: How.
        message: What was done, or why it failed.
    """

    result: RunResult
    message: str


@dataclass(frozen=True)
class RunFilter:
    """Which runs are listed: those for which all that is given holds.

    Args:
        table_uuids: Of these tables; empty: of all.
        job_id: Of this job; 0: of all.
        kinds: Of jobs of these kinds; empty: of all.
        results: That ended so; empty: however they ended.
        readable: Of tables that the caller may read; None: of all.
    """

    table_uuids: Sequence[str] = ()
    job_id: int = 0
    kinds: Sequence[str] = ()
    results: Sequence[RunResult] = ()
    readable: Readable | None = None


class JobRunTransaction(Protocol):
    """Runs of jobs. Taking a job over and ending it record them."""

    async def list_job_runs(self, wanted: RunFilter, before: int, limit: int) -> list[JobRun]:
        """The newest runs with a lower id, the newest first; 0: with any id."""
        ...

    async def forget_old_runs(self, after: str, most: int, age_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes old runs of the next `limit` tables after one: those of an age, and all but the newest ones.

        Of runs that ended badly as many are kept as of the others.

        Returns:
            The last of these tables, or an empty text after the last one of all; and the ids of the removed runs.
        """
        ...
