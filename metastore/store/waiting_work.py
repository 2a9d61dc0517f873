"""Work that waits in the whole metastore, in numbers for scalers: a part of `metastore.store.transaction`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lakelog.format.jobs.waiting_work import ConsumerLags, FailedJob, LogLags, WaitingWork

MAX_NAMED: Final = 50
"""Logs, consumers of each state, and failed jobs that are named one by one: the worst. The rest is in the sums."""

MAX_PROBLEM_CHARACTERS: Final = 500
"""Of the problem of a log and the reason of a job."""

MAX_COUNTED_SNAPSHOTS: Final = 1000
"""The rows of a consumer's lag are counted only up to so many snapshots, as each of them is read for it."""

SILENT_MS: Final = 60_000
"""A reader silent for this long does not read any more: it reports every 15 seconds."""


@dataclass(frozen=True)
class MeasuredWork:
    """A measurement that all metastores share.

    Args:
        age_ms: How long ago it was made, by the store's clock; negative: the clock was set back.
        took_ms: How long it took.
        work: The result; None: there is none yet, or another version of the metastore wrote it.
    """

    age_ms: int
    took_ms: int
    work: WaitingWork | None


class WaitingWorkTransaction(Protocol):
    """Measures what waits, and stores one measurement for all metastores."""

    async def find_measured_work(self) -> MeasuredWork:
        """The last measurement."""
        ...

    async def lock_measured_work(self) -> MeasuredWork | None:
        """As `find_measured_work`; no one else measures before the transaction ends. None: another one does now."""
        ...

    async def put_measured_work(self, took_ms: int, work: WaitingWork) -> None:
        """Replaces the last measurement, which is locked, and records the time."""
        ...

    async def list_failed_jobs(self) -> list[FailedJob]:
        """The jobs of existing tables that failed last; at most `MAX_NAMED`."""
        ...

    async def measure_logs(self) -> LogLags:
        """How far the logs of all existing tables lag."""
        ...

    async def measure_consumers(self) -> list[ConsumerLags]:
        """How far the consumers of all existing tables lag, for each state that occurs."""
        ...
