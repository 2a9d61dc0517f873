"""A table in a subscription that shows rows before their commit (`log.consistency` = `eventual`).

Objectives, which conflict: a row is shown milliseconds after it was sent; none is missing in the end; and rows that
were shown but never committed are taken back if possible. So the log is only a hint: rows of open attempts are shown as
they arrive there, and the changes of a snapshot come from its files, except what was shown already
(docs/decisions/0013). Records that the log lost, doubled or no longer has cost time, never a row.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import LakelogError
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.log.codecs.decode import DecodedRecords
from lakelog.log.columns import take_fetched
from lakelog.log.table_codec import make_codec
from lakelog.reads.change_plan import to_change_columns
from lakelog.reads.reading import make_parser
from lakelog.reads.streams.batch import NO_SNAPSHOT, StreamBatch
from lakelog.reads.streams.log.tail import Arrived, LogTail
from lakelog.reads.streams.table import StreamTable, StreamView
from lakelog.reads.streams.uncommitted.attempts import OpenAttempts, RowIndices
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN, FileScan

_log = logging.getLogger(__name__)

Picked = list[tuple[str, RowIndices]]


class UncommittedStreamTable(StreamTable, ABC):
    """A `StreamTable` that also shows what open attempts have sent. One thread uses it.

    Args:
        context: The metastore, stores, caches and clock.
        table: A table with an `eventual` log.
        view: What to show.
        counts: Counts what is read.
        requires_log: Whether the user requested the log: it is an error if it cannot be used at all.
    """

    def __init__(
        self, context: Context, table: TableInfo, view: StreamView, counts: ReadCounts, *, requires_log: bool
    ) -> None:
        super().__init__(context, table, view, counts)
        self.tail: Final = LogTail(
            context.metastore, table.table_uuid, str(table.name), context.open_log, requires_log=requires_log
        )
        self.clock: Final = context.clock
        counted = not table.schema.primary_key
        self._attempts: Final = OpenAttempts(context.metastore, table, context.clock.now_ms(), counts=counted)
        self._codec: Final = make_codec(table, table.schema)
        self._condition: Final = make_parser(view.filter)(table.schema)
        self._store: Final = context.open_store(table)
        self.snapshots_received_s = 0.0
        """When the last snapshots that were shown had been received, on the monotonic clock."""
        # By partition: records before this offset can have been sent before the last snapshot that was shown.
        self._late_until: dict[int, int] = {}
        self._log_begun_at: Mapping[int, int] = {}

    @property
    def has_open(self) -> bool:
        """Whether rows of attempts were shown that may still be aborted."""
        return len(self._attempts) > 0

    def begin(self) -> None:
        """Forgets what was shown before its commit: its reader begins again."""
        self._attempts.clear()
        self._late_until, self._log_begun_at = {}, {}

    def emit(self, arrived: Arrived, base: int) -> Iterator[StreamBatch]:
        """Shows rows of log records that no snapshot has shown; blocks.

        Args:
            arrived: The records.
            base: The last snapshot that was shown; 0: none.
        """
        if arrived.begun_at is not self._log_begun_at:
            self._note_begun(arrived.begun_at)
        picked: Picked = []
        try:
            picked = self._attempts.pick(arrived.records)
            batches = self._emit(arrived, picked, base) if picked else []
        except LakelogError as error:
            # Their commits show them anyway, and the watch reports a table that was dropped.
            _log.warning("%s: rows come with their commits, not before: %s", self.name, error)
            for attempt_id, _ in picked:
                self._attempts.leave(attempt_id)
            return
        yield from self._to_stream(batches)

    def look(self, base: int) -> Iterator[StreamBatch]:
        """Takes back rows of attempts that were aborted or whose writers are silent; blocks. Arguments as in `emit`."""
        try:
            over = self._attempts.find_given_up(base)
        except LakelogError as error:
            # The next call will find them.
            _log.warning("%s: it is not known what has become of open attempts: %s", self.name, error)
            return
        for each in over:
            self._attempts.forget(each)
        if over:
            yield from self._to_stream(self._take_back(over))

    def awaits_log(self, snapshot: Snapshot) -> bool:
        """Whether it is worth waiting until the log is read up to the end of a snapshot's rows."""
        return False

    def _note_begun(self, begun_at: Mapping[int, int]) -> None:
        """Notes that reading of the log began: all records before these ends were there at that moment."""
        if any(end < self._log_begun_at.get(partition, 0) for partition, end in begun_at.items()):
            # The log has another topic now.
            self._late_until = {}
        self._log_begun_at = begun_at
        self._raise_late(begun_at)

    def _raise_late(self, ends: Mapping[int, int]) -> None:
        for partition, end in ends.items():
            self._late_until[partition] = max(end, self._late_until.get(partition, 0))

    def _note_shown(self, snapshot: Snapshot) -> None:
        """Notes that records before the end of a snapshot's records in the log were sent before its commit."""
        self._raise_late(snapshot.sent_offsets or {})

    def _are_late(self, arrived: Arrived, indices: RowIndices) -> npt.NDArray[np.bool_]:
        """Returns which of some records can have been sent before the last snapshot that was shown."""
        partitions = arrived.records.partitions[indices]
        limits = np.zeros(int(partitions.max(initial=0)) + 1, np.int64)
        for partition, end in self._late_until.items():
            if partition < len(limits):
                limits[partition] = end
        were_received = arrived.received_s < self.snapshots_received_s
        return (arrived.records.offsets[indices] < limits[partitions]) | were_received

    @abstractmethod
    def _emit(self, arrived: Arrived, picked: Picked, base: int) -> list[pa.RecordBatch]:
        """Shows some of the records, by attempt; all or none."""

    @abstractmethod
    def _take_back(self, attempt_ids: Sequence[str]) -> list[pa.RecordBatch]:
        """Notes that attempts were aborted."""

    def _decode(self, arrived: Arrived, picked: Picked, columns: Sequence[str]) -> DecodedRecords:
        """The rows of the picked records, attempt by attempt."""
        records = take_fetched(arrived.records, np.concatenate([indices for _, indices in picked]))
        return self._codec.decode(records, topic=arrived.topic, columns=columns)

    def _to_stream(self, batches: Sequence[pa.RecordBatch]) -> Iterator[StreamBatch]:
        return (StreamBatch(batch, NO_SNAPSHOT, self.name) for batch in batches if batch.num_rows)

    def _written_schema(self) -> pa.Schema:
        """The shown columns, as rows are stored."""
        names = tuple(name for name in self._columns() if name != SNAPSHOT_ID_COLUMN)
        columns = to_change_columns(names, self._table.schema, self._condition)
        return FileScan(self._store, [], self._table.schema, columns).returned_schema


