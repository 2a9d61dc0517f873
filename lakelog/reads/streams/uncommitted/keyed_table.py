"""A table with a primary key in a subscription that shows rows before their commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.context import Context
from lakelog.format.keys.ordering import single_array
from lakelog.format.merge.changelog import ChangelogRules
from lakelog.format.merge.uncommitted_overlay import KEY_COLUMN, UncommittedOverlay, UncommittedRows
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, decode_kinds
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import has_changelog_producer
from lakelog.reads.reading import to_scan_columns
from lakelog.reads.state_lookup import StateLookup
from lakelog.reads.streams.batch import StreamBatch
from lakelog.reads.streams.log.tail import Arrived
from lakelog.reads.streams.table import StreamView
from lakelog.reads.streams.uncommitted.table import Picked, UncommittedStreamTable
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_log = logging.getLogger(__name__)

_MAX_ROWS: Final = 1 << 17
"""Rows of open attempts that are held: some 100 MB if rows are wide, and an event still takes a fraction of a second.
If attempts send more, the rest comes with their commits."""


class KeyedUncommittedTable(UncommittedStreamTable):
    """Shows the difference that rows of open attempts make, and after each snapshot its remaining changes.

    Arguments as of `UncommittedStreamTable`.
    """

    def __init__(
        self, context: Context, table: TableInfo, view: StreamView, counts: ReadCounts, *, requires_log: bool
    ) -> None:
        super().__init__(context, table, view, counts, requires_log=requires_log)
        policy = to_merge_policy(table.schema, TableOptions(table.options))
        names = tuple(name for name in self._columns() if name not in (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN))
        self._shown = to_scan_columns(names, table.schema, self._condition)
        read = [each.name for each in self._shown.read]
        needed = {*table.schema.primary_key, *policy.sequence, *read}
        wanted = [name for name in table.schema.arrow.names if name in needed]
        self._lookup = StateLookup(context.metastore, self._store, table, wanted, context.caches)
        self._rules = ChangelogRules(
            policy.key,
            policy.sequence,
            policy.sequence_descending,
            policy.delete_retention_ms,
            drop_equal=True,
            compared=tuple(read),
        )
        self._overlay = UncommittedOverlay(self._lookup.schema, self._rules)

    def begin(self) -> None:
        """See the base."""
        super().begin()
        self._overlay = UncommittedOverlay(self._lookup.schema, self._rules)

    def read_changes(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """See `StreamTable`; leaves out what was shown already, and corrects what was shown but not committed."""
        left: list[Snapshot] = []
        for snapshot in snapshots:
            if snapshot.kind is SnapshotKind.APPEND and self._attempts.has_some(snapshot.attempt_id):
                yield from self._read_left(left)
                left = []
                written, found = self._lookup.find_written(self._overlay.rows, snapshot.snapshot_id)
                # A commit has at least one row for each of its keys. So these are all, and no file has others to show.
                if len(written) == snapshot.added_rows:
                    yield from self._settle(snapshot, written, found)
                    continue
            left.append(snapshot)
        yield from self._read_left(left)

    def _read_left(self, snapshots: Sequence[Snapshot]) -> Iterator[StreamBatch]:
        """What snapshots show by their files, each followed by its remaining changes."""
        if not snapshots:
            return
        names = self._columns()
        further = [name for name in self._table.schema.primary_key if name not in names]
        changes = self._read_files(snapshots, [*names, *further])
        held = next(changes, None)
        for snapshot in snapshots:
            while held is not None and held.column(SNAPSHOT_ID_COLUMN)[0].as_py() == snapshot.snapshot_id:
                batch = self._leave_out_kept(held).drop_columns([*further, SNAPSHOT_ID_COLUMN])
                if batch.num_rows:
                    yield StreamBatch(batch, snapshot.snapshot_id, self.name)
                held = next(changes, None)
            yield from self._resolve(snapshot)

    def _leave_out_kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """SUBTLE: called once for all before resolving, since keys leave the overlay with each snapshot."""
        if not len(self._overlay.keys):
            return batch
        keys = single_array(self._lookup.with_keys(pa.table(batch)).column(KEY_COLUMN))
        return batch.filter(pc.invert(pc.is_in(keys, value_set=self._overlay.keys)))

    def _resolve(self, snapshot: Snapshot) -> Iterator[StreamBatch]:
        """The remaining changes after a snapshot for the keys that open attempts have written."""
        if not len(self._overlay.keys) or snapshot.kind is SnapshotKind.COMPACT:
            self._attempts.forget(snapshot.attempt_id)
            self._note_shown(snapshot)
            return
        keys = self._overlay.rows
        if snapshot.kind is SnapshotKind.APPEND:
            written, found = self._lookup.find_written(keys, snapshot.snapshot_id)
        else:
            # Rows that the snapshot removed are in no file.
            written, found = self._overlay.keys, self._lookup.find(keys, snapshot.snapshot_id)
        yield from self._settle(snapshot, written, found)

    def _settle(self, snapshot: Snapshot, written: pa.Array, found: pa.Table) -> Iterator[StreamBatch]:
        self._attempts.forget(snapshot.attempt_id)
        self._note_shown(snapshot)
        changes = self._overlay.resolve(snapshot.attempt_id, written, found, snapshot.committed_at_ms)
        return (StreamBatch(batch, snapshot.snapshot_id, self.name) for batch in self._show(changes))

    def _emit(self, arrived: Arrived, picked: Picked, base: int) -> list[pa.RecordBatch]:
        room = _MAX_ROWS - self._overlay.row_count
        matching: Picked = []
        for attempt_id, indices in picked:
            if len(indices) > room:
                self._attempts.leave(attempt_id)
                _log.warning(
                    "%s: an attempt has sent more rows than are kept before their commit; the rest comes with it",
                    self.name,
                )
                continue
            room -= len(indices)
            matching.append((attempt_id, indices))
        if not matching:
            return []
        decoded = self._decode(arrived, matching, self._lookup.columns)
        kinds = pa.field(ROW_KIND_COLUMN, pa.int8())
        rows = self._lookup.with_keys(decoded.rows.append_column(kinds, pa.array(decoded.kinds)))
        uncommitted, start = [], 0
        for attempt_id, indices in matching:
            own = rows.slice(start, len(indices))
            opened_ms = self._attempts.opened_ms(attempt_id)
            uncommitted.append(UncommittedRows(attempt_id, own, opened_ms, self._are_late(arrived, indices)))
            start += len(indices)
        found = self._lookup.find(self._overlay.find_unknown(uncommitted), base)
        return list(self._show(self._overlay.add(uncommitted, found, self._context.clock.now_ms())))

    def _take_back(self, attempt_ids: Sequence[str]) -> list[pa.RecordBatch]:
        return list(self._show(self._overlay.drop(attempt_ids)))

    def _show(self, changes: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changes as they are shown: a condition tests each row separately."""
        if self._shown.filter is not None:
            changes = changes.filter(self._shown.filter)
        if not changes.num_rows:
            return
        schema = self._shown_schema()
        kinds = decode_kinds(changes.column(ROW_KIND_COLUMN))
        columns = [kinds if name == ROW_KIND_COLUMN else changes.column(name) for name in schema.names]
        yield from pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()

    def _shown_schema(self) -> pa.Schema:
        """The schema of the changes of snapshots: in changelog files, deletes may know only their key."""
        written = self._written_schema()
        if has_changelog_producer(self._table):
            return written
        own = self._table.schema.arrow
        return pa.schema(
            [own.field(each.name).remove_metadata() if each.name in own.names else each for each in written]
        )
