"""What snapshots bring to the external log, in the order in which it is published (reliability R4).

The order depends only on the files, so a publisher that restarts finds each row at the same place: by snapshot, then
bucket, then partition, then place in the commit. A row's index is its number in this order within its snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.parquet.live_file import LiveFile, to_live_files

_ORDER: Final = [
    ("added_snapshot", "ascending"),
    ("bucket", "ascending"),
    ("partition", "ascending"),
    ("order_ordinal", "ascending"),
]


@dataclass(frozen=True)
class LogChunk:
    """The rows that a snapshot brings to one bucket.

    Rows of a key are in the order of arrival. Each file is ordered by key; rows of a key can be in several files. Rows
    of append tables are in the order in which they arrived.

    Args:
        snapshot: The snapshot.
        bucket: The bucket's number, for all partitions together; 0 in a table without buckets.
        files: The files, each with a row-kind column if it can have rows other than +I.
        first_index: The index of the first row.
        row_count: The number of rows in the files.
    """

    snapshot: Snapshot
    bucket: int
    files: tuple[LiveFile, ...]
    first_index: int
    row_count: int


@dataclass(frozen=True)
class LogPlan:
    """What some snapshots bring to the log.

    Args:
        table: The table as it is now.
        schema: The schema to read with.
        file_schemas: Every schema that a file of the snapshots was written with or one of them has, by id.
        snapshots: The requested ones, up to the first one that waits for the changelog that is its log.
        chunks: The chunks in the order of the log; none for a snapshot that brings nothing.
    """

    table: TableInfo
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    snapshots: tuple[Snapshot, ...]
    chunks: tuple[LogChunk, ...]


def plan_log(metastore: Metastore, table_uuid: str, after: int, until: int) -> LogPlan:
    """Plans the log of the snapshots after `after` up to and including `until`, at most 10,000, by one call.

    Raises:
        NotFound: No such table or snapshot.
        SnapshotExpired: A part of the range has expired.
    """
    plan = metastore.plan(PlanRequest(table_uuid, InRange(after, until), log=True))
    first_pending = next((place for place, each in enumerate(plan.range_snapshots) if _is_pending(each)), None)
    snapshots = plan.range_snapshots[:first_pending]
    ready = {each.snapshot_id: each for each in snapshots}
    files = [file for file in to_live_files(plan.files.sort_by(_ORDER)) if file.added_snapshot in ready]
    return LogPlan(plan.table, plan.schema, plan.file_schemas, snapshots, _to_chunks(files, ready))


def has_topic_buckets(table: TableInfo) -> bool:
    """Whether a bucket's rows go to the topic partition of its number; else to any partition (semantics 4.3). Pure."""
    return bool(table.schema.primary_key) or TableOptions(table.options).bucket_count(False) > 0


def to_topic_partition(file: LiveFile, partitions: int, *, has_buckets: bool) -> int:
    """The topic partition for a file's rows; rows without buckets are spread file by file. Pure."""
    return file.bucket if has_buckets else (file.added_snapshot + file.order_ordinal) % partitions


def _to_chunks(files: list[LiveFile], snapshots: Mapping[int, Snapshot]) -> tuple[LogChunk, ...]:
    """Makes one chunk of adjacent files of one snapshot and bucket."""
    if not files:
        return ()
    places = np.array([(file.added_snapshot, file.bucket) for file in files], np.int64)
    begins = np.flatnonzero(np.concatenate([[True], (places[1:] != places[:-1]).any(axis=1)]))
    chunks: list[LogChunk] = []
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(files)], strict=True):
        part = tuple(files[begin:end])
        snapshot = snapshots[part[0].added_snapshot]
        before = chunks[-1] if chunks and chunks[-1].snapshot is snapshot else None
        first_index = 0 if before is None else before.first_index + before.row_count
        chunks.append(LogChunk(snapshot, part[0].bucket, part, first_index, sum(file.row_count for file in part)))
    return tuple(chunks)


def _is_pending(snapshot: Snapshot) -> bool:
    return snapshot.log is LogContent.CHANGELOG and snapshot.changelog is ChangelogState.PENDING
