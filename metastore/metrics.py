"""What the metastore measures: every metric name once, with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

Seconds = Literal["commit_latency_seconds", "commit_transaction_seconds", "plan_latency_seconds"]
Counts = Literal[
    "commits_total",
    "conflicts_total",
    "dropped_groups_total",
    "group_failures_total",
    "snapshots_total",
    "added_rows_total",
]
Sizes = Literal["group_size_commits"]
Levels = Literal[
    "live_files",
    "live_rows",
    "live_bytes",
    "last_commit_timestamp_seconds",
    "watchers",
    "waiting_commits",
    "log_lag_snapshots",
    "log_lag_seconds",
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
    "commit_transaction_seconds": "How long a transaction of the gate took in the database, with its repetitions.",
    "plan_latency_seconds": "From the request of a plan to its header.",
    "commits_total": "Commits by outcome: applied, already_applied, empty or refused.",
    "conflicts_total": "Refused commits by reason.",
    "dropped_groups_total": "Groups of compactions that were dropped, by reason.",
    "group_failures_total": "Transactions of the gate that failed, by reason.",
    "snapshots_total": "New snapshots, by kind: append, overwrite or compact.",
    "added_rows_total": "Rows in the files that new snapshots added, by the kind of the snapshot.",
    "group_size_commits": "Commits that shared a transaction.",
    "live_files": "Live files of a table after its last commit, for the tables with the latest commits.",
    "live_rows": "Rows in the live files of a table, before merging, after its last commit.",
    "live_bytes": "Bytes of the live files of a table after its last commit.",
    "last_commit_timestamp_seconds": "When a table was last committed to, by the database's clock.",
    "watchers": "Open watches.",
    "waiting_commits": "Commits that wait at the gate.",
    "log_lag_snapshots": "Snapshots that are not published yet, for the logs that lag most.",
    "log_lag_seconds": "For how long the first snapshot that is not published has been there.",
    "log_problems": "1 while a log cannot be published.",
    "overdue_snapshots": "Snapshots that would have expired if a holder of this kind did not retain them.",
    "jobs": "Jobs of all tables that are not done, by kind and state: due, resting, leased or failed.",
    "oldest_due_seconds": "For how long the oldest job that may be taken has been waiting, by kind; 0: none waits.",
    "lagging_logs": "Logs with snapshots that are not published yet.",
    "publish_lag_snapshots": "Snapshots that are not published yet, of all logs together.",
    "publish_lag_seconds": "For how long the first snapshot that is not published has been there, in the slowest log.",
    "consumers": "Consumers with a position; by state: served by the reader service, read by others, or silent.",
    "consumer_lag_snapshots": "Snapshots that the slowest consumer has not done, by state.",
    "consumer_lag_seconds": "The age of the first snapshot with changes that the slowest consumer has not done.",
    "slow_consumer_snapshots": "Snapshots that a consumer has not done, for those that lag most.",
    "slow_consumer_seconds": "The age of the first snapshot with changes that a consumer has not done.",
    "slow_consumer_rows": "Rows of the snapshots that a consumer has not done; absent for more than 1000 snapshots.",
    "waiting_work_age_seconds": "The age of the figures of jobs, logs and consumers when they were read last.",
}

PREFIX: Final = "lakelog_metastore_"

LABELS: dict[Counts | Levels, list[str]] = {
    "commits_total": ["outcome"],
    "conflicts_total": ["reason"],
    "dropped_groups_total": ["reason"],
    "group_failures_total": ["reason"],
    "snapshots_total": ["kind"],
    "added_rows_total": ["kind"],
    "live_files": ["table"],
    "live_rows": ["table"],
    "live_bytes": ["table"],
    "last_commit_timestamp_seconds": ["table"],
    "log_lag_snapshots": ["table"],
    "log_lag_seconds": ["table"],
    "log_problems": ["table"],
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
"""The labels of counts and levels; the others have none."""

COUNTED_FROM_ZERO: Final[dict[Counts, tuple[str, ...]]] = {
    "commits_total": ("applied", "already_applied", "empty", "refused"),
    "group_failures_total": ("INTERNAL",),
    "snapshots_total": ("append", "overwrite", "compact"),
    "added_rows_total": ("append", "overwrite", "compact"),
}
"""Labels of counts that are there from the start: Prometheus sees no increase from nothing to 1."""

OF_TABLES: Final[tuple[Levels, ...]] = ("live_files", "live_rows", "live_bytes", "last_commit_timestamp_seconds")
"""Levels that a commit sets for its table."""

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
        self._seconds = {
            name: Histogram(PREFIX + name, HELP[name], buckets=_BUCKETS_S, registry=registry)
            for name in get_args(Seconds)
        }
        self._sizes = {
            name: Histogram(PREFIX + name, HELP[name], buckets=_BUCKETS_COMMITS, registry=registry)
            for name in get_args(Sizes)
        }
        self._counts = {
            name: Counter(PREFIX + name, HELP[name], LABELS[name], registry=registry) for name in get_args(Counts)
        }
        # `labels` finds the same children, but more slowly.
        self._counters: dict[tuple[Counts, str], Counter] = {
            (name, label): self._counts[name].labels(label)
            for name, labels in COUNTED_FROM_ZERO.items()
            for label in labels
        }
        self._levels = _Levels()
        registry.register(self._levels)

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
        self._levels.set(name, value, labels)

    def forget(self, name: Levels, *labels: str) -> None:
        """Drops the level of something that no longer exists."""
        self._levels.forget(name, labels)


class _Levels(Collector):
    """The current values of levels; those that are not known are absent.

    SUBTLE: a gauge of the library without labels is 0 from the start. A scaler that sees a 0 while nothing is measured
        removes replicas; it needs an absent figure.
    """

    def __init__(self) -> None:
        self._values: dict[Levels, dict[tuple[str, ...], float]] = {name: {} for name in get_args(Levels)}

    def set(self, name: Levels, value: float, labels: tuple[str, ...]) -> None:
        """Sets a level; of too many, the one that was set longest ago is dropped."""
        values = self._values[name]
        values.pop(labels, None)
        values[labels] = value
        if len(values) > MAX_SERIES:
            del values[next(iter(values))]

    def forget(self, name: Levels, labels: tuple[str, ...]) -> None:
        """Drops a level; a table can be dropped before its first commit has set one."""
        self._values[name].pop(labels, None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """All levels, without values."""
        for name in self._values:
            yield GaugeMetricFamily(PREFIX + name, HELP[name], labels=LABELS.get(name, []))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All levels that are known; called on the thread of the HTTP endpoint."""
        for family, values in zip(self.describe(), self._values.values(), strict=True):
            for labels, value in values.copy().items():
                family.add_metric(labels, value)
            yield family
