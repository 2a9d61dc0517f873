"""One table as a subscription shows it whose changes come out of the table's log.

It shows what the files would, row for row and in the same order, so that a reader may go on with either. What the log
does not hold, or not in time, is read from the files: overwrites, snapshots from before the log, a log that is too
short, brokers that do not answer. The next snapshots then come from the log again.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import LakelogError, SnapshotExpired
from lakelog.format.rowkind import ROW_KIND_COLUMN, RowKind, decode_kinds
from lakelog.format.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.format.table import TableInfo
from lakelog.log.codecs.decode import DecodedRecords
from lakelog.log.records import FetchedRecords
from lakelog.log.table_codec import load_log_settings, make_codec
from lakelog.options.table_options import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import has_changelog_producer, to_change_columns
from lakelog.reads.changes import TOLD_ROWS, MetastoreStates, NormalizedChanges
from lakelog.reads.reading import make_parser, to_scan_columns
from lakelog.storage.changelog_rules import to_changelog_rules
from lakelog.storage.file_scan import SNAPSHOT_ID_COLUMN, FileScan
from lakelog.storage.read_counts import ReadCounts
from lakelog.storage.routing import route_rows, to_routing
from lakelog.storage.superseded import to_merge_policy
from lakelog.streams.batch import StreamBatch
from lakelog.streams.log_feed import LOG_TOO_SHORT, LogFeed
from lakelog.streams.log_start import can_do_without_log
from lakelog.streams.table import StreamTable, StreamView

if TYPE_CHECKING:
    from lakelog.catalog import Catalog

_log = logging.getLogger(__name__)

_REST_S: Final = 10.0
"""So long files are read before a log that could not be used is tried again."""

Told = list[tuple[Snapshot, FetchedRecords]]


class _Way(enum.Enum):
    """How a snapshot's changes are known."""

    NOTHING = "nothing"
    """It shows none."""
    FILES = "files"
    AS_LOGGED = "as logged"
    """The records are what is shown."""
    NORMALIZED = "normalized"
    """Of the records and the rows that were there before, without updates that change nothing."""
    LOOKED_UP = "looked up"
    """Of both, as the table's changelog has it."""


