"""Waiting work as metrics: sums without names, and by name only what lags most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args

from lakelog.format.jobs.job import CHANGELOG, CLEAN, COMPACT, DELETION_VECTORS, EXPIRE, EXPIRE_PARTITIONS, PURGE
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import ConsumerLags, ConsumerState, LogLags, WaitingWork

from ..metrics import Levels, Metrics

_KINDS: Final = (CHANGELOG, COMPACT, DELETION_VECTORS, EXPIRE, CLEAN, EXPIRE_PARTITIONS, PURGE)
"""Kinds are shown also while they have no jobs: a scaler needs a 0, not an absent metric."""

_STATES: Final[tuple[ConsumerState, ...]] = get_args(ConsumerState)

_Found = tuple[Levels, tuple[str, ...], float]


def list_levels(work: WaitingWork, age_ms: int) -> Iterator[_Found]:
    """The metrics, their labels and values. Pure."""
    yield "waiting_work_age_seconds", (), age_ms / 1000
    found = {kind: JobQueue(kind, 0, 0, 0, 0, 0) for kind in _KINDS} | {queue.kind: queue for queue in work.queues}
    for kind, queue in found.items():
        yield "jobs", (kind, "due"), queue.due_count
        yield "jobs", (kind, "resting"), queue.resting_count
        yield "jobs", (kind, "leased"), queue.leased_count
        yield "jobs", (kind, "failed"), queue.failed_count
        yield "oldest_due_seconds", (kind,), queue.oldest_due_ms / 1000
    yield from _list_logs(work.logs)
    lags = {state: ConsumerLags(state) for state in _STATES} | {each.state: each for each in work.consumers}
    for each in lags.values():
        yield from _list_consumers(each)


def _list_logs(logs: LogLags) -> Iterator[_Found]:
    yield "lagging_logs", (), logs.lagging_count
    yield "publish_lag_snapshots", (), logs.snapshots
    yield "publish_lag_seconds", (), logs.longest_ms / 1000
    for lag in logs.named:
        yield "log_lag_snapshots", (lag.table,), lag.snapshots_behind
        yield "log_lag_seconds", (lag.table,), lag.behind_ms / 1000
        yield "log_problems", (lag.table,), int(lag.has_problem)


def _list_consumers(lags: ConsumerLags) -> Iterator[_Found]:
    state = lags.state
    yield "consumers", (state,), lags.count
    yield "consumer_lag_snapshots", (state,), lags.most_snapshots
    yield "consumer_lag_seconds", (state,), lags.longest_ms / 1000
    for lag in lags.named:
        labels = (lag.table, lag.consumer_id, state)
        yield "slow_consumer_snapshots", labels, lag.snapshots
        yield "slow_consumer_seconds", labels, lag.behind_ms / 1000
        if lag.rows is not None:
            yield "slow_consumer_rows", labels, lag.rows


class WorkLevels:
    """Sets these metrics, and drops those of what is no longer named."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._shown: set[tuple[Levels, tuple[str, ...]]] = set()

    def show(self, work: WaitingWork, age_ms: int) -> None:
        """Shows a measurement."""
        shown = set()
        for name, labels, value in list_levels(work, age_ms):
            self._metrics.set_level(name, value, *labels)
            shown.add((name, labels))
        self._forget(self._shown - shown)
        self._shown = shown

    def clear(self) -> None:
        """Shows nothing any more."""
        self._forget(self._shown)
        self._shown = set()

    def _forget(self, gone: set[tuple[Levels, tuple[str, ...]]]) -> None:
        for name, labels in gone:
            self._metrics.forget(name, *labels)
