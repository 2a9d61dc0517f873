"""Removes a table's expired partitions by one overwrite; the database's clock decides what has expired."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.request import Change, CommitRequest, Fence, RemovePartitions
from lakelog.format.retention.partition_expiry import PartitionFiles, find_expired, show_partition
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.partitions import PARTITION_EXPIRATION_STRATEGY, PARTITION_EXPIRATION_TIME, UPDATE_TIME
from lakelog.options.values import TableOptions

MAX_REPORTED: Final = 1_000
"""Partitions without a time that a result lists one by one."""

_MAX_PARTITIONS: Final = 50_000
"""Partitions of one commit: some megabytes."""

_TRIES: Final = 5
"""Tries after a conflict, when another writer wrote to a partition that was idle for long."""


@dataclass(frozen=True)
class ExpiredPartition:
    """A partition that has expired.

    Args:
        partition: Its values by column.
        time_ms: The time that its age counts from, in milliseconds since the epoch.
        files: How many files it has.
        rows: The rows in these files, as stored.
        size_bytes: The size of these files.
    """

    partition: dict[str, Any]
    time_ms: int
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class PartitionExpiryResult:
    """What became of a table's partitions.

    Args:
        table: The table's full name.
        dry_run: Whether nothing was removed.
        snapshot_id: The snapshot that removed them; None: there was nothing to remove, or it was a dry run.
        expired: Partitions that were removed, or would be.
        unknown: Partitions whose time cannot be read, by their values; they stay. Of many only some.
        unknown_count: How many these are.
        partition_by: The table's partition columns.
    """

    table: str
    dry_run: bool
    snapshot_id: int | None
    expired: tuple[ExpiredPartition, ...]
    unknown: tuple[dict[str, Any], ...]
    unknown_count: int
    partition_by: tuple[str, ...]

    def to_arrow(self) -> pa.Table:
        """Returns one row per expired partition.

        The columns are partition (a struct of texts by partition column), time, files, rows and bytes.
        """
        values = [
            {name: None if value is None else str(value) for name, value in each.partition.items()}
            for each in self.expired
        ]
        return pa.table(
            {
                "partition": pa.array(values, pa.struct([(name, pa.string()) for name in self.partition_by])),
                "time": pa.array([each.time_ms for each in self.expired], pa.timestamp("ms", "UTC")),
                "files": pa.array([each.files for each in self.expired], pa.int64()),
                "rows": pa.array([each.rows for each in self.expired], pa.int64()),
                "bytes": pa.array([each.size_bytes for each in self.expired], pa.int64()),
            }
        )


@dataclass(frozen=True)
class _Found:
    expired: tuple[tuple[PartitionFiles, int], ...]
    unknown: tuple[PartitionFiles, ...]
    base_snapshot_id: int


def expire_partitions(
    metastore: Metastore,
    info: TableInfo,
    *,
    dry_run: bool = False,
    writer: str = "",
    first_identifier: int = 0,
    fence: Fence | None = None,
) -> PartitionExpiryResult:
    """Removes the partitions that have expired; blocks.

    Args:
        metastore: Knows the partitions, and commits.
        info: The table as it is now, with its options.
        dry_run: Only report the expired partitions.
        writer: The writer name of the commit; empty: a new one.
        first_identifier: The first of its commits' identifiers; there may be a few commits.
        fence: What the commit depends on.

    Raises:
        InvalidArgument: The table has no partitions, or its options do not say when they expire.
        CommitConflict: Others wrote to partitions that were about to expire, again and again.
        NotFound: The table was dropped.
    """
    options = TableOptions(info.options)
    life_ms = _read_life_ms(info, options)
    writer = writer or f"expire-partitions-{uuid.uuid4().hex}"
    for attempt in range(_TRIES):
        found = _find(metastore, info, options, life_ms)
        chosen = _choose(found.expired)
        snapshot_id = None
        if chosen and not dry_run:
            change = _to_change(info, options, [each for each, _ in chosen], found.base_snapshot_id)
            request = CommitRequest(writer, first_identifier + attempt, (change,), fences=(fence,) if fence else ())
            try:
                snapshot_id = metastore.commit(request).results[0].snapshot_id
            except CommitConflict:
                # Another writer wrote to one of them, so it is young again.
                if attempt == _TRIES - 1:
                    raise
                continue
        return _to_result(info, found.unknown, chosen, dry_run=dry_run, snapshot_id=snapshot_id)
    raise AssertionError("the last try returns or raises")


def _read_life_ms(info: TableInfo, options: TableOptions) -> int:
    if not info.schema.partition_by:
        raise InvalidArgument(
            f"Table {info.name} has no partitions that could expire.",
            reason="NO_PARTITIONS",
            metadata={"table": str(info.name)},
        )
    life_ms = options.get(PARTITION_EXPIRATION_TIME)
    if life_ms is None:
        key = PARTITION_EXPIRATION_TIME.key
        raise InvalidArgument(
            f"Table {info.name} does not say when its partitions expire. Set '{key}': table.alter(set={{'{key}': "
            f"'30 d'}}), or lakelog table options set {info.name} {key}='30 d'.",
            reason="NO_EXPIRATION",
            metadata={"table": str(info.name), "option": key},
        )
    return life_ms


def _find(metastore: Metastore, info: TableInfo, options: TableOptions, life_ms: int) -> _Found:
    expired: list[tuple[PartitionFiles, int]] = []
    unknown: list[PartitionFiles] = []
    page = metastore.list_partition_files(info.table_uuid)
    # The commit notices what was written since the first page, or it does not matter.
    base, before_ms = page.snapshot_id, page.now_ms - life_ms
    while True:
        ages = find_expired(page.partitions, info.schema, options, before_ms)
        expired += ages.expired
        unknown += ages.unknown
        if page.is_last:
            return _Found(tuple(expired), tuple(unknown), base)
        page = metastore.list_partition_files(info.table_uuid, page.partitions[-1].partition)


def _choose(expired: Sequence[tuple[PartitionFiles, int]]) -> Sequence[tuple[PartitionFiles, int]]:
    """Picks as many as one commit takes, the oldest first."""
    return sorted(expired, key=lambda each: each[1])[:_MAX_PARTITIONS]


def _goes_by_updates(options: TableOptions) -> bool:
    """Whether a write makes a partition young; a partition whose values set its age stays old whatever is written."""
    return options.get(PARTITION_EXPIRATION_STRATEGY) == UPDATE_TIME


def _to_change(
    info: TableInfo, options: TableOptions, partitions: Sequence[PartitionFiles], base_snapshot_id: int
) -> Change:
    return Change(
        table_uuid=info.table_uuid,
        kind=SnapshotKind.OVERWRITE,
        schema_id=info.schema.schema_id,
        bucket_count=options.bucket_count(bool(info.schema.primary_key)),
        remove=RemovePartitions(tuple(each.partition for each in partitions)),
        if_unchanged=base_snapshot_id if _goes_by_updates(options) else None,
        properties={"expired-partitions": str(len(partitions))},
    )


def _to_result(
    info: TableInfo,
    unknown: Sequence[PartitionFiles],
    chosen: Sequence[tuple[PartitionFiles, int]],
    *,
    dry_run: bool,
    snapshot_id: int | None,
) -> PartitionExpiryResult:
    return PartitionExpiryResult(
        table=str(info.name),
        dry_run=dry_run,
        snapshot_id=snapshot_id,
        expired=tuple(
            ExpiredPartition(
                show_partition(each.partition, info.schema), time_ms, each.files, each.rows, each.size_bytes
            )
            for each, time_ms in chosen
        ),
        unknown=tuple(show_partition(each.partition, info.schema) for each in unknown[:MAX_REPORTED]),
        unknown_count=len(unknown),
        partition_by=info.schema.partition_by,
    )
