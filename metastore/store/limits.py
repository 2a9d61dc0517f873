"""The bounds of one commit, of all requests together, and of each number that a request can contain.

`metastore/server/edge/request_limits.py` bounds a request's bytes and the entries of its repeated fields.

The bounds are so high that no honest request meets them, and so far below 64 bits that no number computed from accepted
numbers overflows: neither a next number, nor a sum over the files of a table, a snapshot or a bucket.
`lakelog.format.commit.totals` bounds the totals of a table. Sums over several tables or over history have no bound, and
are shown as at most `MAX_INT64`.

A test walks over the messages of all requests. It fails if a field has no bounds here, or if a number beyond them is
not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True)
class Limits:
    """Bounds that keep the service within its memory, whatever is requested.

    Args:
        max_commit_files: Files that one commit may add; a full bulk load of a large table fits.
        max_commit_tables: Tables of one commit.
        max_waiting_commits: Commits that wait at the gate, all tables together.
        max_waiting_files: Files of the commits that wait at the gate.
        max_group_commits: Commits that share a transaction; beyond this a group only adds latency.
        max_group_files: Files of the commits that share a transaction.
        max_parallel_groups: Transactions of the gate at once; each takes a connection.
        max_parallel_plans: Plans that look up files at once; each takes a connection meanwhile.
        max_range_snapshots: Snapshots of one incremental plan.
        watch_lag_snapshots: How far a watcher that was up to date may fall behind before its watch is ended.
        max_watched_tables: Tables of one watch.
        max_requested_jobs: Jobs that one request makes due.
        max_services: Service processes that are listed.
        chunk_cache_bytes: Packed entries kept in memory.
    """

    max_commit_files: int = 100_000
    max_commit_tables: int = 256
    max_waiting_commits: int = 10_000
    max_waiting_files: int = 1_000_000
    max_group_commits: int = 256
    max_group_files: int = 20_000
    max_parallel_groups: int = 6
    max_parallel_plans: int = 8
    max_range_snapshots: int = 100_000
    watch_lag_snapshots: int = 10_000
    max_watched_tables: int = 1000
    max_requested_jobs: int = 4000
    max_services: int = 1000
    chunk_cache_bytes: int = 256 << 20


MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1

MAX_ID: Final = 2**62 - 1
"""The largest id of snapshots, files and jobs, epoch and offset: even the sum of two fits into 64 bits."""

MAX_FILE_ROWS: Final = 2**40
"""The most rows of one file: a million millions."""

MAX_FILE_BYTES: Final = 2**43
"""The most bytes of one file: 8 TiB."""

MAX_CHANGE_ROWS: Final = 2**48
"""The most rows of the files that a commit adds to one table."""

MAX_CHANGE_BYTES: Final = 2**52
"""The most bytes of the files that a commit adds to one table: 4 PiB."""

MIN_TIME_MS: Final = -62_135_596_800_000
"""The first moment of the year 1, in milliseconds since the epoch: calendars of other programs begin here."""

MAX_TIME_MS: Final = 253_402_300_799_999
"""The last moment of the year 9999."""

_HUNDRED_YEARS_MS: Final = 36_500 * 86_400_000


class Bounds(NamedTuple):
    """A range of numbers, both ends included."""

    lowest: int
    highest: int


_ID: Final = Bounds(1, MAX_ID)
_ID_OR_ZERO: Final = Bounds(0, MAX_ID)
_ANY: Final = Bounds(-MAX_INT64 - 1, MAX_INT64)
"""For numbers that are only compared."""
_COUNT: Final = Bounds(0, MAX_INT32)
LONGEST_LEASE_MS: Final = 3_600_000
_LEASE_MS: Final = Bounds(1_000, LONGEST_LEASE_MS)
_AGE_MS: Final = Bounds(0, _HUNDRED_YEARS_MS)
_PAGE: Final = Bounds(1, 10_000)
_PAGE_OR_ZERO: Final = Bounds(0, 10_000)

NOT_READ: Final = frozenset(
    {"Pipeline.reported_at_ms", "Service.silent_ms", "Service.started_at_ms", "SnapshotOffsets.visible_at_ms"}
)
"""Numbers in messages that requests share with answers: the metastore sets them, and does not read them."""

BOUNDS: Final[Mapping[str, Bounds]] = {
    "AbortAttemptsRequest.open_ms": _AGE_MS,
    "AcquireLeaseRequest.duration_ms": _LEASE_MS,
    "AttachChangelogsRequest.bucket_count": Bounds(-1, MAX_INT32),
    "AttachChangelogsRequest.epoch": _ID,
    "AttachChangelogsRequest.job_id": _ID,
    "AttachChangelogsRequest.schema_id": _COUNT,
    "BeginPurgeRequest.epoch": _ID,
    "BeginPurgeRequest.job_id": _ID,
    "BucketRef.bucket": _COUNT,
    "Change.base_snapshot_id": _ID_OR_ZERO,
    "Change.bucket_count": Bounds(-1, MAX_INT32),
    "Change.committed_after_ms": _ID_OR_ZERO,
    "Change.committed_until_ms": _ID_OR_ZERO,
    "Change.if_unchanged": _ID_OR_ZERO,
    "Change.schema_id": _COUNT,
    "Change.watermark_ms": Bounds(MIN_TIME_MS, MAX_TIME_MS),
    "ColumnStatistics.field_id": Bounds(1, MAX_INT32),
    "ColumnStatistics.null_count": Bounds(0, MAX_FILE_ROWS),
    "CommitRequest.epoch": _ID_OR_ZERO,
    "CommitRequest.identifier": Bounds(0, MAX_INT64),
    "CommitRequest.previous_identifier": Bounds(-1, MAX_INT64 - 1),
    "CompactionGroup.baseline_file_ids": _ID,
    "CompactionGroup.changelog_count": _COUNT,
    "CompactionGroup.covered_file_ids": _ID,
    "CompactionGroup.delete_counts": Bounds(1, MAX_FILE_ROWS),
    "CompactionGroup.input_file_ids": _ID,
    "CompactionGroup.level": Bounds(0, 127),
    "CompactionGroup.moved_file_ids": _ID,
    "CompactionGroup.output_count": _COUNT,
    "CompactionGroup.vector_file_ids": _ID,
    "Comparison.field_id": Bounds(1, MAX_INT32),
    "ConsumerEpoch.epoch": _ID,
    "ConsumerPosition.epoch": _ID,
    "ConsumerPosition.snapshot_id": _ID_OR_ZERO,
    "CreateTagRequest.snapshot_id": _ID_OR_ZERO,
    "DataFile.bucket": _COUNT,
    "DataFile.delete_count": Bounds(0, MAX_FILE_ROWS),
    "DataFile.level": Bounds(0, 127),
    "DataFile.row_count": Bounds(0, MAX_FILE_ROWS),
    "DataFile.schema_id": _COUNT,
    "DataFile.size_bytes": Bounds(1, MAX_FILE_BYTES),
    "ExpireSnapshotsRequest.older_than_ms": _ANY,
    "ExpireSnapshotsRequest.retain_last": Bounds(1, MAX_INT32),
    "FailJobRequest.epoch": _ID,
    "FailJobRequest.job_id": _ID,
    "Fence.epoch": _ID,
    "FileIds.file_ids": _ID,
    "FindLogOffsetsRequest.until": _ID_OR_ZERO,
    "FinishJobRequest.epoch": _ID,
    "FinishJobRequest.job_id": _ID,
    "HeartbeatJobRequest.duration_ms": _LEASE_MS,
    "HeartbeatJobRequest.epoch": _ID,
    "HeartbeatJobRequest.job_id": _ID,
    "LeaseJobRequest.duration_ms": _LEASE_MS,
    "LeaseJobRequest.wait_ms": Bounds(0, 30_000),
    "LeaseSnapshotRequest.duration_ms": Bounds(1, 86_400_000),
    "LeaseSnapshotRequest.snapshot_id": _ID,
    "ListExpiredFilesRequest.limit": _PAGE,
    "ListJobRunsRequest.before": _ID_OR_ZERO,
    "ListJobRunsRequest.job_id": _ID_OR_ZERO,
    "ListJobRunsRequest.limit": _PAGE_OR_ZERO,
    "ListJobsRequest.job_ids": _ID,
    "ListJobsRequest.limit": _PAGE_OR_ZERO,
    "ListLogOffsetsRequest.after": _ID_OR_ZERO,
    "ListLogOffsetsRequest.limit": _PAGE_OR_ZERO,
    "ListLogOffsetsRequest.until": _ID_OR_ZERO,
    "ListPartitionFilesRequest.limit": _PAGE,
    "ListSnapshotsRequest.after": _ID_OR_ZERO,
    "ListSnapshotsRequest.limit": _PAGE_OR_ZERO,
    "ListSnapshotsRequest.until": _ID_OR_ZERO,
    "ListUnfinishedAttemptsRequest.aborted_ms": _AGE_MS,
    "ListUnfinishedAttemptsRequest.limit": _PAGE,
    "ListUnfinishedAttemptsRequest.open_ms": _AGE_MS,
    "ListUsedFilesRequest.limit": _PAGE,
    "Pipeline.dead_letter_rows": _ID_OR_ZERO,
    "Pipeline.lag": _ID_OR_ZERO,
    "Pipeline.last_batch_id": _ID_OR_ZERO,
    "Pipeline.total_rows": _ID_OR_ZERO,
    "PlanCompactionsRequest.after": _ID_OR_ZERO,
    "PlanRequest.added_after": _ID_OR_ZERO,
    "PlanRequest.below_bytes": _ID_OR_ZERO,
    "PlanRequest.buckets": _COUNT,
    "PlanRequest.levels": _COUNT,
    "PlanRequest.snapshot_id": _ID,
    "PlanRequest.timestamp_ms": _ANY,
    "PurgeRowsRequest.epoch": _ID,
    "PurgeRowsRequest.job_id": _ID,
    "ReleaseLeaseRequest.epoch": _ID,
    "RenewLeaseRequest.duration_ms": _LEASE_MS,
    "RenewLeaseRequest.epoch": _ID,
    "ReportPipelineRequest.epoch": _ID,
    "ReportPresenceRequest.uptime_ms": Bounds(0, 10**12),
    "ReportPublishedRequest.begins": _ID_OR_ZERO,
    "ReportPublishedRequest.epoch": _ID,
    "ReportPublishedRequest.generation": Bounds(1, MAX_INT32),
    "ReportPublishedRequest.next_index": _ID_OR_ZERO,
    "RequestJobsRequest.priority": Bounds(-1_000_000, 1_000_000),
    "ResetConsumerRequest.snapshot_id": _ID_OR_ZERO,
    "RetryJobRequest.job_id": _ID,
    "SentOffsets.generation": Bounds(1, MAX_INT32),
    "SentOffsets.offsets.key": Bounds(0, 65_535),
    "SentOffsets.offsets.value": _ID,
    "Service.pid": Bounds(0, 2**32),
    "Service.ttl_ms": Bounds(1_000, 600_000),
    "SnapshotChangelog.snapshot_id": _ID,
    "SnapshotOffsets.offsets": _ID_OR_ZERO,
    "SnapshotOffsets.snapshot_id": _ID,
    "SnapshotRange.after": _ID_OR_ZERO,
    "SnapshotRange.until": _ID,
    "StageAttemptRequest.count": Bounds(0, 16),
    "StageAttemptRequest.epoch": _ID_OR_ZERO,
    "StageAttemptRequest.identifier": Bounds(0, MAX_INT64),
    "StateRef.snapshot_id": _ID,
    "TableGuard.if_snapshot": _ID_OR_ZERO,
    "WatchPosition.after": _ID_OR_ZERO,
}
"""The bounds by `Message.field`; for a map also `.key` and `.value`."""
