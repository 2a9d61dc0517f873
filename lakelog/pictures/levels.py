"""The sorted runs of a bucket as rows of boxes, or an overview of the buckets of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.keys.encoding import encode_partition
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.pictures.bucket_runs import BucketRuns, draw_runs, to_runs
from lakelog.pictures.buckets import Buckets, draw_buckets, to_buckets
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.sdk.tables.table import Table
from lakelog.writes.overwrite import to_static_partition

Levels = BucketRuns | Buckets
"""One bucket, or all of them."""


def load_levels(
    table: Table,
    partition: Mapping[str, Any] | None = None,
    bucket: int | None = None,
    snapshot_id: int | None = None,
) -> Levels:
    """Requests the files of a bucket, or of all buckets.

    Args:
        table: The table.
        partition: Values of all partition columns; None: all partitions.
        bucket: The bucket; None: all.
        snapshot_id: The state to show; None: the newest.

    Returns:
        The runs of a bucket if only one has files, else sums over each of them.

    Raises:
        InvalidArgument: The partition is none of this table.
        NotFound: The bucket has no files, or there is no such snapshot.
        SnapshotExpired: The snapshot is no longer retained.
    """
    encoded = () if partition is None else (_encode(table, partition),)
    buckets = () if bucket is None else (bucket,)
    at = None if snapshot_id is None else AtSnapshot(snapshot_id)
    plan = table.context.metastore.plan(PlanRequest(table.uuid, at, partitions=encoded, buckets=buckets))
    if not plan.files.num_rows and (partition is not None or bucket is not None):
        raise NotFound(
            f"Table {table.name} has no files in {_name(partition, bucket)}. `lakelog plot levels {table.name}` shows "
            "the buckets that have some.",
            reason="BUCKET_NOT_FOUND",
            metadata={"table": table.name},
        )
    found = to_buckets(table.name, plan)
    return to_runs(table.name, plan) if found.total == 1 else found


def draw_levels(data: Levels, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws the runs of a bucket, or the overview of buckets. Pure."""
    return draw_runs(data, width) if isinstance(data, BucketRuns) else draw_buckets(data, width)


def _encode(table: Table, partition: Mapping[str, Any]) -> bytes:
    if not table.partition_by:
        raise InvalidArgument(f"Table {table.name} has no partitions.", metadata={"field": "partition"})
    static = to_static_partition(partition, table.info)
    missing = [name for name in table.partition_by if name not in static.values]
    if missing:
        raise NotFound(
            f"Table {table.name} has partitions by {', '.join(table.partition_by)}: give {', '.join(missing)}, too.",
            reason="PARTITION_NOT_FOUND",
            metadata={"table": table.name},
        )
    return encode_partition([static.values[name] for name in table.partition_by])


def _name(partition: Mapping[str, Any] | None, bucket: int | None) -> str:
    parts = (
        [] if partition is None else [f"partition {', '.join(f'{name}={value}' for name, value in partition.items())}"]
    )
    return ", ".join([*parts, *([] if bucket is None else [f"bucket {bucket}"])])
