"""What a pipeline measures: every metric name once, with a sentence."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Measurements under `lakelog_writer_*`, labelled with the pipeline.

    Args:
        pipeline: The pipeline's name.
        unit: The unit of its source: `files` or `records`.
    """

    def __init__(self, pipeline: str, unit: str) -> None:
        self.registry: Final = CollectorRegistry()

        def gauge(name: str, what: str) -> Gauge:
            made: Gauge = Gauge(f"lakelog_writer_{name}", what, ["pipeline"], registry=self.registry)
            return made.labels(pipeline)

        def counter(name: str, what: str) -> Counter:
            made: Counter = Counter(f"lakelog_writer_{name}", what, ["pipeline"], registry=self.registry)
            return made.labels(pipeline)

        self.running: Final = gauge("running", "1 while the pipeline holds its lease and reads.")
        self.last_batch_id: Final = gauge("last_batch_id", "The last batch that was committed.")
        self.lag: Final = gauge(f"lag_{unit}", f"{unit.capitalize()} that waited when the last batch was planned.")
        self._partition_lag: Final = Gauge(
            "lakelog_writer_partition_lag_records",
            "Records of a partition of a topic that waited when the last batch was planned.",
            ["pipeline", "topic", "partition"],
            registry=self.registry,
        )
        self._pipeline: Final = pipeline
        self.taken: Final = counter(f"taken_{unit}", f"{unit.capitalize()} that batches of this process have read.")
        self.rows: Final = counter("rows", "Rows that this process has committed.")
        self.dead_letters: Final = counter("dead_letters", "Records that batches of this process have set aside.")
        self.ignored_columns: Final = gauge(
            "ignored_columns", "Columns that the last batch had and the table has not (schema.evolution: ignore)."
        )
        self.changed_files: Final = gauge("changed_files", "Files that changed after they were read.")
        self.last_batch_timestamp: Final = gauge(
            "last_batch_timestamp_seconds", "When this process has committed the last batch."
        )
        self.batches: Final = counter("batches", "Batches committed by this process.")
        self.failures: Final = counter("failures", "Batches of this process that failed and were tried again.")
        seconds: Histogram = Histogram(
            "lakelog_writer_batch_seconds",
            "From a batch's beginning to its commit.",
            ["pipeline"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.batch_seconds: Final = seconds.labels(pipeline)

    def set_partition_lag(self, topic: str, partition: int, lag: int) -> None:
        """Sets how much waits in a partition of a topic."""
        self._partition_lag.labels(self._pipeline, topic, str(partition)).set(lag)
