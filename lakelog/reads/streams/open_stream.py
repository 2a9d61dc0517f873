"""Opens a stream of tables: checks the request, opens the consumer, finds the beginning."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.context import Context
from lakelog.errors import Fenced, InvalidArgument, LakelogError, NotFound
from lakelog.format.filter.condition import parse_filter
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.format.tables.table import TableInfo, as_of
from lakelog.log.settings import LogSettings, choose_log, read_log_settings
from lakelog.options.declared.log import STREAM_READ_MODE
from lakelog.options.declared.streams import (
    CONSUMER_ID,
    EXPIRED_POSITION,
    SCAN_BOUNDED_WATERMARK,
    SCAN_REMOVE_NORMALIZE,
    STREAM_FILE_CREATION_TIME_MILLIS,
    STREAM_READ_OVERWRITE,
    STREAM_SNAPSHOT_ID,
    STREAM_TIMESTAMP_MILLIS,
)
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.reads.change_plan import check_raw
from lakelog.reads.log.start import LogAccess, LogPlacing, begin_by_log, comes_from_log, go_on_by_log, place_by_log
from lakelog.reads.reading import check_columns, without_kind
from lakelog.reads.stream_start import StreamStart, find_starts, resume
from lakelog.reads.streams.batch import Position
from lakelog.reads.streams.feeds import Follower
from lakelog.reads.streams.follow import TablesFollower
from lakelog.reads.streams.leased_start import LeasedStart
from lakelog.reads.streams.log.table import LogStreamTable
from lakelog.reads.streams.request import ResumePoint, StreamRequest
from lakelog.reads.streams.table import StreamTable, StreamView, to_dropped
from lakelog.reads.streams.uncommitted.follow import UncommittedFollower
from lakelog.reads.streams.uncommitted.opening import open_uncommitted_table
from lakelog.reads.streams.uncommitted.table import UncommittedStreamTable
from lakelog.storage.parquet.read_counts import ReadCounts

_KEEP_EVERY_MS: Final = 15_000
"""How often a waiting reader reports its presence."""

_LEAVE_S: Final = 2.0
"""How long a closing reader waits for the metastore's answer."""


@dataclass(frozen=True)
class OpenStream:
    """A stream that can be followed.

    Args:
        follower: The source of its changes.
        points: Where it begins, for each table.
        positions: The consumer's positions, by table (`database.table`); tables without one are missing.
        keep: Stores positions of the consumer; called without positions it reports the reader's presence. Does nothing
            without a consumer.
        keep_every_s: See `lakelog.reads.streams.subscription.Subscription`.
    """

    follower: Follower
    points: tuple[ResumePoint, ...]
    positions: Mapping[str, Position]
    keep: Callable[[Mapping[str, Position]], None]
    keep_every_s: float | None


def open_stream(
    context: Context,
    tables: Sequence[TableInfo],
    request: StreamRequest,
    *,
    holder: str,
    points: Sequence[ResumePoint] = (),
    on_begin: Callable[[Sequence[ResumePoint]], None] | None = None,
) -> OpenStream:
    """Opens a stream of tables, each named once; blocks on the metastore.

    Args:
        context: The metastore, stores, caches and clock.
        tables: At least one.
        request: What to show.
        holder: The reader's name, for people who look at the consumer.
        points: The places of a reader that goes on, one for each table in their order; none: it begins.
        on_begin: Called, from the thread that follows, with the new beginnings when a position has expired; None: no
            call.

    Raises:
        InvalidArgument: Something is not possible; named.
        Fenced: Another reader has opened the consumer since this reader began.
    """
    parsed = StreamOptions(request.options)
    tables = _with_begun_schemas(context.metastore, tables, points)
    names = [str(table.name) for table in tables]
    views = [
        _to_view(table, parsed, request.columns.get(name), request.filters.get(name))
        for table, name in zip(tables, names, strict=True)
    ]
    consumers = _open_consumers(context.metastore, tables, parsed.get(CONSUMER_ID), holder, points)
    leased = LeasedStart(context.leased_reads)
    saver = (
        _PositionSaver(context.metastore, dict(zip(names, consumers, strict=True)), leased, holder[:256])
        if consumers
        else None
    )
    close = leased.end if saver is None else saver.close
    try:
        return _begin(context, tables, parsed, views, consumers, points, leased, saver, close, on_begin)
    except BaseException:
        # There is no reader then, and the consumer should not be shown with one.
        close()
        raise


