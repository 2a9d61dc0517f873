"""The largest request of each method, and the most entries of each repeated field, in one table.

A method that is not listed accepts at most `_DEFAULT_BYTES`. If a repeated field is not listed, the server does not
start and a test fails. The use cases check requests more precisely, and their errors use the words of users. The bounds
here only keep the service alive, so they are a little higher than those of the use cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from lakelog.client.connection.connection import MAX_MESSAGE_BYTES
from lakelog.format.commit.attachment import MAX_SNAPSHOTS as MAX_ATTACHED
from lakelog.format.commit.guards import MAX_GUARDED_PLACES
from lakelog.format.jobs.job import JobStatus
from lakelog.format.jobs.job_run import RunResult
from lakelog.format.jobs.presence import MAX_WORK
from lakelog.format.log.heartbeat import MAX_ATTEMPTS
from lakelog.format.retention.table_files import MAX_FILES_A_CALL
from lakelog.format.types.evolution import MAX_CHANGES
from lakelog.format.types.types import MAX_TYPE_DEPTH
from lakelog.options.declared.tables import MAX_LEVELS
from lakelog.serving.edge.request_bounds import RequestBounds
from lakelog.serving.methods import OF_METASTORE, list_methods

from ...grants.grants import MAX_CHECKED
from ...jobs.listing import MAX_KINDS
from ...logs.publishing import MAX_SNAPSHOTS as MAX_REPORTED
from ...logs.validation import MAX_LOG_PARTITIONS
from ...retention.expiry import MAX_EXPIRED
from ...snapshots.consumers import MAX_TABLES
from ...store.limits import Limits
from ...store.validation import MAX_PROPERTIES

_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_DEFAULT_BYTES: Final = 64 * _KIB

_MAX_BYTES: Final[Mapping[str, int]] = {
    # These carry files, one entry each.
    "Commit": MAX_MESSAGE_BYTES,
    "CommitStream": MAX_MESSAGE_BYTES,
    "AttachChangelogs": MAX_MESSAGE_BYTES,
    # 100,000 values or partitions.
    "Plan": 16 * _MIB,
    # 10,000 paths of up to 1024 characters.
    "FindUsedFiles": 11 * _MIB,
    "ForgetExpiredFiles": 11 * _MIB,
    # 10,000 snapshots with an offset for each partition of the log.
    "ReportPublished": 16 * _MIB,
    # 4000 buckets with their partitions.
    "RequestJobs": 4 * _MIB,
    # A schema of thousands of columns.
    "CreateTable": 4 * _MIB,
    # 10,000 attempts.
    "AbortAttempts": 512 * _KIB,
    "ForgetAttempts": 512 * _KIB,
    # 1000 tables with their positions.
    "Watch": 256 * _KIB,
    "AdvanceConsumer": 256 * _KIB,
    "RenewConsumer": 128 * _KIB,
    # Options of 64 KiB, and their names.
    "AlterTable": 256 * _KIB,
    # A thousand changes.
    "AlterColumns": 4096 * _KIB,
    # Several texts of 4096 characters, each of up to four bytes.
    "ReportPipeline": 256 * _KIB,
    # Open to everyone, and short.
    "Check": 4 * _KIB,
    "List": 4 * _KIB,
    "ServerReflectionInfo": 4 * _KIB,
}
"""The most bytes, by the method's short name."""

_MAX_BUCKETS: Final = 214_748
_MAX_PARTITIONS: Final = 100_000
_MAX_VALUES: Final = 100_000
_MAX_COLUMNS: Final = 10_000
_MAX_STATISTICS: Final = 2_000_000
"""Statistics of columns in one commit: 20 columns of 100,000 files. They take most of a commit's memory."""
_MAX_NUMBERS: Final = 1_000_000
"""File ids or offsets in one request: a number is one of the cheapest entries."""


