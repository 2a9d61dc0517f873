"""Reads a table as a stream for `readStream.format("lakelog")`.

Spark asks the driver program how far the table is and which tasks make a batch (`lakelog/spark/java`); in Spark
Connect it asks a process that it starts for that. Tasks read. The first batches show the initial rows, if the stream
begins with them; the next ones whole snapshots.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.client.leased_reads import LeasedReads
from lakelog.client.metastore.metastore import Metastore, SnapshotPage, WatchPosition
from lakelog.errors import HistoryDiverged, InvalidArgument, NotFound, SnapshotExpired
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.continued_schema import is_stored_as
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.streams import EXPIRED_POSITION, SCAN_BOUNDED_WATERMARK, SCAN_REMOVE_NORMALIZE
from lakelog.reads.change_plan import describe_skipped, find_overwrites
from lakelog.reads.continued_columns import ContinuedColumns, find_shown
from lakelog.reads.expired_position import GO_ON_WITH_OPTION, to_expired_position
from lakelog.reads.stream_start import start_over
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.executor.read_changes import ChangeSplit, read_split
from lakelog.spark.executor.read_log import read_log_split
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.reader import pick_given_columns
from lakelog.spark.stream.beginning import find_beginning
from lakelog.spark.stream.first_rows import FirstRows, RowsAt, plan_row_splits
from lakelog.spark.stream.limits import TriggerLimits, pick_last
from lakelog.spark.stream.log_high_watermark import LogHighWatermark
from lakelog.spark.stream.log_splits import LogSplit
from lakelog.spark.stream.offsets import StreamOffset, check_history, check_table
from lakelog.spark.stream.read_options import StreamReadOptions, to_change_schema
from lakelog.spark.stream.sizes import ChangelogSizes
from lakelog.spark.stream.splits import plan_change_splits, plan_logged_splits
from lakelog.spark.stream.waiting import SnapshotWaiter
from lakelog.spark.task_errors import brief_errors

_log = logging.getLogger(__name__)

_PAGE: Final = 1000
_WAIT_S: Final = 1.0
"""How long an idle stream waits before it answers that nothing is new; its end can be delayed by this time."""

_CALL_EVERY_S: Final = 30.0
"""How long an idle stream relies on reports of the metastore, without a call."""

_GO_ON: Final = (
    "Load the stream again with columns and filters that the table has now: with the same checkpoint the new query "
    "goes on with snapshot {}."
)

_MAX_SNAPSHOTS: Final = 50_000
"""Snapshots of one batch, whatever its limits: the metastore plans ranges of twice as many."""


class LakelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table's changes, batch by batch.

    SUBTLE: The constructor makes no call and raises nothing, because PySpark stops a reader that could not be made,
    which fails with another message than ours.

    Args:
        connection: To the metastore.
        source: The options of the query; they were checked when it was loaded.
        schema: The columns of the stream, as users see them.
        returned: The columns that tasks return: the same ones in another order, kinds of rows as numbers; None: they
            are as users see them.
        table_uuid: The table that was loaded; None: the one that has the name when the query starts.
    """

    def __init__(
        self,
        connection: SparkConnection,
        source: SourceOptions,
        schema: StructType,
        returned: StructType | None = None,
        table_uuid: str | None = None,
    ) -> None:
        self._connection = connection
        self._source = source
        self._schema = schema
        self._returned = schema if returned is None else returned
        self._table_uuid = table_uuid
        self._table: TableInfo | None = None
        self._last: int | None = None
        self._shown_until = 0
        self._last_offset: StreamOffset | None = None
        self._last_until_s = 0.0
        self._newest: StreamOffset | None = None
        self._waiter: SnapshotWaiter | None = None
        self._log_high_watermark: LogHighWatermark | None = None
        self._first_rows: FirstRows | None = None
        self._leased = ExitStack()
        self._leased_snapshot: int | None = None

    @brief_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins."""
        table = self._find_table()
        start = find_beginning(self._metastore, table, self._read_options)
        offset = StreamOffset(
            table.table_uuid,
            start.after,
            start.after_uuid or self._find_uuid(table, start.after),
            start.full_at is not None,
            start.files_since_ms,
            start.first_snapshot,
            start.first_time_ms,
            shows_overwrites=self._read_options.shows_overwrites(table),
            is_initial=True,
        )
        return offset.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns a limit to Spark; all limits are applied together, and Spark has no name for that."""
        limits = self._read_options.limits
        if limits.files is not None:
            return ReadMaxFiles(limits.files)
        if limits.size_bytes is not None:
            return ReadMaxBytes(limits.size_bytes)
        return ReadAllAvailable() if limits.rows is None else ReadMaxRows(limits.rows)

    @brief_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remembers how far the table is; later snapshots are left to the next run."""
        page = self._metastore.list_snapshots(self._find_table().table_uuid, limit=1)
        self._last = self._find_shown_until(page)

    @brief_errors
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the batch after `start`; `start` itself if there is nothing to show."""
        offset = StreamOffset.from_json(start)
        end = None if self._is_known_as_last(offset) else self._find_end(offset, limit)
        if end is None and self._last is None and self._wait(offset):
            end = self._find_end(offset, limit)
        return dict(start) if end is None else end.to_json()

    def stop(self) -> None:
        """Ends the wait for snapshots, and releases the lease."""
        self._leased.close()
        if self._waiter is not None:
            self._waiter.close()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest known snapshot of the table, for the progress of the query."""
        return None if self._newest is None else self._newest.to_json()

    @brief_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch: the same ones for the same offsets."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        table = self._find_table(first)
        check_table(last, table.table_uuid, str(table.name))
        if first == last or last.is_jump or last.is_initial:
            return []
        first = last.began or first
        splits: Sequence[ChangeSplit] | Sequence[LogSplit]
        if first.has_rows_before:
            self._lease_rows(table, first)
            rows = self._find_rows(table, first)
            paths = self._pick_paths(rows, first, last)
            plan, splits = plan_row_splits(self._metastore, rows, self._read_options.filter, paths)
        else:
            plan, splits = self._plan_changes(table, first, last)
        _check_plan(plan, last)
        return list(splits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a task. Runs on executors."""
        target = to_arrow_schema(self._returned, timezone="UTC")
        if isinstance(partition, LogSplit):
            return read_log_split(partition, target, self._source.filter)
        return read_split(cast(ChangeSplit, partition), target, self._source.filter)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks need the columns to return, but not the position of the stream.
        dropped = ("_table", "_newest", "_waiter", "_last_offset", "_log_high_watermark", "_first_rows", "_leased")
        return self.__dict__ | dict.fromkeys(dropped)

    @property
    def _metastore(self) -> Metastore:
        return open_metastore(self._connection)

    @property
    def _read_options(self) -> StreamReadOptions:
        return StreamReadOptions.of(self._source)

    @property
    def _shows_raw(self) -> bool:
        return bool(self._read_options.options.get(SCAN_REMOVE_NORMALIZE))

    def _find_shown_until(self, page: SnapshotPage) -> int:
        """How far the stream can show the table: rows as written at once, changes once they are complete."""
        return page.latest_snapshot_id if self._shows_raw else page.complete_until

    def _find_published_until(self, table: TableInfo, offset: StreamOffset, until: int) -> int:
        """How far a stream from the log can go at most: to the log's high watermark."""
        if until <= offset.snapshot_id or not self._read_options.reads_log(table):
            return until
        if self._log_high_watermark is None:
            self._log_high_watermark = LogHighWatermark(self._metastore, table.table_uuid)
        # With AvailableNow an answer that nothing is new would end the query.
        return self._log_high_watermark.wait(offset.snapshot_id, until, _WAIT_S if self._last is None else None)

    def _find_table(self, offset: StreamOffset | None = None) -> TableInfo:
        """The table as it was when the query started, after a check that the offset belongs to it."""
        if self._table is None:
            found = self._metastore.get_table(parse_table_name(self._source.table))
            if self._table_uuid not in (None, found.table_uuid):
                # Its columns have other ids, by which Spark would read the files.
                raise HistoryDiverged(
                    f"Table {found.name} was dropped and made again since this stream was loaded: load it again.",
                    metadata={"table": str(found.name), "table_uuid": found.table_uuid},
                )
            check_stream_schema(found, self._schema, self._source)
            self._table = found
        if offset is not None:
            check_table(offset, self._table.table_uuid, self._source.table)
        return self._table

    def _is_known_as_last(self, offset: StreamOffset) -> bool:
        """Whether a call found nothing after an offset a short time ago, and the metastore reports what comes since."""
        is_watched = self._waiter is not None and not self._waiter.is_over
        return is_watched and offset == self._last_offset and time.monotonic() < self._last_until_s

    def _find_end(self, offset: StreamOffset, limit: ReadLimit) -> StreamOffset | None:
        """The end of the batch after an offset; None: there is nothing to show yet."""
        table = self._find_table(offset)
        page = self._load_page(table, offset.snapshot_id)
        check_history(offset, page, str(table.name))
        self._lease_rows(table, offset)
        if offset.has_rows_before:
            is_gone = offset.snapshot_id < page.earliest_snapshot_id
        else:
            is_gone = offset.snapshot_id + 1 < page.earliest_change_id
        if is_gone:
            return self._start_over(table, offset, page)
        limits = TriggerLimits() if isinstance(limit, ReadAllAvailable) else self._read_options.limits
        if offset.has_rows_before:
            return self._end_rows(table, offset, limits)
        self._shown_until = self._find_shown_until(page)
        until = self._shown_until if self._last is None else min(self._shown_until, self._last)
        until = min(self._find_published_until(table, offset, until), offset.snapshot_id + _MAX_SNAPSHOTS)
        try:
            last = self._pick_last(table, offset, page, until, limits)
        except SnapshotExpired:
            # It expired since the page was loaded.
            return self._start_over(table, offset, self._load_page(table, offset.snapshot_id))
        if last is None:
            if self._shown_until <= offset.snapshot_id:
                self._last_offset, self._last_until_s = offset, time.monotonic() + _CALL_EVERY_S
            return None
        last = self._end_before_break(table, offset, page, last)
        return self._end(table, offset, snapshot_id=last.snapshot_id, snapshot_uuid=last.snapshot_uuid)

    def _load_page(self, table: TableInfo, after: int) -> SnapshotPage:
        """The snapshots from one on."""
        try:
            page = self._metastore.list_snapshots(table.table_uuid, after=max(after - 1, 0), limit=_PAGE)
        except NotFound as error:
            raise NotFound(
                f"Table {table.name} was dropped, so no change will come any more. If a table of that name exists "
                "again, it is another one: read it with a new checkpoint.",
                reason=error.reason,
                metadata=error.metadata,
            ) from error
        if page.latest_snapshot_id:
            newest = page.snapshots[-1] if page.snapshots else None
            at = newest is not None and newest.snapshot_id == page.latest_snapshot_id
            uuid = newest.snapshot_uuid if newest is not None and at else ""
            self._newest = StreamOffset(table.table_uuid, page.latest_snapshot_id, uuid)
        return page

    def _find_uuid(self, table: TableInfo, snapshot_id: int) -> str:
        """The uuid of a snapshot; empty for none and for an expired one."""
        if snapshot_id == 0:
            return ""
        found = self._load_page(table, snapshot_id).snapshots
        return next((each.snapshot_uuid for each in found if each.snapshot_id == snapshot_id), "")

    def _pick_last(
        self, table: TableInfo, offset: StreamOffset, page: SnapshotPage, until: int, limits: TriggerLimits
    ) -> Snapshot | None:
        bound = self._read_options.options.get(SCAN_BOUNDED_WATERMARK)
        if until <= offset.snapshot_id:
            return None
        if limits.are_none and bound is None and until > offset.snapshot_id + _PAGE - 1:
            return self._load_page(table, until).snapshots[0]
        as_written = self._read_options.options.get(SCAN_REMOVE_NORMALIZE)
        sizes = ChangelogSizes(self._metastore, table.table_uuid, until)
        return pick_last(
            self._iterate(table, page, until, bound),
            offset,
            limits,
            shows_overwrites=self._read_options.shows_overwrites(table),
            measure_changelog=None if as_written or limits.are_none else sizes.measure,
        )

    def _iterate(self, table: TableInfo, page: SnapshotPage, until: int, bound: int | None) -> Iterator[Snapshot]:
        """Snapshots from a page on, up to a given one, or to the first whose watermark is after the bound."""
        while True:
            for each in page.snapshots:
                if each.snapshot_id > until or (
                    bound is not None and each.watermark_ms is not None and each.watermark_ms > bound
                ):
                    return
                yield each
            if not page.snapshots or page.snapshots[-1].snapshot_id >= until:
                return
            page = self._load_page(table, page.snapshots[-1].snapshot_id + 1)

    def _wait(self, offset: StreamOffset) -> bool:
        """Waits a short time for a snapshot that is not shown yet: Spark asks again, and may want to stop meanwhile.

        Returns:
            Whether there is one.
        """
        if self._waiter is None or self._waiter.is_over:
            position = WatchPosition(offset.table_uuid, offset.snapshot_id, offset.snapshot_uuid)
            self._waiter = SnapshotWaiter(self._metastore, position, complete=not self._shows_raw)
        return self._waiter.wait(max(self._shown_until, offset.snapshot_id), _WAIT_S)

    def _start_over(self, table: TableInfo, offset: StreamOffset, page: SnapshotPage) -> StreamOffset:
        """Where a stream goes on after its next change has expired."""
        policy = self._read_options.options.get(EXPIRED_POSITION)
        if policy == "fail":
            raise _expired(table, offset, page.earliest_change_id, page.latest_snapshot_id)
        (start,) = start_over(self._metastore, [table], policy)
        return StreamOffset(
            table.table_uuid,
            start.after,
            self._find_uuid(table, start.after),
            has_rows_before=start.full_at is not None,
            is_jump=True,
            shows_overwrites=self._read_options.shows_overwrites(table),
        )

    def _end(self, table: TableInfo, start: StreamOffset, **moved: Any) -> StreamOffset:
        """The end of a new batch, with everything about the batch that could change before a repetition."""
        shows = self._read_options.shows_overwrites(table)
        # Spark's checkpoint stores no offset before the first batch: it asks again, and the table has changed.
        began = start if start.is_initial else None
        return dataclasses.replace(start, is_jump=False, shows_overwrites=shows, is_initial=False, began=began, **moved)

    def _end_rows(self, table: TableInfo, start: StreamOffset, limits: TriggerLimits) -> StreamOffset:
        """The end of a batch of initial rows."""
        if not limits.are_none:
            found = self._find_first_rows(self._find_rows(table, start))
            found.check_count(start.file_count)
            done = found.pick_end(start.files_done, limits)
            if done < found.file_count:
                return self._end(table, start, files_done=done, file_count=found.file_count)
        return self._end(table, start, has_rows_before=False, rows_since_ms=None, files_done=0, file_count=None)

    def _find_rows(self, table: TableInfo, offset: StreamOffset) -> RowsAt:
        continued = self._to_continued(table)
        return RowsAt(
            table, offset.snapshot_id, offset.rows_since_ms, baseline=not self._shows_raw, continued=continued
        )

    def _find_first_rows(self, rows: RowsAt) -> FirstRows:
        """All files of the initial rows; they do not change until all are read."""
        if self._first_rows is None:
            self._first_rows = FirstRows.find(self._metastore, rows)
        return self._first_rows

    def _pick_paths(self, rows: RowsAt, first: StreamOffset, last: StreamOffset) -> set[str] | None:
        """The files of a batch of first rows; None: all."""
        if not first.files_done and not last.has_rows_before:
            return None
        found = self._find_first_rows(rows)
        found.check_count(last.file_count if last.has_rows_before else first.file_count)
        return found.pick_paths(first.files_done, last.files_done if last.has_rows_before else None)

    def _lease_rows(self, table: TableInfo, offset: StreamOffset) -> None:
        """Leases the stream's first snapshot and all later ones while its initial rows are read (reliability C7)."""
        wanted = offset.snapshot_id if offset.has_rows_before else None
        if wanted == self._leased_snapshot:
            return
        self._leased.close()
        self._leased_snapshot, self._first_rows = wanted, None
        if wanted:
            self._leased.enter_context(LeasedReads(self._metastore).reading(table, wanted, at_once=True))

    def _plan_changes(
        self, table: TableInfo, first: StreamOffset, last: StreamOffset
    ) -> tuple[Plan, Sequence[ChangeSplit] | Sequence[LogSplit]]:
        # SUBTLE: the end of a batch decides, not its start, which has the setting of the batch before.
        kept = last.shows_overwrites
        overwrites = self._read_options.shows_overwrites(table) if kept is None else kept
        try:
            plan, splits = self._plan_splits(table, first, last.snapshot_id, overwrites=overwrites)
        except SnapshotExpired as error:
            page = self._metastore.list_snapshots(table.table_uuid, limit=1)
            raise _expired(table, first, page.earliest_change_id, page.latest_snapshot_id) from error
        except NotFound as error:
            if error.reason != "SNAPSHOT_NOT_FOUND":
                raise
            page = self._load_page(table, last.snapshot_id)
            check_history(last, page, str(table.name))
            raise
        skipped = [] if overwrites else find_overwrites(plan.range_snapshots)
        if skipped:
            _log.warning("%s", describe_skipped(table.name, skipped))
        return plan, splits

    def _plan_splits(
        self, table: TableInfo, first: StreamOffset, until: int, *, overwrites: bool
    ) -> tuple[Plan, Sequence[ChangeSplit] | Sequence[LogSplit]]:
        read_options, continued = self._read_options, self._to_continued(table)
        what = self._metastore, table, first.snapshot_id, until, read_options.filter
        if read_options.reads_log(table):
            requires_log = read_options.requires_log
            return plan_logged_splits(
                *what, overwrites=overwrites, offset=first, continued=continued, requires_log=requires_log
            )
        return plan_change_splits(*what, raw=self._shows_raw, overwrites=overwrites, offset=first, continued=continued)

    def _to_continued(self, table: TableInfo) -> ContinuedColumns:
        return ContinuedColumns(table, find_shown(table, self._schema.names, self._read_options.filter), _GO_ON)

    def _end_before_break(self, table: TableInfo, offset: StreamOffset, page: SnapshotPage, last: Snapshot) -> Snapshot:
        """The last snapshot up to one that the stream cannot show with the columns that it began with.

        Raises:
            InvalidArgument: There is no snapshot to show before that.
        """
        if last.schema_id <= table.schema.schema_id:
            return last
        versions = {each.schema_id: each for each in self._metastore.list_schemas(table.table_uuid)}
        continued = self._to_continued(table)
        if not continued.find_breaks(versions[last.schema_id]):
            return last
        following = [each for each in page.snapshots if each.snapshot_id > offset.snapshot_id]
        continued.check(following[:1], versions)
        # What was dropped stays so, thus all of them are before the first one that breaks.
        shown = [each for each in following if not continued.find_breaks(versions[each.schema_id])]
        return min(shown[-1], last, key=lambda each: each.snapshot_id)

    def reads_natively(self, schema_ids: Collection[int]) -> bool:
        """Whether Spark's own reader shows files of these versions of the schema as they are to be shown."""
        table = self._find_table()
        others = set(schema_ids) - {table.schema.schema_id}
        if not others:
            return True
        versions = {each.schema_id: each for each in self._metastore.list_schemas(table.table_uuid)}
        names = self._to_continued(table).shown
        fields = [field for field in table.schema.arrow if field.name in names]
        return all(is_stored_as(field, versions[each]) for field in fields for each in others)


