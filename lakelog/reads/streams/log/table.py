"""A table of a subscription whose changes come from the table's log.

It shows the same rows in the same order as the files would, so a reader can go on with either. What the log does not
hold, or not in time, is read from the files: overwrites, snapshots from before the log, a log that is too short,
brokers that do not answer. The next snapshots then come from the log again.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from lakelog.clock import ForwardClock
from lakelog.context import Context
from lakelog.errors import LakelogError, SnapshotExpired
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.log.records import FetchedRecords
from lakelog.reads.changes import EMITTED_ROWS, MetastoreStates
from lakelog.reads.log.changes import LogChanges
from lakelog.reads.log.sources import ChangeSource, ChangeSources, can_do_without_log
from lakelog.reads.reading import make_parser
from lakelog.reads.streams.batch import StreamBatch
from lakelog.reads.streams.log.feed import LogFeed
from lakelog.reads.streams.table import StreamTable, StreamView
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_log = logging.getLogger(__name__)

LoggedCommits = list[tuple[Snapshot, FetchedRecords]]

_REST_S: Final = 10.0
"""How long files are read before a log that failed is tried again."""

_WORTH_SEEKING_ROWS: Final = 50_000
"""Above this many rows from files, their records are not fetched just to be skipped: seeking takes some 10 ms."""


class LogStreamTable(StreamTable):
    """Implements `StreamTable` by the table's log.

    Args:
        context: The metastore, stores, caches and clock.
        table: A table with a log.
        view: What to show.
        counts: Counts what is read.
        requires_log: Whether the user requested the log: it is an error if it cannot be used at all.
        since_ms: Skip snapshots up to the first one that has a record appended at or after this time, or that was
            committed then; None: skip none.
    """

    def __init__(
        self,
        context: Context,
        table: TableInfo,
        view: StreamView,
        counts: ReadCounts,
        *,
        requires_log: bool,
        since_ms: int | None = None,
    ) -> None:
        super().__init__(context, table, view, counts)
        self._requires_log = requires_log
        self._since_ms = since_ms
        self._feed = LogFeed(context.metastore, table.table_uuid, context.open_log)
        self._change_sources = ChangeSources.of(table)
        self._changes = self._make_changes(table, None)
        self._rests_until_s = 0.0
        self._clock = ForwardClock(context.clock)

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """See `StreamTable`."""
        self._follow_schema(snapshots)
        for source, group in itertools.groupby(snapshots, self._find_source):
            if source is ChangeSource.NOTHING:
                continue
            if source is ChangeSource.FILES or time.monotonic() < self._rests_until_s:
                yield from self._read_files_of(list(group))
            else:
                yield from self._read_log(source, list(group))

    def _make_changes(self, table: TableInfo, written: TableSchema | None) -> LogChanges:
        return LogChanges(
            table,
            tuple(self._columns()),
            make_parser(self._view.filter)(table.schema),
            self._context.open_store(table),
            MetastoreStates(self._context.metastore),
            self._context.caches,
            written,
        )

    def _follow_schema(self, snapshots: Sequence[Snapshot]) -> None:
        """Reads records from now on in the version of the schema that snapshots have."""
        schema_id = snapshots[0].schema_id
        # Records of snapshots before the stream's version are not read: they may lack columns that it shows.
        if schema_id <= self._change_sources.schema.schema_id:
            return
        versions = {each.schema_id: each for each in self._context.metastore.list_schemas(self._table.table_uuid)}
        self._continued.check(snapshots, versions)
        written = versions[schema_id]
        table = replace(self._table, schema=self._continued.to_schema(written))
        self._change_sources = replace(self._change_sources, schema=written)
        self._changes = self._make_changes(table, written)

    def _find_source(self, snapshot: Snapshot) -> ChangeSource:
        source = self._change_sources.find(snapshot)
        # Snapshots are returned as a whole, so all records of one are in memory; of files only a part is.
        return ChangeSource.FILES if source is ChangeSource.AS_LOGGED and snapshot.added_rows > EMITTED_ROWS else source

    def _read_files_of(self, snapshots: list[Snapshot]) -> Iterator[StreamBatch]:
        if sum(each.added_rows for each in snapshots) > _WORTH_SEEKING_ROWS:
            self._feed.leave()
        yield from self._read_rest(snapshots)

    def _read_log(self, source: ChangeSource, snapshots: list[Snapshot]) -> Iterator[StreamBatch]:
        done = snapshots[0].snapshot_id - 1
        with contextlib.closing(self._feed.read(snapshots)) as feed:
            while True:
                try:
                    # Checked before, so that nothing is read in vain, and again after the existing records were read.
                    self._check_age(snapshots, done)
                    logged = next(feed, None)
                    self._check_age(snapshots, done)
                except LakelogError as error:
                    if not self._can_do_without(error):
                        raise
                    _log.warning("%s: its files are read instead of its log: %s", self.name, error)
                    self._feed.leave()
                    self._rests_until_s = time.monotonic() + (0 if isinstance(error, SnapshotExpired) else _REST_S)
                    break
                if logged is None:
                    return
                shown = self._without_earlier(logged)
                for batch in self._changes.emit(source, shown, topic=self._feed.topic) if shown else ():
                    ids: int = batch.column(SNAPSHOT_ID_COLUMN)[0].as_py()
                    yield StreamBatch(batch.drop_columns([SNAPSHOT_ID_COLUMN]), ids, self.name)
                done = logged[-1][0].snapshot_id
        yield from self._read_rest([each for each in snapshots if each.snapshot_id > done])

    def _check_age(self, snapshots: list[Snapshot], done: int) -> None:
        # The age of the oldest snapshot that is still to be shown, perhaps without any record left.
        oldest = next((each for each in snapshots if each.snapshot_id > done), None)
        if oldest is not None:
            self._change_sources.check_age(oldest, self._clock.now_ms())

    def _read_rest(self, snapshots: list[Snapshot]) -> Iterator[StreamBatch]:
        if self._since_ms is not None:
            since_ms = self._since_ms
            snapshots = [each for each in snapshots if each.committed_at_ms >= since_ms]
            self._since_ms = None if snapshots else since_ms
        if snapshots:
            yield from super().read_changes(snapshots)

    def _without_earlier(self, logged: LoggedCommits) -> LoggedCommits:
        """Leaves out skipped snapshots: a snapshot is shown as a whole even if its partitions disagree."""
        if self._since_ms is None:
            return logged
        for place, (snapshot, records) in enumerate(logged):
            if max(snapshot.committed_at_ms, int(records.timestamps_ms.max())) >= self._since_ms:
                self._since_ms = None
                return logged[place:]
        return []

    def _can_do_without(self, error: LakelogError) -> bool:
        return not self._feed.is_closed and can_do_without_log(error, requires_log=self._requires_log)

    def close(self) -> None:
        """See `StreamTable`."""
        self._feed.close()

    def release(self) -> None:
        """See `StreamTable`."""
        self._feed.leave()
