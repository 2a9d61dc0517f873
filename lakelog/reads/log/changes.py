"""Turns records of a table's log into changes: the same rows in the same order as the files would show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakelog.format.filter.condition import Filter
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo, as_of
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind, decode_kinds
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs import LogCodec
from lakelog.log.codecs.decode import DecodedRecords
from lakelog.log.columns import concat_fetched
from lakelog.log.records import FetchedRecords
from lakelog.log.table_codec import make_codec
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import has_changelog_producer, to_change_columns
from lakelog.reads.changes import EMITTED_ROWS, NormalizedChanges, States
from lakelog.reads.log.sources import ChangeSource
from lakelog.reads.reading import to_scan_columns
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.lookup.changelog_rules import to_changelog_rules
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.schema_mapping import apply_mapping, map_columns
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN, FileScan
from lakelog.storage.write.routing import Routing, route_rows, to_routing

LoggedCommits = Sequence[tuple[Snapshot, FetchedRecords]]
"""Snapshots, rising, with their records in the order of partition and offset."""


@dataclass(frozen=True)
class LogChanges:
    """Turns records into changes. Immutable except for the caches.

    Args:
        table: The table; rows are read with its schema.
        names: The columns to return, including `_snapshot_id` and perhaps `_row_kind`.
        condition: The condition of the rows to return; None: all.
        store: Where the table's files are.
        states: Returns the files of the states before, to look old rows up.
        caches: The caches of this process.
        written: The version of the table's schema that the records were written in, if they are to be read as another
            one that has the same columns under other names or in other places; None: the one of `table`.
    """

    table: TableInfo
    names: tuple[str, ...]
    condition: Filter | None
    store: ObjectStore
    states: States
    caches: Caches | None = field(repr=False)
    written: TableSchema | None = None

    def emit(self, source: ChangeSource, logged: LoggedCommits, *, topic: str) -> Iterator[pa.RecordBatch]:
        """Emits the changes of successive snapshots, given all their records in some buckets.

        Args:
            source: The snapshots' change source: AS_LOGGED, NORMALIZED or LOOKED_UP.
            logged: The snapshots with their records, at least one.
            topic: The topic's name, for messages.

        Yields:
            Batches, none of them empty; all rows of a batch belong to one snapshot.

        Raises:
            DataCorrupted: A record cannot be read, or a file of an earlier state is damaged or missing; named.
            SnapshotExpired: The state before the first snapshot has expired.
        """
        if source is ChangeSource.AS_LOGGED:
            for _, records in logged:
                yield from self.show(records, topic=topic)
            return
        changes = self._plan(source)
        part: list[tuple[Snapshot, FetchedRecords]] = []
        count = 0
        for snapshot, records in logged:
            if part and count + len(records) > EMITTED_ROWS:
                yield from self._normalize(changes, part, topic)
                part, count = [], 0
            part.append((snapshot, records))
            count += len(records)
        yield from self._normalize(changes, part, topic)

    def show(self, records: FetchedRecords, *, topic: str) -> Iterator[pa.RecordBatch]:
        """Returns records as they are, by snapshot and then in the order of its files.

        Yields:
            Batches, none of them empty.
        """
        schema = self._written_schema
        columns = to_change_columns(self.names, self.table.schema, self.condition)
        needed = {
            *(each.name for each in columns.read),
            *self.table.schema.primary_key,
            *self.table.schema.partition_by,
            *self._routing.bucket_key,
        }
        wanted = [name for name in self.table.schema.arrow.names if name in needed]
        rows = self._in_order(self._decode(records, topic, wanted), records)
        if columns.filter is not None:
            rows = rows.filter(columns.filter)
        own: Mapping[str, object] = {
            ROW_KIND_COLUMN: decode_kinds(rows.column(ROW_KIND_COLUMN)),
            SNAPSHOT_ID_COLUMN: rows.column(SNAPSHOT_ID_COLUMN),
        }
        shown = pa.Table.from_arrays(
            [own[name] if name in own else rows.column(name) for name in schema.names], schema=schema
        )
        yield from (batch for batch in shown.combine_chunks().to_batches() if batch.num_rows)

    def _decode(self, records: FetchedRecords, topic: str, names: Sequence[str]) -> DecodedRecords:
        """The rows of records in some of the table's columns."""
        if self.written is None:
            return self._codec.decode(records, topic=topic, columns=names)
        ids = self.table.schema.field_ids
        by_id = {found: name for name, found in self.written.field_ids.items()}
        columns = [by_id[ids[name]] for name in names]
        decoded = self._codec.decode(records, topic=topic, columns=columns)
        stored = [self.written.arrow.field(name) for name in columns]
        wanted = [self.table.schema.arrow.field(name).with_nullable(True) for name in names]
        before = None if decoded.before is None else _read_as(decoded.before, stored, wanted)
        return dataclasses.replace(decoded, rows=_read_as(decoded.rows, stored, wanted), before=before)

    @cached_property
    def _codec(self) -> LogCodec:
        if self.written is None:
            return make_codec(self.table, self.table.schema)
        return make_codec(as_of(self.table, self.written), self.written)

    @cached_property
    def _routing(self) -> Routing:
        return to_routing(self.table.schema, TableOptions(self.table.options))

    @cached_property
    def _written_schema(self) -> pa.Schema:
        columns = to_change_columns(self.names, self.table.schema, self.condition)
        return FileScan(self.store, [], self.table.schema, columns).returned_schema

    def _normalize(
        self, changes: NormalizedChanges, logged: Sequence[tuple[Snapshot, FetchedRecords]], topic: str
    ) -> Iterator[pa.RecordBatch]:
        records = concat_fetched([each for _, each in logged])
        decoded = self._decode(records, topic, changes.emitted_columns)
        kinds = pa.field(ROW_KIND_COLUMN, pa.int8())
        rows = decoded.rows.append_column(kinds, pa.array(decoded.kinds))
        ends = np.cumsum([len(each) for _, each in logged]).tolist()
        commits = [
            (snapshot, rows.slice(end - len(each), len(each)))
            for (snapshot, each), end in zip(logged, ends, strict=True)
        ]
        schema = self._written_schema if has_changelog_producer(self.table) else changes.returned_schema
        for batch in changes.emit_rows(commits):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _plan(self, source: ChangeSource) -> NormalizedChanges:
        schema, looked_up = self.table.schema, source is ChangeSource.LOOKED_UP
        options = TableOptions(self.table.options)
        columns = to_scan_columns(self.names, schema, self.condition)
        if looked_up:
            # Whether an update is emitted depends on columns that the reader may not have requested.
            columns = dataclasses.replace(columns, read=tuple(schema.arrow))
        return NormalizedChanges(
            self.states,
            self.store,
            self.table,
            (),
            (),
            columns,
            to_merge_policy(schema, options),
            self.caches,
            rules=to_changelog_rules(schema, options) if looked_up else None,
        )

    def _in_order(self, decoded: DecodedRecords, records: FetchedRecords) -> pa.Table:
        """The rows by snapshot, partition, bucket and place, each old row right before its new one.

        `_row_kind` and `_snapshot_id` are the last columns.
        """
        places = records.indexes.to_numpy(zero_copy_only=False)
        ids = records.snapshot_ids.to_numpy(zero_copy_only=False)
        groups = sorted(route_rows(decoded.rows, self._routing), key=lambda each: (each.partition, each.bucket))
        ranks = np.zeros(len(places), np.int64)
        for rank, each in enumerate(groups):
            ranks[slice(None) if each.indices is None else each.indices] = rank
        order = np.lexsort((places, ranks, ids))
        rows, kinds = decoded.rows, decoded.kinds
        if decoded.before is not None:
            # Old rows come after all other rows; those that exist move right before their new rows.
            rows = pa.concat_tables([rows, decoded.before])
            kinds = np.concatenate([kinds, np.full(len(order), RowKind.UPDATE_BEFORE, np.int8)])
            ids = np.concatenate([ids, ids])
            pairs = np.stack([order + len(order), order], axis=1)
            is_there = np.stack([decoded.has_before[order], np.ones(len(order), bool)], axis=1)
            order = pairs[is_there]
        rows = rows.append_column(pa.field(ROW_KIND_COLUMN, pa.int8()), pa.array(kinds))
        return rows.append_column(pa.field(SNAPSHOT_ID_COLUMN, pa.int64()), pa.array(ids)).take(pa.array(order))


def _read_as(rows: pa.Table, stored: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> pa.Table:
    """Rows in columns with other names, or with other fields inside."""
    schema = pa.schema([field.with_nullable(True) for field in stored])
    mapping = map_columns(schema, tuple(wanted))
    named = pa.Table.from_arrays(rows.columns, schema=schema)
    batches = [apply_mapping(batch, mapping) for batch in named.to_batches()]
    return pa.Table.from_batches(batches, schema=mapping.schema)
