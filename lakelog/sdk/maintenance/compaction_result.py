"""What `Table.compact` returns."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


class CompactionState(enum.Enum):
    """What became of the requested compaction of a bucket."""

    NOTHING = "nothing"
    """There is nothing to do."""
    PLANNED = "planned"
    """There is work, but the caller asked only for the plan."""
    REQUESTED = "requested"
    """A compactor will do it; the caller does not wait for its end."""
    DONE = "done"
    """A compactor has done it."""
    FAILED = "failed"
    """A compactor tried it and failed."""
    WAITING = "waiting"
    """No compactor has done it in the time that the caller waited."""


@dataclass(frozen=True)
class BucketCompaction:
    """The compaction of one bucket.

    Args:
        partition: Values by partition column; empty in a table without partitions.
        bucket: Its number; 0 in a table without buckets.
        files: How many files it had before.
        size_bytes: The size of these files.
        state: What became of it.
        outcome: Why it should be done, or not; what was done; why it failed. For people.
        job_id: The job; None: it has none.
    """

    partition: Mapping[str, Any]
    bucket: int
    files: int
    size_bytes: int
    state: CompactionState
    outcome: str
    job_id: int | None = None

    @property
    def name(self) -> str:
        """The bucket for messages, for instance `dt=2024-05-01 bucket 3`."""
        return " ".join([*(f"{column}={value}" for column, value in self.partition.items()), f"bucket {self.bucket}"])


@dataclass(frozen=True)
class CompactionResult:
    """What became of a requested compaction.

    Args:
        table: The table's full name.
        snapshot_id: The snapshot that was planned; None: the table has none.
        partition_schema: The partition columns.
        buckets: Each requested bucket that has files, by partition and number.
    """

    table: str
    snapshot_id: int | None
    partition_schema: pa.Schema
    buckets: tuple[BucketCompaction, ...] = field(default=())

    @property
    def job_ids(self) -> tuple[int, ...]:
        """The jobs that do the work; `lakelog jobs` shows them."""
        return tuple(each.job_id for each in self.buckets if each.job_id is not None)

    def to_arrow(self) -> pa.Table:
        """Returns one row per bucket.

        Columns partition (a struct of the partition columns; NULL without any), bucket, files and bytes (before), state
        (`nothing`, `planned`, `requested`, `done`), outcome (a text) and job_id.
        """
        fields = [each.remove_metadata().with_nullable(True) for each in self.partition_schema]
        partitions = (
            pa.array([dict(each.partition) for each in self.buckets], pa.struct(fields))
            if fields
            else pa.nulls(len(self.buckets))
        )
        return pa.table(
            {
                "partition": partitions,
                "bucket": pa.array([each.bucket for each in self.buckets], pa.int32()),
                "files": pa.array([each.files for each in self.buckets], pa.int64()),
                "bytes": pa.array([each.size_bytes for each in self.buckets], pa.int64()),
                "state": pa.array([each.state.value for each in self.buckets], pa.string()),
                "outcome": pa.array([each.outcome for each in self.buckets], pa.string()),
                "job_id": pa.array([each.job_id for each in self.buckets], pa.int64()),
            }
        )