class AppendUncommittedTable(UncommittedStreamTable):
    """Shows the rows of an append table as they are sent, each at least once.

    Rows of an aborted attempt stay shown: without a key they cannot be taken back.
    """

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """See `StreamTable`; leaves out snapshots whose rows were all shown."""
        left: list[Snapshot] = []
        for snapshot in snapshots:
            if not self._is_shown(snapshot):
                left.append(snapshot)
                continue
            yield from self._read_left(left)
            left = []
            self._attempts.forget(snapshot.attempt_id)
        yield from self._read_left(left)

    def awaits_log(self, snapshot: Snapshot) -> bool:
        """See the base: if some rows were shown, and all were sent, the others need not come twice."""
        lacks = self._attempts.lacks_some(snapshot.attempt_id, snapshot.added_rows)
        return lacks and snapshot.sent_offsets is not None

    def _is_shown(self, snapshot: Snapshot) -> bool:
        return snapshot.kind is SnapshotKind.APPEND and self._attempts.has_all(snapshot.attempt_id, snapshot.added_rows)

    def _read_left(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        if snapshots:
            yield from super().read_changes(snapshots)
        for snapshot in snapshots:
            self._attempts.forget(snapshot.attempt_id)

    def _emit(self, arrived: Arrived, picked: Picked, base: int) -> list[pa.RecordBatch]:
        schema = self._written_schema()
        columns = to_change_columns(tuple(schema.names), self._table.schema, self._condition)
        rows = self._decode(arrived, picked, [each.name for each in columns.read]).rows
        if columns.filter is not None:
            rows = rows.filter(columns.filter)
        rows = pa.Table.from_arrays([rows.column(name) for name in schema.names], schema=schema)
        return rows.combine_chunks().to_batches()

    def _take_back(self, attempt_ids: Sequence[str]) -> list[pa.RecordBatch]:
        return []
