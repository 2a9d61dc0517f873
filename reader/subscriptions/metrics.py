"""What the service measures: every metric name once, with a sentence."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge


class SubscriptionMetrics:
    """Measurements under `lakelog_reader_*`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.subscriptions: Final = Gauge(
            "lakelog_reader_subscriptions", "Subscriptions that are open.", registry=registry
        )
        self.opened: Final = Counter(
            "lakelog_reader_subscriptions_opened",
            "Subscriptions that were opened, those that came back included.",
            registry=registry,
        )
        self.ended: Final = Counter(
            "lakelog_reader_subscriptions_ended",
            "Subscriptions that ended: by the client, or by the error of this kind.",
            ["outcome"],
            registry=registry,
        )
        self.refused: Final = Counter(
            "lakelog_reader_subscriptions_refused", "Subscriptions for which there was no room.", registry=registry
        )
        self.batches: Final = Counter("lakelog_reader_batches", "Messages with rows that were sent.", registry=registry)
        self.rows: Final = Counter("lakelog_reader_rows", "Rows that were sent.", registry=registry)
        self.sent_bytes: Final = Counter(
            "lakelog_reader_sent_bytes", "Bytes of rows that were sent.", registry=registry
        )
        self.untaken_bytes: Final = Gauge(
            "lakelog_reader_untaken_bytes", "Bytes that clients have not taken yet, of all together.", registry=registry
        )
        self.lag_snapshots: Final = Gauge(
            "lakelog_reader_lag_snapshots",
            "Snapshots that the subscription furthest behind has not been sent yet.",
            registry=registry,
        )