def _begin(
    context: Context,
    tables: Sequence[TableInfo],
    parsed: StreamOptions,
    views: Sequence[StreamView],
    consumers: Sequence[Consumer],
    points: Sequence[ResumePoint],
    leased: LeasedStart,
    saver: _PositionSaver | None,
    close: Callable[[], None],
    on_begin: Callable[[Sequence[ResumePoint]], None] | None,
) -> OpenStream:
    """Does the second part of `open_stream`, after checks and opening: finds the beginning, and what follows it."""
    names = [str(table.name) for table in tables]
    positions = {
        name: Position(each.snapshot_id, each.snapshot_uuid)
        for name, each in zip(names, consumers, strict=False)
        if each.snapshot_id is not None
    }
    if points:
        starts = [_go_on(point, parsed) for point in points]
        starts = _place_in_log(context, tables, views, starts, parsed, go_on_by_log)
    elif positions:
        _check_positions(consumers, names)
        starts = resume(context.metastore, tables, parsed, consumers)
    else:
        starts = find_starts(context.metastore, tables, parsed)
        starts = _place_in_log(context, tables, views, starts, parsed, begin_by_log)
    epochs = [each.epoch for each in consumers] or [0] * len(tables)
    is_new = bool(consumers) and not positions
    restarts = is_new or (bool(positions) and any(start.full_at is not None for start in starts))
    if restarts:
        leased.begin(zip(tables, starts, strict=True))
    keep = saver or _forget
    if points and saver is not None:
        saver({})
    moved = {
        name: Position(start.after, start.after_uuid)
        for name, start in zip(names, starts, strict=True)
        if name in positions and not points and start.full_at is None and start.after > positions[name].snapshot_id
    }
    if moved:
        # Changes in between have expired. From here on all are retained again, even if the reader never gets so far.
        positions |= moved
        keep(moved)
    if is_new and not points and parsed.mode == "latest":
        # The newest snapshot now is not the newest when the reader returns, which would then miss what it did not
        # finish.
        positions = {name: Position(at.after, at.after_uuid) for name, at in zip(names, starts, strict=True)}
        keep(positions)

    def to_points(begins: Sequence[StreamStart]) -> tuple[ResumePoint, ...]:
        return tuple(
            ResumePoint(
                table.table_uuid,
                start.after,
                start.after_uuid,
                start.full_at is not None,
                start.skip_rows,
                epoch,
                table.schema.schema_id,
            )
            for table, start, epoch in zip(tables, begins, epochs, strict=True)
        )

    def begin(begins: Sequence[StreamStart]) -> None:
        if on_begin is not None:
            on_begin(to_points(begins))

    counts = ReadCounts()
    # Several tables are shown commit by commit, and a reader that resumes within one counts its rows.
    shows_uncommitted = len(tables) == 1 and on_begin is None and not points
    opened = [
        _open_table(context, table, view, counts, parsed, start, shows_uncommitted=shows_uncommitted)
        for table, view, start in zip(tables, views, starts, strict=True)
    ]
    shows_early = isinstance(opened[0], UncommittedStreamTable)
    kind = UncommittedFollower if shows_early else TablesFollower
    follower = kind(
        context.metastore,
        list(zip(opened, starts, strict=True)),
        counts,
        last_watermark_ms=parsed.get(SCAN_BOUNDED_WATERMARK),
        expired=parsed.get(EXPIRED_POSITION),
        complete=not parsed.get(SCAN_REMOVE_NORMALIZE),
        on_begin=begin,
        on_close=close,
        # The log is waited for as well.
        ready_watches=None if shows_early else context.ready_watches,
    )
    return OpenStream(
        follower,
        to_points(starts),
        positions,
        keep,
        min(map(_keep_every_s, consumers)) if consumers else None,
    )


def _find_log(table: TableInfo, view: StreamView, options: StreamOptions) -> LogSettings | None:
    """The log that a table's changes should come from; None: they come from its files. Pure."""
    settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
    # Rows as they were written are in the files.
    if not choose_log(options, settings) or (view.raw and table.schema.primary_key):
        return None
    return settings