def _check_plan(plan: Plan, last: StreamOffset) -> None:
    """Raises HistoryDiverged if the plan differs from the checkpoint. Pure."""
    found = plan.snapshot
    assert found is not None, "it was asked for by its number"
    page = SnapshotPage((found,), found.snapshot_id, found.snapshot_id, found.snapshot_id)
    check_history(last, page, str(plan.table.name))


def check_stream_schema(table: TableInfo, schema: StructType, source: SourceOptions) -> None:
    """Checks the columns of a stream, which users can give, against the table. Pure.

    Raises:
        InvalidArgument: They do not fit; or new and removed rows could not be distinguished.
    """
    known = to_change_schema(table, StreamReadOptions.of(source).names(table))
    pick_given_columns(schema, known, table.schema.primary_key, str(table.name))
    if table.schema.primary_key and ROW_KIND_COLUMN not in schema.names:
        raise InvalidArgument(
            f"The stream of {table.name} would have no column {ROW_KIND_COLUMN}, by which rows that came are told from "
            "rows that went: lakelog.spark.install was not called in this process. Call it, or give the option "
            f"'metadata-columns' = '{ROW_KIND_COLUMN}'.",
            metadata={"column": ROW_KIND_COLUMN},
        )


def _expired(table: TableInfo, offset: StreamOffset, earliest: int, latest: int) -> SnapshotExpired:
    return to_expired_position(
        "The checkpoint",
        str(table.name),
        offset.snapshot_id,
        earliest=earliest,
        latest=latest,
        remedy=f"begin with a new checkpoint, or {GO_ON_WITH_OPTION}",
    )
