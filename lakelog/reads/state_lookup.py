"""Looks rows up by key in the state at one snapshot, in any bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.keys.encoding import encode_rows
from lakelog.format.keys.ordering import comparable_keys, single_array
from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN
from lakelog.format.merge.uncommitted_overlay import KEY_COLUMN
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changes import NAMED_PARTITIONS, Bucket, group_by_bucket
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.lookup.key_lookup import KeyLookup
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.write.routing import route_rows, to_routing


class StateLookup:
    """Looks up rows of a table with a primary key. For one thread at a time.

    It remembers the files of the last requested snapshot, since readers that follow a table request one repeatedly. It
    is not used for tables that keep the first row of a key (semantics 2.4).

    Args:
        metastore: Returns the files of a state.
        store: Where they are.
        table: The table; rows are read with its schema.
        columns: Names of the columns to find, including those of the primary key and of `sequence.field`.
        caches: The caches of this process.
    """

    def __init__(
        self, metastore: Metastore, store: ObjectStore, table: TableInfo, columns: Sequence[str], caches: Caches
    ) -> None:
        self.columns: Final = tuple(columns)
        self._metastore = metastore
        self._store = store
        self._table = table
        self._caches = caches
        self._options: Final = TableOptions(table.options)
        self._policy: Final = to_merge_policy(table.schema, self._options)
        self._planned_at = 0
        self._planned: dict[Bucket, list[LiveFile]] = {}

    @property
    def schema(self) -> pa.Schema:
        """The columns, as files store them."""
        stored = plan_file_schema(self._table.schema, with_row_kind=False)
        return pa.schema([each.remove_metadata() for each in stored if each.name in self.columns])

    def with_keys(self, rows: pa.Table) -> pa.Table:
        """Some rows with their encoded primary keys before their columns (`KEY_COLUMN`). Pure."""
        keys = encode_rows([single_array(rows.column(name)) for name in self._table.schema.primary_key])
        return rows.add_column(0, KEY_COLUMN, keys)

    def find(self, rows: pa.Table, snapshot_id: int) -> pa.Table:
        """Finds the records that decide some keys at a snapshot, also deletes; keys without one are missing. Blocks.

        Args:
            rows: Rows with the columns of the primary key; each key once.
            snapshot_id: The snapshot; 0: the state before the first, which is empty.

        Returns:
            `KEY_COLUMN`, `columns`, `_row_kind` (int8 codes) and `_commit_timestamp`, in any order.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
            SnapshotExpired: The snapshot has expired.
        """
        found = [self._empty()]
        for files, keys in self._plan(rows, snapshot_id):
            found.append(self._look_up(files, keys))
        return pa.concat_tables(found)

    def find_written(self, rows: pa.Table, snapshot_id: int) -> tuple[pa.Array, pa.Table]:
        """As `find`, for keys that the snapshot itself wrote; also returns these keys, encoded."""
        found = [self._empty()]
        for files, keys in self._plan(rows, snapshot_id):
            written = self._look_up([each for each in files if each.added_snapshot == snapshot_id], keys)
            if written.num_rows and self._policy.sequence:
                # The written rows may have lost to older rows.
                left = pc.is_in(self.with_keys(keys).column(KEY_COLUMN), value_set=_keys_of(written))
                written = self._look_up(files, keys.filter(left))
            found.append(written)
        both = pa.concat_tables(found)
        return _keys_of(both), both

    def _plan(self, rows: pa.Table, snapshot_id: int) -> Iterator[tuple[list[LiveFile], pa.Table]]:
        """The files of each bucket, and the keys to look up in them."""
        if not rows.num_rows or not snapshot_id:
            return
        routing = to_routing(self._table.schema, self._options)
        sought: dict[Bucket, pa.Table] = {}
        for routed in route_rows(rows, routing):
            own = rows if routed.indices is None else rows.take(pa.array(routed.indices))
            keys = own.select(list(self._table.schema.primary_key))
            order = np.argsort(comparable_keys([keys.column(name) for name in self._table.schema.trimmed_key]))
            sought[routed.partition, routed.bucket] = keys.take(pa.array(order)).combine_chunks()
        live = self._list_files(list(sought), snapshot_id)
        for bucket, keys in sought.items():
            if live[bucket]:
                yield live[bucket], keys

    def _list_files(self, buckets: Sequence[Bucket], snapshot_id: int) -> Mapping[Bucket, list[LiveFile]]:
        if snapshot_id != self._planned_at:
            self._planned_at, self._planned = snapshot_id, {}
        new = [bucket for bucket in buckets if bucket not in self._planned]
        if new:
            partitions = {partition for partition, _ in new}
            request = PlanRequest(
                self._table.table_uuid,
                AtSnapshot(snapshot_id),
                buckets=tuple(sorted({number for _, number in new})),
                partitions=tuple(sorted(partitions)) if len(partitions) <= NAMED_PARTITIONS else (),
            )
            live = group_by_bucket(to_live_files(self._metastore.plan(request).files))
            self._planned |= {bucket: live.get(bucket, []) for bucket in new}
        return self._planned

    def _look_up(self, files: Sequence[LiveFile], keys: pa.Table) -> pa.Table:
        if not files or not keys.num_rows:
            return self._empty()
        stored = plan_file_schema(self._table.schema, with_row_kind=False)
        lookup = KeyLookup(
            self._store,
            self._table.schema,
            self._policy,
            self._caches.find_copies(self._table.table_uuid, self._options),
            [each for each in stored if each.name in self.columns],
        )
        found = self.with_keys(pa.table(lookup.find(files, keys.select(list(self._policy.key))).run.table))
        return found.select(self._empty().schema.names).cast(self._empty().schema)

    def _empty(self) -> pa.Table:
        own = [pa.field(ROW_KIND_COLUMN, pa.int8()), pa.field(COMMIT_TIMESTAMP_COLUMN, pa.int64())]
        return pa.schema([pa.field(KEY_COLUMN, pa.binary()), *self.schema, *own]).empty_table()


def _keys_of(rows: pa.Table) -> pa.Array:
    return single_array(rows.column(KEY_COLUMN))
