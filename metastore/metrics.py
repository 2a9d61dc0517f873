"""What the metastore measures: every metric name once, with a sentence."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Final, Literal, Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Seconds = Literal["commit_latency_seconds", "plan_latency_seconds"]
Counts = Literal["commits_total", "conflicts_total", "dropped_groups_total", "group_failures_total"]
Sizes = Literal["group_size_commits"]
Levels = Literal[
    "live_files",
    "watchers",
    "waiting_commits",
    "log_snapshots_behind",
    "log_behind_seconds",
    "log_problems",
    "overdue_snapshots",
    "jobs",
    "oldest_due_seconds",
    "lagging_logs",
    "publish_lag_snapshots",
    "publish_lag_seconds",
    "consumers",
    "consumer_lag_snapshots",
    "consumer_lag_seconds",
    "slow_consumer_snapshots",
    "slow_consumer_seconds",
    "slow_consumer_rows",
    "waiting_work_age_seconds",
]

HELP: dict[str, str] = {
    "commit_latency_seconds": "From the arrival of a commit at the gate to its verdict.",
    "plan_latency_seconds": "From the request of a plan to its header.",
    "commits_total": "Commits by outcome: applied, already_applied, empty or refused.",
    "conflicts_total": "Refused commits by reason.",
    "dropped_groups_total": "Groups of compactions that were dropped, by reason.",
    "group_failures_total": "Transactions of the gate that failed, by reason.",
    "group_size_commits": "Commits that shared a transaction.",
    "live_files": "Files that are live in the table that committed last, by table.",
    "watchers": "Open watches.",
    "waiting_commits": "Commits that wait at the gate.",
    "log_snapshots_behind": "Snapshots that are not published yet, by table, for the logs that lag most.",
    "log_behind_seconds": "For how long the first of them has been there, by table.",
    "log_problems": "1 while a log cannot be published, by table.",
    "overdue_snapshots": "Snapshots that would have expired if nothing retained them, by table and holder.",
    "jobs": "Jobs of all tables that are not done, by kind and state: due, resting, leased or failed.",
    "oldest_due_seconds": "For how long the oldest job that may be taken has been waiting, by kind; 0: none waits.",
    "lagging_logs": "Logs with snapshots that are not published yet.",
    "publish_lag_snapshots": "Snapshots that are not published yet, of all logs together.",
    "publish_lag_seconds": "For how long the first of them has been there, in the log that lags most.",
    "consumers": "Consumers with a position; by state: served by the reader service, read by others, or silent.",
    "consumer_lag_snapshots": "Snapshots that the slowest consumer has not done, by state.",
    "consumer_lag_seconds": "For how long the first of them has been there, for the consumer that lags longest.",
    "slow_consumer_snapshots": "Snapshots that a consumer has not done, for those that lag most.",
    "slow_consumer_seconds": "For how long the first of them has been there.",
    "slow_consumer_rows": "The rows that they added; absent for more than 1000 snapshots.",
    "waiting_work_age_seconds": "The age of the figures of jobs, logs and consumers when they were read last.",
}

_LABELS: dict[Levels, list[str]] = {
    "overdue_snapshots": ["table", "kind", "holder"],
    "jobs": ["kind", "state"],
    "oldest_due_seconds": ["kind"],
    "consumers": ["state"],
    "consumer_lag_snapshots": ["state"],
    "consumer_lag_seconds": ["state"],
    "slow_consumer_snapshots": ["table", "consumer", "state"],
    "slow_consumer_seconds": ["table", "consumer", "state"],
    "slow_consumer_rows": ["table", "consumer", "state"],
}
"""Levels whose labels differ from the usual one."""

MAX_SERIES: Final = 1000
"""Label values of one level; beyond, the one that was set longest ago is dropped. Prometheus keeps each for weeks."""

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_BUCKETS_COMMITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics(Protocol):
    """Where measurements go. Calls never block and never raise."""

    def observe_seconds(self, name: Seconds, seconds: float) -> None:
        """Records one duration."""
        ...

    def observe_size(self, name: Sizes, size: int) -> None:
        """Records one size."""
        ...

    def count(self, name: Counts, label: str, times: int = 1) -> None:
        """Counts something under a label, which comes from a small set."""
        ...

    def set_level(self, name: Levels, value: float, *labels: str) -> None:
        """Records the current value of a level."""
        ...

    def forget(self, name: Levels, *labels: str) -> None:
        """Drops the level of something that no longer exists."""
        ...


class NoMetrics:
    """Measures nothing."""

    def observe_seconds(self, name: Seconds, seconds: float) -> None:
        """Does nothing."""

    def observe_size(self, name: Sizes, size: int) -> None:
        """Does nothing."""

    def count(self, name: Counts, label: str, times: int = 1) -> None:
        """Does nothing."""

    def set_level(self, name: Levels, value: float, *labels: str) -> None:
        """Does nothing."""

    def forget(self, name: Levels, *labels: str) -> None:
        """Does nothing."""


class PrometheusMetrics:
    """Measurements for Prometheus, under `lakelog_metastore_<name>`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "lakelog_metastore_"
        self._seconds = {
            name: Histogram(prefix + name, HELP[name], buckets=_BUCKETS_S, registry=registry)
            for name in get_args(Seconds)
        }
        self._sizes = {
            name: Histogram(prefix + name, HELP[name], buckets=_BUCKETS_COMMITS, registry=registry)
            for name in get_args(Sizes)
        }
        self._counts = {
            name: Counter(prefix + name, HELP[name], ["kind"], registry=registry) for name in get_args(Counts)
        }
        # `labels` finds the same children, but more slowly. Levels are not cached: a forgotten one would be set in
        # vain.
        self._counters: dict[tuple[Counts, str], Counter] = {}
        self._levels = {
            name: Gauge(prefix + name, HELP[name], _LABELS.get(name, ["of"]), registry=registry)
            for name in get_args(Levels)
        }
        self._recent: dict[Levels, OrderedDict[tuple[str, ...], None]] = {name: OrderedDict() for name in self._levels}

    def observe_seconds(self, name: Seconds, seconds: float) -> None:
        """Records one duration."""
        self._seconds[name].observe(seconds)

    def observe_size(self, name: Sizes, size: int) -> None:
        """Records one size."""
        self._sizes[name].observe(size)

    def count(self, name: Counts, label: str, times: int = 1) -> None:
        """Counts something under a label, which comes from a small set."""
        counter = self._counters.get((name, label))
        if counter is None:
            counter = self._counters[name, label] = self._counts[name].labels(label)
        counter.inc(times)

    def set_level(self, name: Levels, value: float, *labels: str) -> None:
        """Records the current value of a level."""
        labels = labels or ("",)
        recent = self._recent[name]
        recent[labels] = None
        recent.move_to_end(labels)
        if len(recent) > MAX_SERIES:
            self.forget(name, *next(iter(recent)))
        self._levels[name].labels(*labels).set(value)

    def forget(self, name: Levels, *labels: str) -> None:
        """Drops the level of something that no longer exists."""
        # A table can be dropped before its first commit has set a level.
        labels = labels or ("",)
        self._recent[name].pop(labels, None)
        with suppress(KeyError):
            self._levels[name].remove(*labels)
