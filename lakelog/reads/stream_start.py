"""Where a subscription begins, by its options and the table's history (semantics 5.1, 5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakelog.client.metastore.metastore import LatestSnapshot, Metastore
from lakelog.errors import InvalidArgument, NotFound, SnapshotExpired
from lakelog.format.retention.consumer import Consumer
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.streams import (
    EXPIRED_POSITION,
    STREAM_FILE_CREATION_TIME_MILLIS,
    STREAM_SNAPSHOT_ID,
    STREAM_TIMESTAMP_MILLIS,
)
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.reads.expired_position import GO_ON_WITH_OPTION, to_expired_position


@dataclass(frozen=True)
class StreamStart:
    """Where a subscription to one table begins.

    Args:
        after: Changes after this snapshot are shown; 0: from the first on.
        after_uuid: Its uuid, if known; empty: not checked.
        full_at: The snapshot whose rows are shown first; None: no rows.
        files_since_ms: Show only those of these rows whose files were committed at or after this time; None: all.
        first_snapshot: Skip changes of snapshots before this one.
        first_time_ms: Skip changes of snapshots committed before this time; None: none.
        first_record_ms: If changes come from the log, also skip snapshots without a record appended at or after this
            time, up to the first one that is shown; None: none.
        skip_rows: The number of the next rows that the reader already has.
    """

    after: int
    after_uuid: str = ""
    full_at: int | None = None
    files_since_ms: int | None = None
    first_snapshot: int = 0
    first_time_ms: int | None = None
    first_record_ms: int | None = None
    skip_rows: int = 0


def find_start(metastore: Metastore, table: TableInfo, options: StreamOptions) -> StreamStart:
    """Finds where a subscription to one table without a position begins; see `find_starts`."""
    return find_starts(metastore, [table], options)[0]


def find_starts(metastore: Metastore, tables: Sequence[TableInfo], options: StreamOptions) -> list[StreamStart]:
    """Finds where a subscription without a position begins, in the order of the tables; blocks on the metastore.

    With several tables no commit is split by the beginning: all are read at one moment, and what was committed together
    has one time.

    Raises:
        NotFound: `from-snapshot-full` names a snapshot that is not there yet.
        SnapshotExpired: It begins before the retained changes, and `scan.expired-position` was set to `fail`.
        InvalidArgument: A snapshot is named, and there are several tables.
    """
    if len(tables) > 1 and options.mode in ("from-snapshot", "from-snapshot-full"):
        raise InvalidArgument(
            f"'{options.mode}' names a snapshot of one table, and these are {len(tables)}. Begin several tables with "
            "'latest-full', 'latest' or 'from-timestamp', or go on as a consumer.",
            metadata={"scan.mode": options.mode},
        )
    found = metastore.list_latest([table.table_uuid for table in tables])
    return [
        _find_start(metastore, table, options, latest, is_alone=len(tables) == 1)
        for table, latest in zip(tables, found, strict=True)
    ]


def _find_start(
    metastore: Metastore, table: TableInfo, options: StreamOptions, found: LatestSnapshot, *, is_alone: bool
) -> StreamStart:
    latest, earliest = found.snapshot_id, found.earliest_snapshot_id
    earliest_change = found.earliest_change_id
    mode = options.mode
    wanted = options.get(STREAM_SNAPSHOT_ID)
    # A beginning that is too early is moved, unless the user explicitly requested to fail.
    strict = options.given().get(EXPIRED_POSITION.key) is not None and options.get(EXPIRED_POSITION) == "fail"
    if strict and wanted is not None:
        kept = earliest_change if mode == "from-snapshot" else earliest
        if max(wanted, 1) < kept:
            raise _begins_too_early(table, f"'{STREAM_SNAPSHOT_ID.key}' = {wanted}", kept, latest)
    if mode == "latest":
        return StreamStart(latest, found.snapshot_uuid)
    if mode == "from-snapshot":
        assert wanted is not None, "the options were checked"
        return StreamStart(min(max(wanted, earliest_change, 1) - 1, latest), first_snapshot=wanted)
    if mode == "from-snapshot-full":
        assert wanted is not None, "the options were checked"
        if wanted > latest:
            raise NotFound(
                f"Snapshot {wanted} of {table.name} does not exist: its newest snapshot is {latest}. Give that or an "
                "older one, or 'from-snapshot' to wait for it.",
                reason="SNAPSHOT_NOT_FOUND",
                metadata={"snapshot_id": str(wanted), "latest": str(latest)},
            )
        # Before the first snapshot there are no rows.
        return _full(max(wanted, earliest) if earliest > 1 else wanted)
    if mode == "from-timestamp":
        since_ms = options.get(STREAM_TIMESTAMP_MILLIS)
        assert since_ms is not None, "the options were checked"
        before = _count_before(metastore, table, since_ms, earliest_change, latest)
        if strict and 1 < earliest_change == before + 1:
            # Expired snapshots may have been committed since that time.
            raise _begins_too_early(table, f"'{STREAM_TIMESTAMP_MILLIS.key}' = {since_ms}", earliest_change, latest)
        return StreamStart(before, first_time_ms=since_ms)
    if mode == "from-file-creation-time":
        start = _full(latest, found.snapshot_uuid)
        return replace(start, files_since_ms=options.get(STREAM_FILE_CREATION_TIME_MILLIS))
    if (
        mode == "compacted-full"
        and is_alone
        and _has_own_changes(table)
        and found.last_full_snapshot_id >= max(earliest, 1)
    ):
        return _full(found.last_full_snapshot_id)
    # Without a full compaction `compacted-full` is `latest-full`. The same holds for several tables, since each has its
    # own full compaction: a commit to them would be in the rows of one table and among the changes of another. And if
    # full compactions emit the changes, both modes begin with what has been emitted by now.
    return _full(latest, found.snapshot_uuid)


def resume(
    metastore: Metastore, tables: Sequence[TableInfo], options: StreamOptions, consumers: Sequence[Consumer]
) -> list[StreamStart]:
    """Finds where a consumer with a position in each table goes on.

    Raises:
        SnapshotExpired: The next change has expired, and the options do not say what to do then.
    """
    starts = []
    expired = False
    found = metastore.list_latest([table.table_uuid for table in tables])
    policy = options.get(EXPIRED_POSITION)
    for table, consumer, at in zip(tables, consumers, found, strict=True):
        assert consumer.snapshot_id is not None, "one without a position begins as its options say"
        start = StreamStart(consumer.snapshot_id, consumer.snapshot_uuid)
        if at.snapshot_id and start.after < at.earliest_change_id - 1:
            if policy == "fail":
                raise to_expired_position(
                    f"Consumer '{consumer.consumer_id}'",
                    str(table.name),
                    start.after,
                    earliest=at.earliest_change_id,
                    latest=at.snapshot_id,
                    remedy=f"reset it (consumers.reset, lakelog consumers reset), or {GO_ON_WITH_OPTION}",
                )
            expired = True
            start = StreamStart(at.earliest_change_id - 1)
        starts.append(start)
    # The rows of one table beside the changes of others would show parts of commits.
    return start_over(metastore, tables, policy) if expired and policy == "full" else starts


def start_over(metastore: Metastore, tables: Sequence[TableInfo], policy: str) -> list[StreamStart]:
    """Where a reader goes on after its next change has expired: with the `earliest` retained one, or with all rows."""
    found = metastore.list_latest([table.table_uuid for table in tables])
    if policy == "full":
        return [_full(each.snapshot_id, each.snapshot_uuid) for each in found]
    return [StreamStart(max(each.earliest_change_id - 1, 0)) for each in found]


def _begins_too_early(table: TableInfo, start: str, earliest: int, latest: int) -> SnapshotExpired:
    return SnapshotExpired(
        f"{start} of {table.name} lies before snapshot {earliest}, and snapshots {earliest} to {latest} are all that "
        f"is kept. Give a later one, or leave '{EXPIRED_POSITION.key}' = 'fail' out to begin with the earliest.",
        metadata={"table": str(table.name), "earliest": str(earliest), "latest": str(latest)},
    )


def _full(snapshot_id: int, snapshot_uuid: str = "") -> StreamStart:
    return StreamStart(snapshot_id, snapshot_uuid, full_at=snapshot_id or None)


def _has_own_changes(table: TableInfo) -> bool:
    """Whether each commit has its own changes, not full compactions. Pure."""
    return TableOptions(table.options).get(CHANGELOG_PRODUCER) != FULL_COMPACTION


def _count_before(metastore: Metastore, table: TableInfo, time_ms: int, earliest: int, latest: int) -> int:
    """The id of the last retained snapshot that was committed before a time, by bisection."""
    low, high = max(earliest, 1) - 1, latest
    while low < high:
        middle = (low + high + 1) // 2
        (snapshot,) = metastore.list_snapshots(table.table_uuid, after=middle - 1, until=middle, limit=1).snapshots
        low, high = (middle, high) if snapshot.committed_at_ms < time_ms else (low, middle - 1)
    return low
