"""What the publisher measures: every metric name once, with a sentence."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .publisher import Published, TablePublisher

_MAX_GONE: Final = 100
"""Tables without a publisher here whose counters stay, for Prometheus to see their last counts."""

_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class PublisherMetrics:
    """Measurements under `lakelog_publisher_*`, by table."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"lakelog_publisher_{name}", what, ["table", *labels], registry=self.registry)

        self.tables: Final = Gauge(
            "lakelog_publisher_tables", "Tables that this process publishes.", registry=self.registry
        )
        self.replicas: Final = Gauge(
            "lakelog_publisher_replicas", "Publishers that share the tables, this one included.", registry=self.registry
        )
        self.published_snapshot: Final = Gauge(
            "lakelog_publisher_published_snapshot", "The last snapshot in the log.", ["table"], registry=self.registry
        )
        self.waiting_snapshots: Final = Gauge(
            "lakelog_publisher_waiting_snapshots",
            "Snapshots that have come and are not in the log.",
            ["table"],
            registry=self.registry,
        )
        self.hanging_calls: Final = Gauge(
            "lakelog_publisher_hanging_calls",
            "Calls of brokers that were given up and have not returned; each keeps a thread and a client.",
            registry=self.registry,
        )
        self.visibility_delay: Final = Histogram(
            "lakelog_publisher_visibility_delay_seconds",
            "From the commit of a snapshot, by the database's clock, until all its records are visible in the log.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.failures: Final = counter("failures", "Steps that failed, by reason.", "reason")
        self._totals: Final = {
            "producer_reinits": counter(
                "producer_reinits",
                "New producers: after a start, an idle time, or whenever a record could be sent twice.",
            ),
            "transactions": counter("transactions", "Transactions that were committed."),
            "snapshots": counter("snapshots", "Snapshots that were published as a whole."),
            "records": counter("records", "Records that were sent, those of transactions that failed included."),
            "size_bytes": counter("bytes", "Bytes of keys and values that were sent."),
        }
        self._seen: dict[str, Published] = {}
        # The one that went first comes first.
        self._gone: dict[str, None] = {}

    def show(self, table: str, publisher: TablePublisher) -> None:
        """Shows the progress of a table."""
        self._gone.pop(table, None)
        self.published_snapshot.labels(table).set(publisher.position.snapshot_id)
        self.waiting_snapshots.labels(table).set(publisher.waiting_count)
        now, before = Published(**vars(publisher.published)), self._seen.get(table, Published())
        for name, total in self._totals.items():
            total.labels(table).inc(max(0, getattr(now, name) - getattr(before, name)))
        self._seen[table] = now

    def failed(self, table: str, reason: str) -> None:
        """Counts a step that failed."""
        self.failures.labels(table, reason).inc()

    def forget(self, table: str) -> None:
        """Removes a table that another publisher publishes; its counters, once many others have gone after it."""
        self._seen.pop(table, None)
        for gauge in (self.published_snapshot, self.waiting_snapshots):
            gauge.remove(table)
        self._gone[table] = None
        while len(self._gone) > _MAX_GONE:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            for counter in (self.failures, *self._totals.values()):
                counter.remove_by_labels({"table": oldest})