class LogStreamTable(StreamTable):
    """Implements `StreamTable` by the table's log.

    Args:
        catalog: Where the table is.
        table: With a log.
        view: What to show.
        counts: Told of what is read.
        insists: The log was asked for: where it cannot be used at all, that is an error.
        since_ms: Snapshots are passed over up to the first one of which a record was appended at or after this time, or
            that was committed then; None: none is.
    """

    def __init__(
        self,
        catalog: Catalog,
        table: TableInfo,
        view: StreamView,
        counts: ReadCounts,
        *,
        insists: bool,
        since_ms: int | None = None,
    ) -> None:
        super().__init__(catalog, table, view, counts)
        self._insists = insists
        self._since_ms = since_ms
        self._feed = LogFeed(catalog.metastore, table.table_uuid, catalog.open_log)
        self._codec = make_codec(table, table.schema)
        self._is_upsert = load_log_settings(table).is_upsert
        self._options = TableOptions(table.options)
        self._routing = to_routing(table.schema, self._options)
        self._condition = make_parser(view.filter)(table.schema)
        self._store = catalog.open_store(table)
        self._rests_until_s = 0.0

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """See `StreamTable`."""
        for way, group in itertools.groupby(snapshots, self._find_way):
            if way is _Way.NOTHING:
                continue
            if way is _Way.FILES or time.monotonic() < self._rests_until_s:
                yield from self._read_files(list(group))
            else:
                yield from self._read_log(way, list(group))

    def _find_way(self, snapshot: Snapshot) -> _Way:
        content, changelog = snapshot.log, snapshot.changelog
        if snapshot.kind is SnapshotKind.COMPACT and changelog is not ChangelogState.ATTACHED:
            return _Way.NOTHING
        if content is LogContent.NONE or snapshot.is_told_late or snapshot.schema_id != self._table.schema.schema_id:
            return _Way.FILES
        if not self._table.schema.primary_key:
            return _Way.AS_LOGGED
        if snapshot.added_rows > TOLD_ROWS:
            # All of a snapshot is in memory here; of files some ranges of keys are.
            return _Way.FILES
        if content is LogContent.CHANGELOG:
            if not self._is_upsert:
                return _Way.AS_LOGGED
            is_lookup = self._options.get(CHANGELOG_PRODUCER) == "lookup"
            return _Way.LOOKED_UP if is_lookup else _Way.FILES
        return _Way.NORMALIZED if changelog is ChangelogState.NONE else _Way.LOOKED_UP

    def _read_log(self, way: _Way, snapshots: list[Snapshot]) -> Iterator[StreamBatch]:
        done = snapshots[0].snapshot_id - 1
        feed = self._feed.read(snapshots)
        while True:
            try:
                told = next(feed, None)
            except LakelogError as error:
                if not self._can_do_without(error):
                    raise
                _log.warning("%s: its files are read instead of its log: %s", self.name, error)
                self._feed.leave()
                self._rests_until_s = time.monotonic() + (0 if isinstance(error, SnapshotExpired) else _REST_S)
                break
            if told is None:
                return
            for batch in self._to_batches(way, self._without_earlier(told)):
                ids: int = batch.column(SNAPSHOT_ID_COLUMN)[0].as_py()
                yield StreamBatch(batch.drop_columns([SNAPSHOT_ID_COLUMN]), ids, self.name)
            done = told[-1][0].snapshot_id
        yield from self._read_files([each for each in snapshots if each.snapshot_id > done])

    def _read_files(self, snapshots: list[Snapshot]) -> Iterator[StreamBatch]:
        if self._since_ms is not None:
            since_ms = self._since_ms
            snapshots = [each for each in snapshots if each.committed_at_ms >= since_ms]
            self._since_ms = None if snapshots else since_ms
        if snapshots:
            yield from super().read_changes(snapshots)

    def _without_earlier(self, told: Told) -> Told:
        """Without what is passed over: a snapshot is shown as a whole, however its partitions disagree."""
        if self._since_ms is None:
            return told
        for place, (snapshot, records) in enumerate(told):
            if max(snapshot.committed_at_ms, int(records.timestamps_ms.max())) >= self._since_ms:
                self._since_ms = None
                return told[place:]
        return []

    def _can_do_without(self, error: LakelogError) -> bool:
        if self._feed.is_closed:
            return False
        if isinstance(error, SnapshotExpired):
            return error.reason == LOG_TOO_SHORT
        return can_do_without_log(error, insists=self._insists)

    def _to_batches(self, way: _Way, told: Told) -> Iterator[pa.RecordBatch]:
        if way is _Way.AS_LOGGED:
            for snapshot, records in told:
                yield from self._show(snapshot, records)
            return
        if not told:
            return
        changes = self._plan(way)
        part: list[tuple[Snapshot, pa.Table]] = []
        count = 0
        for snapshot, records in told:
            if part and count + len(records) > TOLD_ROWS:
                yield from self._tell(changes, part)
                part, count = [], 0
            decoded = self._codec.decode(records, topic=self._feed.topic, columns=changes.told_columns)
            kinds = pa.field(ROW_KIND_COLUMN, pa.int8())
            part.append((snapshot, decoded.rows.append_column(kinds, pa.array(decoded.kinds))))
            count += len(records)
        yield from self._tell(changes, part)

    def _tell(self, changes: NormalizedChanges, part: list[tuple[Snapshot, pa.Table]]) -> Iterator[pa.RecordBatch]:
        names = self._columns()
        schema = changes.returned_schema
        if has_changelog_producer(self._table):
            schema = self._written_schema(tuple(names))
        for batch in changes.tell_rows(part):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _plan(self, way: _Way) -> NormalizedChanges:
        schema, looked_up = self._table.schema, way is _Way.LOOKED_UP
        columns = to_scan_columns(tuple(self._columns()), schema, self._condition)
        if looked_up:
            # Whether an update is told depends on columns that nobody may have asked for.
            columns = dataclasses.replace(columns, read=tuple(schema.arrow))
        return NormalizedChanges(
            MetastoreStates(self._catalog.metastore),
            self._store,
            self._table,
            (),
            (),
            columns,
            to_merge_policy(schema, self._options),
            self._catalog.caches,
            rules=to_changelog_rules(schema, self._options) if looked_up else None,
        )

    def _written_schema(self, names: tuple[str, ...]) -> pa.Schema:
        columns = to_change_columns(names, self._table.schema, self._condition)
        return FileScan(self._store, [], self._table.schema, columns).returned_schema

    def _show(self, snapshot: Snapshot, records: FetchedRecords) -> Iterator[pa.RecordBatch]:
        """A snapshot's records as they are, in the order of its files."""
        names = tuple(self._columns())
        columns = to_change_columns(names, self._table.schema, self._condition)
        schema = FileScan(self._store, [], self._table.schema, columns).returned_schema
        needed = {
            *(each.name for each in columns.read),
            *self._table.schema.primary_key,
            *self._table.schema.partition_by,
            *self._routing.bucket_key,
        }
        wanted = [name for name in self._table.schema.arrow.names if name in needed]
        decoded = self._codec.decode(records, topic=self._feed.topic, columns=wanted)
        rows = self._in_order(decoded, records)
        if columns.filter is not None:
            rows = rows.filter(columns.filter)
        own: Mapping[str, object] = {
            ROW_KIND_COLUMN: decode_kinds(rows.column(ROW_KIND_COLUMN)),
            SNAPSHOT_ID_COLUMN: pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), rows.num_rows),
        }
        shown = pa.Table.from_arrays(
            [own[name] if name in own else rows.column(name) for name in schema.names], schema=schema
        )
        yield from (batch for batch in shown.combine_chunks().to_batches() if batch.num_rows)

    def _in_order(self, decoded: DecodedRecords, records: FetchedRecords) -> pa.Table:
        """The rows by partition, bucket and place, each old row right before its new one, with `_row_kind`."""
        places = records.indexes.to_numpy(zero_copy_only=False)
        groups = sorted(route_rows(decoded.rows, self._routing), key=lambda each: (each.partition, each.bucket))
        found = [np.arange(len(places)) if each.positions is None else each.positions for each in groups]
        order = np.concatenate([each[np.argsort(places[each], kind="stable")] for each in found])
        rows, kinds = decoded.rows, decoded.kinds
        if decoded.before is not None:
            # Behind all rows stand the old ones; those that there are go right before theirs.
            rows = pa.concat_tables([rows, decoded.before])
            kinds = np.concatenate([kinds, np.full(len(order), RowKind.UPDATE_BEFORE, np.int8)])
            pairs = np.stack([order + len(order), order], axis=1)
            is_there = np.stack([decoded.has_before[order], np.ones(len(order), bool)], axis=1)
            order = pairs[is_there]
        kind = pa.field(ROW_KIND_COLUMN, pa.int8())
        return rows.append_column(kind, pa.array(kinds)).take(pa.array(order))

    def close(self) -> None:
        """See `StreamTable`."""
        self._feed.close()