def _open_table(
    context: Context,
    table: TableInfo,
    view: StreamView,
    counts: ReadCounts,
    options: StreamOptions,
    start: StreamStart,
    *,
    shows_uncommitted: bool,
) -> StreamTable:
    settings = _find_log(table, view, options)
    if settings is None:
        return StreamTable(context, table, view, counts)
    requires_log = options.get(STREAM_READ_MODE) is not None
    if not settings.is_eventual:
        return LogStreamTable(context, table, view, counts, requires_log=requires_log, since_ms=start.first_record_ms)
    # Uncommitted records name no snapshot. Those after an end that a commit sets are not shown.
    if not shows_uncommitted or options.get(SCAN_BOUNDED_WATERMARK) is not None:
        return StreamTable(context, table, view, counts)
    return open_uncommitted_table(context, table, view, counts, requires_log=requires_log)


def _place_in_log(
    context: Context,
    tables: Sequence[TableInfo],
    views: Sequence[StreamView],
    starts: list[StreamStart],
    options: StreamOptions,
    place: LogPlacing,
) -> list[StreamStart]:
    """Where a stream of one table begins or goes on by its log.

    Several tables begin at one moment, which no log knows; and uncommitted records belong to no snapshot.
    """
    if len(tables) > 1:
        return starts
    settings = _find_log(tables[0], views[0], options)
    if settings is None or settings.is_eventual or not comes_from_log(tables[0], settings):
        return starts
    access = LogAccess(context.metastore, context.open_log)
    return [place_by_log(access, tables[0], starts[0], options, place)]


def _open_consumers(
    metastore: Metastore,
    tables: Sequence[TableInfo],
    consumer_id: str | None,
    holder: str,
    points: Sequence[ResumePoint],
) -> list[Consumer]:
    if consumer_id is None:
        return []
    if not points:
        return metastore.open_consumer(consumer_id, [table.table_uuid for table in tables], holder[:256])
    found = []
    for table, point in zip(tables, points, strict=True):
        known = {each.consumer_id: each for each in metastore.list_consumers(table.table_uuid)}
        consumer = known.get(consumer_id)
        if consumer is None or consumer.epoch != point.epoch:
            # The consumer is not opened again: another reader that has taken over meanwhile keeps it.
            what = "was deleted" if consumer is None else f"is read by '{consumer.holder}' by now"
            raise Fenced(
                f"Consumer '{consumer_id}' of table {table.name} {what}, so this reader does not go on with it. "
                "Subscribe again to take over.",
                reason="CONSUMER_FENCED",
                metadata={"consumer_id": consumer_id, "table": str(table.name), "epoch": str(point.epoch)},
            )
        found.append(consumer)
    return found


def _with_begun_schemas(
    metastore: Metastore, tables: Sequence[TableInfo], points: Sequence[ResumePoint]
) -> Sequence[TableInfo]:
    """The tables with the columns that a reader that goes on is being shown."""
    found = list(tables)
    for place, (table, point) in enumerate(zip(tables, points, strict=False)):
        if point.schema_id in (None, table.schema.schema_id):
            continue
        versions = {each.schema_id: each for each in metastore.list_schemas(table.table_uuid)}
        if point.schema_id not in versions:
            raise InvalidArgument(
                f"Table {table.name} has no schema {point.schema_id}. Give back what was sent, or nothing.",
                metadata={"field": "schema_id", "value": str(point.schema_id)},
            )
        found[place] = as_of(table, versions[point.schema_id])
    return found


def _go_on(point: ResumePoint, options: StreamOptions) -> StreamStart:
    """Where a reader with a known place goes on. Pure; what its options skip is still skipped."""
    start = StreamStart(point.snapshot_id, point.snapshot_uuid, skip_rows=point.received_rows)
    if point.from_state:
        since_ms = options.get(STREAM_FILE_CREATION_TIME_MILLIS)
        return replace(start, full_at=point.snapshot_id or None, files_since_ms=since_ms)
    if options.mode == "from-snapshot":
        return replace(start, first_snapshot=options.get(STREAM_SNAPSHOT_ID) or 0)
    if options.mode == "from-timestamp":
        return replace(start, first_time_ms=options.get(STREAM_TIMESTAMP_MILLIS))
    return start


