"""What the publisher measures and logs about snapshots that it has published."""

from __future__ import annotations

from lakelog.format.tables.snapshot import Snapshot
from lakelog.serving.logging_setup import Logger
from lakelog.tracing import spans
from lakelog.tracing.tracer import PastSpan

from .metrics import PublisherMetrics
from .published import PublishedSnapshots


class PublishedNotes:
    """Notes what was published.

    Args:
        metrics: The measurements.
        log: The service's log.
    """

    def __init__(self, metrics: PublisherMetrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log

    def note(self, published: PublishedSnapshots) -> None:
        """Notes the snapshots of a transaction."""
        snapshots = published.snapshots
        for snapshot in snapshots:
            # The database and the publisher have clocks of their own.
            delay_ms = max(0, published.ended_ms - snapshot.committed_at_ms)
            self._metrics.visibility_delay.observe(delay_ms / 1000)
            self._trace(published, snapshot)
        self._log.info(
            "published",
            table=str(published.info.name),
            first_snapshot=snapshots[0].snapshot_id,
            last_snapshot=snapshots[-1].snapshot_id,
        )

    def _trace(self, published: PublishedSnapshots, snapshot: Snapshot) -> None:
        parent = snapshot.properties.get(spans.TRACE_PROPERTY, "")
        if not parent:
            return
        attributes: dict[str, str | int] = {
            "table": str(published.info.name),
            "snapshot": snapshot.snapshot_id,
            # Each record of the snapshot has it in a header.
            "uuid": snapshot.snapshot_uuid,
            "messaging.system": "kafka",
            "messaging.destination.name": published.info.topic,
        }
        spans.record(PastSpan("publish", parent, published.began_ms, published.ended_ms, "producer", attributes))
