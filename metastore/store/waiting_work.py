"""Work that waits in the whole metastore, in numbers for scalers: a part of `metastore.store.transaction`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from lakelog.format.jobs.queue import JobQueue

MAX_NAMED: Final = 50
"""Logs, and consumers of each state, that are named one by one: those that lag most. The rest is in the sums."""

MAX_COUNTED_SNAPSHOTS: Final = 1000
"""The rows of a consumer's lag are counted only up to so many snapshots, as each of them is read for it."""

SILENT_MS: Final = 60_000
"""A reader silent for this long does not read any more: it reports every 15 seconds."""


ConsumerState = Literal["served", "read", "silent"]


@dataclass(frozen=True)
class LogLag:
    """How far a log lags its table.

    Args:
        table: The table's full name.
        snapshots_behind: How many snapshots are not completely published.
        behind_ms: How long ago the first of them was committed; 0: there is none.
        has_problem: The log cannot be published now.
    """

    table: str
    snapshots_behind: int
    behind_ms: int
    has_problem: bool


@dataclass(frozen=True)
class LogLags:
    """How far all logs lag.

    Args:
        lagging_count: Logs with snapshots that are not completely published.
        snapshots: These snapshots of all logs together.
        longest_ms: How long ago the first of them was committed; 0: there is none.
        named: Those with a problem, then those that lag for longest; at most `MAX_NAMED`.
    """

    lagging_count: int = 0
    snapshots: int = 0
    longest_ms: int = 0
    named: tuple[LogLag, ...] = ()


@dataclass(frozen=True)
class ConsumerLag:
    """How far a consumer lags its table.

    Args:
        table: The table's full name.
        consumer_id: The consumer.
        snapshots: How many snapshots it has not done.
        behind_ms: How long ago the first of them was committed; 0: there is none.
        rows: How many rows they added, without those of compactions; None: more snapshots than are counted.
    """

    table: str
    consumer_id: str
    snapshots: int
    behind_ms: int
    rows: int | None


@dataclass(frozen=True)
class ConsumerLags:
    """How far the consumers of one state lag. Those that never did a snapshot have no position, so they do not count.

    Args:
        state: `served`: the reader service reads for them; `read`: another program does, and both have reported within
            a minute; `silent`: no reader has.
        count: How many there are.
        most_snapshots: The most snapshots that one of them has not done.
        longest_ms: How long ago the first snapshot was committed that one of them has not done; 0: there is none.
        named: Those that lag for longest; at most `MAX_NAMED`. Those that do not lag are left out.
    """

    state: ConsumerState
    count: int = 0
    most_snapshots: int = 0
    longest_ms: int = 0
    named: tuple[ConsumerLag, ...] = ()


@dataclass(frozen=True)
class WaitingWork:
    """All of it, as of one moment.

    Args:
        queues: The jobs that are not done, by kind.
        logs: Snapshots that publishers have not done.
        consumers: Snapshots that consumers have not done; one entry for each state that occurs.
    """

    queues: tuple[JobQueue, ...] = ()
    logs: LogLags = LogLags()
    consumers: tuple[ConsumerLags, ...] = ()

    @property
    def has_any(self) -> bool:
        """Whether anything waits, so that its age rises by itself."""
        return (
            any(queue.due_count + queue.resting_count + queue.leased_count for queue in self.queues)
            or self.logs.lagging_count > 0
            or any(lags.most_snapshots for lags in self.consumers)
        )


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

    async def measure_logs(self) -> LogLags:
        """How far the logs of all existing tables lag."""
        ...

    async def measure_consumers(self) -> list[ConsumerLags]:
        """How far the consumers of all existing tables lag, for each state that occurs."""
        ...