class _PositionSaver:
    """Stores a reader's positions in the metastore.

    Args:
        metastore: Stores them.
        consumers: The consumers by the table's name.
        leased: Leases on their beginning, which end once they have positions.
        holder: The reader's name.
    """

    def __init__(
        self, metastore: Metastore, consumers: Mapping[str, Consumer], leased: LeasedStart, holder: str
    ) -> None:
        self._metastore = metastore
        self._consumers = consumers
        self._leased = leased
        self._holder = holder
        self._is_closed = False

    def __call__(self, positions: Mapping[str, Position]) -> None:
        """Stores positions; without any it reports the reader's presence."""
        moved = [
            ConsumerPosition(
                self._consumers[name].table_uuid, self._consumers[name].epoch, at.snapshot_id, at.snapshot_uuid
            )
            for name, at in positions.items()
        ]
        consumer_id = next(iter(self._consumers.values())).consumer_id
        try:
            if not moved:
                self._renew(self._holder)
                return
            self._metastore.advance_consumer(consumer_id, moved)
        except NotFound as error:
            # The metastore knows only its uuid now.
            names = {each.table_uuid: name for name, each in self._consumers.items()}
            name = names.get(error.metadata.get("table_uuid", ""))
            if name is None or error.reason != "TABLE_NOT_FOUND":
                raise
            raise to_dropped(name) from None
        self._leased.end()

    def close(self) -> None:
        """Releases the leases and reports that the reader left. Idempotent; waits for no unavailable metastore."""
        self._leased.end()
        if self._is_closed:
            return
        self._is_closed = True
        leaving = threading.Thread(target=self._leave, name="lakelog-leave", daemon=True)
        # No thread can start at the end of the interpreter; the metastore then notices by itself that the reader is
        # gone.
        with contextlib.suppress(RuntimeError):
            leaving.start()
            leaving.join(_LEAVE_S)

    def _leave(self) -> None:
        with contextlib.suppress(LakelogError):
            self._renew("")

    def _renew(self, holder: str) -> None:
        consumers = list(self._consumers.values())
        epochs = {each.table_uuid: each.epoch for each in consumers}
        self._metastore.renew_consumer(consumers[0].consumer_id, epochs, holder)


def _check_positions(consumers: Sequence[Consumer], names: Sequence[str]) -> None:
    """Raises InvalidArgument if a consumer has a position in only some of its tables."""
    nowhere = [name for name, each in zip(names, consumers, strict=True) if each.snapshot_id is None]
    if nowhere:
        known = ", ".join(
            f"{name} at {each.snapshot_id}"
            for name, each in zip(names, consumers, strict=True)
            if each.snapshot_id is not None
        )
        consumer_id = consumers[0].consumer_id
        raise InvalidArgument(
            f"Consumer '{consumer_id}' has a position in {known}, but none in {', '.join(nowhere)}: where that begins "
            "decides which commits are shown whole. Set it with "
            f'catalog.table("{nowhere[0]}").consumers.reset("{consumer_id}", ...), or take another consumer id.',
            metadata={"consumer_id": consumer_id, "table": nowhere[0]},
        )


def _keep_every_s(consumer: Consumer) -> float:
    """Reports several times in the span after which an unused consumer expires."""
    lives_ms = consumer.expires_at_ms - consumer.used_at_ms
    return max(min(lives_ms / 4, _KEEP_EVERY_MS) / 1000, 0.05)


def _forget(positions: Mapping[str, Position]) -> None:
    """A reader without a name stores its position itself."""


def _to_view(
    table: TableInfo, options: StreamOptions, columns: Sequence[str] | None, condition: str | None
) -> StreamView:
    if condition is not None:
        parse_filter(condition, table.schema.arrow)
    wanted = without_kind(columns, table.schema)
    names = None if wanted is None else check_columns(wanted, table.schema, str(table.name))
    overwrites = options.get(STREAM_READ_OVERWRITE)
    if overwrites is None:
        overwrites = TableOptions(table.options).get(STREAMING_READ_OVERWRITE)
    raw = options.get(SCAN_REMOVE_NORMALIZE)
    if raw:
        check_raw(table, f"Option '{SCAN_REMOVE_NORMALIZE.key}'")
    if raw and table.schema.primary_key and overwrites:
        if options.get(STREAM_READ_OVERWRITE):
            raise InvalidArgument(
                f"Options '{SCAN_REMOVE_NORMALIZE.key}' and '{STREAM_READ_OVERWRITE.key}' contradict each other: rows "
                "as they were written do not tell what an overwrite took away. Leave one out.",
                reason="CONTRADICTING_OPTIONS",
                metadata={"option": SCAN_REMOVE_NORMALIZE.key, "other_option": STREAM_READ_OVERWRITE.key},
            )
        # The table's option is for readers of its changes.
        overwrites = False
    return StreamView(names, condition, raw=raw, overwrites=overwrites)