def max_entries(limits: Limits) -> dict[str, int]:
    """The most entries of each repeated field that use cases accept, in all messages of a request together.

    The keys are `Message.field`.
    """
    files, tables = limits.max_commit_files, limits.max_commit_tables
    return {
        "CreateTableRequest.primary_key": _MAX_COLUMNS,
        "CreateTableRequest.partition_by": _MAX_COLUMNS,
        "CreateTableRequest.options": MAX_PROPERTIES * 2,
        "AlterTableRequest.set_options": MAX_PROPERTIES * 2,
        "AlterTableRequest.unset_options": MAX_PROPERTIES * 2,
        "AlterColumnsRequest.changes": MAX_CHANGES,
        "ColumnChange.path": MAX_CHANGES * MAX_TYPE_DEPTH,
        "StageAttemptRequest.table_uuids": tables,
        "CommitRequest.fences": 64,
        "CommitRequest.changes": tables,
        "CommitRequest.guards": tables,
        "TableGuard.partitions": MAX_GUARDED_PLACES,
        "TableGuard.buckets": MAX_GUARDED_PLACES,
        "Change.add_files": files,
        "Change.changelog_files": files,
        "Change.log_files": files,
        "Change.unchanged_buckets": _MAX_BUCKETS,
        "Change.properties": MAX_PROPERTIES * tables,
        "Change.groups": files,
        "CompactionGroup.input_file_ids": files,
        "CompactionGroup.moved_file_ids": files,
        "CompactionGroup.vector_file_ids": files,
        "CompactionGroup.covered_file_ids": files,
        "CompactionGroup.delete_counts": files,
        "CompactionGroup.baseline_file_ids": files,
        "SentOffsets.offsets": MAX_LOG_PARTITIONS,
        "FileIds.file_ids": _MAX_NUMBERS,
        "Partitions.partitions": _MAX_PARTITIONS,
        "PartitionValues.values": _MAX_COLUMNS,
        "FileStatistics.columns": _MAX_STATISTICS,
        "AttachChangelogsRequest.changelogs": MAX_ATTACHED,
        "SnapshotChangelog.files": files,
        "ListLatestRequest.table_uuids": MAX_TABLES,
        "PlanRequest.buckets": _MAX_BUCKETS,
        "PlanRequest.levels": MAX_LEVELS,
        "PlanRequest.partitions": _MAX_PARTITIONS,
        "PredicateList.operands": _MAX_VALUES,
        "Comparison.values": _MAX_VALUES,
        "WatchRequest.positions": limits.max_watched_tables,
        "LeaseJobRequest.kinds": 100,
        "LeaseJobRequest.table_uuids": limits.max_watched_tables,
        "ListJobsRequest.table_uuids": limits.max_watched_tables,
        "ListJobsRequest.job_ids": limits.max_requested_jobs,
        "ListJobsRequest.kinds": MAX_KINDS,
        "ListJobsRequest.statuses": len(JobStatus),
        "ListJobRunsRequest.table_uuids": limits.max_watched_tables,
        "ListJobRunsRequest.kinds": MAX_KINDS,
        "ListJobRunsRequest.results": len(RunResult),
        "CountJobsRequest.table_uuids": limits.max_watched_tables,
        "RequestJobsRequest.scopes": limits.max_requested_jobs,
        "RequestJobsRequest.payload": MAX_PROPERTIES,
        "OpenConsumerRequest.table_uuids": MAX_TABLES,
        "AdvanceConsumerRequest.positions": MAX_TABLES,
        "RenewConsumerRequest.epochs": MAX_TABLES,
        "FindUsedFilesRequest.paths": MAX_FILES_A_CALL,
        "AbortAttemptsRequest.attempt_ids": MAX_FILES_A_CALL,
        "ForgetAttemptsRequest.attempt_ids": MAX_FILES_A_CALL,
        "ForgetExpiredFilesRequest.paths": MAX_EXPIRED,
        "Service.work": MAX_WORK,
        "ReportPublishedRequest.snapshots": MAX_REPORTED,
        "ReportPublishedRequest.begins": MAX_LOG_PARTITIONS,
        "SnapshotOffsets.offsets": _MAX_NUMBERS,
        "FindAttemptsRequest.attempt_ids": MAX_ATTEMPTS,
        "RenewAttemptsRequest.attempt_ids": MAX_ATTEMPTS,
        "CheckAccessRequest.table_uuids": MAX_CHECKED,
        "WhoAmIRequest.table_uuids": MAX_CHECKED,
    }


def request_bounds(limits: Limits) -> dict[str, RequestBounds]:
    """The bounds of all methods that the server answers, by their full names.

    Raises:
        KeyError: A repeated field of a request has no bound.
    """
    entries = max_entries(limits)
    return {
        f"/{method.containing_service.full_name}/{method.name}": RequestBounds(
            method.name, method.input_type, _MAX_BYTES.get(method.name, _DEFAULT_BYTES), entries, with_slack
        )
        for method in served_methods()
    }


def with_slack(most: int) -> int:
    """How many entries pass the edge if a use case accepts `most`. Pure."""
    return most + most // 8 + 16


def served_methods() -> Iterable[MethodDescriptor]:
    """All methods that the server answers."""
    return list_methods((*OF_METASTORE, health_pb2, reflection_pb2))
