"""What the service measures: every metric name once, with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lakelog.format.jobs.queue import JobQueue

_BUCKETS_RUNS: Final = (1, 2, 3, 5, 8, 12, 20, 50, 100, 500)
_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Measurements under `lakelog_compactor_*`."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"lakelog_compactor_{name}", what, labels, registry=self.registry)

        self.working: Final = Gauge("lakelog_compactor_working", "1 while a job is being done.", registry=self.registry)
        self.jobs: Final = counter(
            "jobs", "Jobs that ended, by kind and how: finished, failed, lost or unanswered.", "kind", "outcome"
        )
        self.takeovers: Final = counter("takeovers", "Jobs taken over from a holder that stopped reporting.", "kind")
        self.snapshots: Final = counter("changelog_snapshots", "Snapshots whose changelog was attached.")
        self.rows: Final = counter("changelog_rows", "Rows of changelogs that were attached.")
        self.changelog_delay: Final = Histogram(
            "lakelog_compactor_changelog_delay_seconds",
            "From the commit of a snapshot, by the database's clock, until its changelog is attached.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.size_bytes: Final = counter("changelog_bytes", "Bytes of changelog files that were attached.")
        self.compacted_bytes: Final = counter(
            "compacted_bytes", "Bytes of data files that compactions have read and written.", "direction"
        )
        self.new_bytes: Final = counter(
            "new_bytes", "Bytes of data files that a compaction has taken for the first time, as writers wrote them."
        )
        self.write_amplification: Final = Gauge(
            "lakelog_compactor_write_amplification",
            "How often bytes were written that this process has compacted: once by writers, the rest by compactions.",
            registry=self.registry,
        )
        self.write_amplification.set(1)
        self.sorted_runs: Final = Histogram(
            "lakelog_compactor_sorted_runs",
            "Sorted runs of a bucket when its compaction was planned.",
            buckets=_BUCKETS_RUNS,
            registry=self.registry,
        )
        self.queued_jobs: Final = Gauge(
            "lakelog_compactor_queued_jobs",
            "Jobs of all tables that are not done, by kind and state: due, resting, leased or failed.",
            ["kind", "state"],
            registry=self.registry,
        )
        self.oldest_due: Final = Gauge(
            "lakelog_compactor_oldest_due_seconds",
            "For how long the oldest job that may be taken has been waiting, by kind; 0: none waits.",
            ["kind"],
            registry=self.registry,
        )
        self.moved_files: Final = counter("moved_files", "Files that got another level without being rewritten.")
        self.vector_files: Final = counter("vector_files", "Files that got a deletion vector later.")
        self.dropped: Final = counter(
            "dropped_parts",
            "Parts of compactions and deletion vector builds that others came before, by reason.",
            "reason",
        )
        self.deleted_files: Final = counter("deleted_files", "Files that were deleted, by the kind of job.", "kind")
        self.left_files: Final = counter(
            "left_files", "Files that could not be deleted and were left for a later try, by the kind of job.", "kind"
        )
        self.deleted_bytes: Final = counter("deleted_bytes", "Bytes of deleted files, but for those of expiry.", "kind")
        self.expired_snapshots: Final = counter("expired_snapshots", "Snapshots that expired by themselves.")
        self.expired_partitions: Final = counter("expired_partitions", "Partitions that were removed for their age.")
        self.job_seconds: Final = Histogram(
            "lakelog_compactor_job_seconds",
            "From taking a job to its end.",
            ["kind"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._new_bytes = self._written_bytes = 0
        self._kinds: set[str] = set()

    def count_compaction(self, read_bytes: int, new_bytes: int, written_bytes: int) -> None:
        """Counts what a compaction has read, of which `new_bytes` no compaction had written, and what it wrote."""
        self.compacted_bytes.labels("read").inc(read_bytes)
        self.compacted_bytes.labels("written").inc(written_bytes)
        self.new_bytes.inc(new_bytes)
        self._new_bytes += new_bytes
        self._written_bytes += written_bytes
        if self._new_bytes:
            self.write_amplification.set(1 + self._written_bytes / self._new_bytes)

    def show_queue(self, queues: Sequence[JobQueue]) -> None:
        """Shows how many jobs wait; kinds without jobs are 0."""
        found = {queue.kind: queue for queue in queues}
        self._kinds |= found.keys()
        for kind in self._kinds:
            queue = found.get(kind, JobQueue(kind, 0, 0, 0, 0, 0))
            counts = {
                "due": queue.due_count,
                "resting": queue.resting_count,
                "leased": queue.leased_count,
                "failed": queue.failed_count,
            }
            for state, count in counts.items():
                self.queued_jobs.labels(kind, state).set(count)
            self.oldest_due.labels(kind).set(queue.oldest_due_ms / 1000)
