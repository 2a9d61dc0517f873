"""What streams measure: every metric name once, with a sentence."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge


class StreamMetrics:
    """Measurements under `lakelog_reader_stream_*`, each labelled with the stream."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.running: Final = self._gauge("running", "1 while this instance holds the stream's lease and runs it.")
        self.last_batch_id: Final = self._gauge("last_batch_id", "The last batch that its sink took.")
        self.snapshot_id: Final = self._gauge("snapshot_id", "The last snapshot that its sink has all of.")
        self.lag_snapshots: Final = self._gauge(
            "lag_snapshots", "Snapshots after the last one that its sink has all of, by the last report."
        )
        self.batches: Final = self._counter("batches", "Batches that the sink took in this process.")
        self.rows: Final = self._counter("rows", "Rows that were read in this process.")
        self.last_batch_timestamp: Final = self._gauge(
            "last_batch_timestamp_seconds", "When its sink took the last batch in this process."
        )
        self.failures: Final = self._counter("failures", "Batches that failed and were repeated.")

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"lakelog_reader_stream_{name}", what, ["stream"], registry=self.registry)

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(f"lakelog_reader_stream_{name}", what, ["stream"], registry=self.registry)
