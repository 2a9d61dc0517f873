"""Where a subscription begins: what its options and the table's history say together (SEMANTICS.md 5.1, 5.6)."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.client.metastore import Metastore
from lakelog.errors import NotFound, SnapshotExpired
from lakelog.format.consumer import Consumer
from lakelog.format.table import TableInfo
from lakelog.options.stream_options import (
    EXPIRED_POSITION,
    STREAM_FILE_CREATION_TIME_MILLIS,
    STREAM_SNAPSHOT_ID,
    STREAM_TIMESTAMP_MILLIS,
)
from lakelog.options.values import StreamOptions


@dataclass(frozen=True)
class StreamStart:
    """Where a subscription to one table begins.

    Args:
        after: Changes behind this snapshot are shown; 0: from the first on.
        after_uuid: Its uuid, where it is known; empty: not checked.
        full_at: The snapshot whose rows are shown first; None: no rows.
        files_since_ms: Of these only the rows of files committed at or after this time; None: all.
        first_snapshot: Changes of snapshots before this one are passed over.
        first_time_ms: So are those of snapshots committed before this time; None: none.
    """

    after: int
    after_uuid: str = ""
    full_at: int | None = None
    files_since_ms: int | None = None
    first_snapshot: int = 0
    first_time_ms: int | None = None


def find_start(metastore: Metastore, table: TableInfo, options: StreamOptions) -> StreamStart:
    """Finds where a subscription begins that has no position yet; blocks on the metastore.

    Raises:
        NotFound: `from-snapshot-full` names a snapshot that is not there yet.
    """
    page = metastore.list_snapshots(table.table_uuid, limit=1)
    latest, earliest = page.latest_snapshot_id, page.earliest_snapshot_id
    mode = options.mode
    wanted = options.get(STREAM_SNAPSHOT_ID)
    if mode == "latest":
        return StreamStart(latest)
    if mode == "from-snapshot":
        assert wanted is not None, "the options were checked"
        return StreamStart(min(max(wanted, earliest, 1) - 1, latest), first_snapshot=wanted)
    if mode == "from-snapshot-full":
        assert wanted is not None, "the options were checked"
        if wanted > latest:
            raise NotFound(
                f"Snapshot {wanted} of {table.name} does not exist: its newest snapshot is {latest}. Give that or an "
                "older one, or 'from-snapshot' to wait for it.",
                reason="SNAPSHOT_NOT_FOUND",
                metadata={"snapshot_id": str(wanted), "latest": str(latest)},
            )
        return _full(max(wanted, earliest))
    if mode == "from-timestamp":
        since_ms = options.get(STREAM_TIMESTAMP_MILLIS)
        assert since_ms is not None, "the options were checked"
        before = _count_before(metastore, table, since_ms, earliest, latest)
        return StreamStart(before, first_time_ms=since_ms)
    if mode == "from-file-creation-time":
        start = _full(latest)
        return StreamStart(
            start.after, full_at=start.full_at, files_since_ms=options.get(STREAM_FILE_CREATION_TIME_MILLIS)
        )
    # Without a full compaction `compacted-full` is `latest-full`.
    return _full(latest)


def resume(metastore: Metastore, table: TableInfo, options: StreamOptions, consumer: Consumer) -> StreamStart:
    """Finds where a consumer goes on.

    Raises:
        SnapshotExpired: What comes next is no longer kept, and the options do not say what to do then.
    """
    assert consumer.snapshot_id is not None, "one without a position begins as its options say"
    page = metastore.list_snapshots(table.table_uuid, limit=1)
    latest, earliest = page.latest_snapshot_id, page.earliest_snapshot_id
    if latest == 0 or consumer.snapshot_id >= earliest - 1:
        return StreamStart(consumer.snapshot_id, consumer.snapshot_uuid)
    policy = options.get(EXPIRED_POSITION)
    if policy == "fail":
        raise SnapshotExpired(
            f"Consumer '{consumer.consumer_id}' of {table.name} is at snapshot {consumer.snapshot_id}, but snapshots "
            f"{earliest} to {latest} are all that is kept. Reset it, or subscribe with '{EXPIRED_POSITION.key}' = "
            "'earliest' or 'full'.",
            metadata={"table": str(table.name), "earliest": str(earliest), "latest": str(latest)},
        )
    return start_over(metastore, table, policy)


def start_over(metastore: Metastore, table: TableInfo, policy: str) -> StreamStart:
    """Where a reader goes on whose next change is no longer kept: with the `earliest` that is, or with all rows."""
    page = metastore.list_snapshots(table.table_uuid, limit=1)
    return _full(page.latest_snapshot_id) if policy == "full" else StreamStart(page.earliest_snapshot_id - 1)


def _full(snapshot_id: int) -> StreamStart:
    return StreamStart(snapshot_id, full_at=snapshot_id or None)


def _count_before(metastore: Metastore, table: TableInfo, time_ms: int, earliest: int, latest: int) -> int:
    """The id of the last snapshot that was committed before a time, by bisection; of those that are kept."""
    low, high = max(earliest, 1) - 1, latest
    while low < high:
        middle = (low + high + 1) // 2
        (snapshot,) = metastore.list_snapshots(table.table_uuid, after=middle - 1, until=middle, limit=1).snapshots
        low, high = (middle, high) if snapshot.committed_at_ms < time_ms else (low, middle - 1)
    return low
