"""What the service measures: every name once, with a sentence."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Measurements under `lakelog_compactor_*`."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"lakelog_compactor_{name}", what, labels, registry=self.registry)

        self.working: Final = Gauge("lakelog_compactor_working", "1 while a job is being done.", registry=self.registry)
        self.jobs: Final = counter(
            "jobs", "Jobs that ended, by kind and how: finished, failed, lost or unanswered.", "kind", "ending"
        )
        self.takeovers: Final = counter("takeovers", "Jobs taken over from somebody who was not heard of.", "kind")
        self.snapshots: Final = counter("changelog_snapshots", "Snapshots whose changelog was attached.")
        self.rows: Final = counter("changelog_rows", "Rows of changelogs that were attached.")
        self.size_bytes: Final = counter("changelog_bytes", "Bytes of changelog files that were attached.")
        self.compacted_bytes: Final = counter(
            "compacted_bytes", "Bytes of data files that compactions have read and written.", "direction"
        )
        self.moved_files: Final = counter("moved_files", "Files that got another level without being rewritten.")
        self.dropped: Final = counter(
            "dropped_parts", "Parts of compactions that others came before, by reason.", "reason"
        )
        self.expired_snapshots: Final = counter("expired_snapshots", "Snapshots that expired by themselves.")
        self.expired_partitions: Final = counter("expired_partitions", "Partitions that were removed for their age.")
        self.deleted_files: Final = counter("deleted_files", "Files that were deleted, by the kind of job.", "kind")
        self.deleted_bytes: Final = counter("deleted_bytes", "Bytes of these files.", "kind")
        self.job_seconds: Final = Histogram(
            "lakelog_compactor_job_seconds",
            "From taking a job to its end.",
            ["kind"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
