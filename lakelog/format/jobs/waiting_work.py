"""What waits in the whole metastore: jobs, snapshots that logs lag behind, snapshots that consumers have not done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakelog.format.jobs.queue import JobQueue

ConsumerState = Literal["served", "read", "silent"]


@dataclass(frozen=True)
class LogLag:
    """How far a log lags its table.

    Args:
        table: The table's full name.
        snapshots_behind: How many snapshots are not completely published.
        behind_ms: How long ago the first of them was committed; 0: there is none.
        has_problem: The log cannot be published now.
        problem: Why, cut to 500 characters; empty: there is none, or it is not known.
    """

    table: str
    snapshots_behind: int
    behind_ms: int
    has_problem: bool
    problem: str = ""


@dataclass(frozen=True)
class LogLags:
    """How far all logs lag.

    Args:
        lagging_count: Logs with snapshots that are not completely published.
        snapshots: These snapshots of all logs together.
        longest_ms: How long ago the first of them was committed; 0: there is none.
        named: Those with a problem, then those that lag for longest; at most 50.
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
        behind_ms: How long ago the first of them that brings changes was committed; 0: there is none.
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
        longest_ms: How long ago the first snapshot with changes that one of them has not done was committed; 0: there
            is none.
        named: Those that lag for longest; at most 50. Those that do not lag are left out.
    """

    state: ConsumerState
    count: int = 0
    most_snapshots: int = 0
    longest_ms: int = 0
    named: tuple[ConsumerLag, ...] = ()


@dataclass(frozen=True)
class FailedJob:
    """A job that has failed for good.

    Args:
        job_id: Its number, for `lakelog jobs retry`.
        table: The table's full name.
        kind: What was to be done.
        reason: Why it failed last, cut to 500 characters.
        failed_ms: How long ago.
    """

    job_id: int
    table: str
    kind: str
    reason: str
    failed_ms: int


@dataclass(frozen=True)
class WaitingWork:
    """All of it, as of one moment.

    Args:
        queues: The jobs that are not done, by kind.
        failed_jobs: Those that failed for good, the latest first; at most 50.
        logs: Snapshots that publishers have not done.
        consumers: Snapshots that consumers have not done; one entry for each state that occurs.
    """

    queues: tuple[JobQueue, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()
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
