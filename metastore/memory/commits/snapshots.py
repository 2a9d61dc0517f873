"""What plans and watches read, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.files import FILE_SCHEMA, DataFile
from lakelog.format.tables.packed_statistics import encode_statistics
from lakelog.format.tables.snapshot import Snapshot

from ...plans.entries import ENTRY_SCHEMA
from ...store.records import Chunk, FileQuery, NewChunk, Packed
from ...store.transaction import SnapshotTransaction
from ..catalog import MemoryCatalog
from ..state import StoredChunk, StoredFile
from .baseline import find_baseline_at


class MemorySnapshots(MemoryCatalog, SnapshotTransaction):
    """See `metastore.store.transaction.SnapshotTransaction`."""

    async def find_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        wanted = set(table_uuids)
        return {table.new.table_uuid: table.head for table in self._live() if table.new.table_uuid in wanted}

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        table = self._table(table_id)
        found = [
            each for each in table.snapshots[max(after, 0) : max(until, 0)] if each.snapshot_id not in table.expired
        ]
        return found[-limit:] if newest else found[:limit]

    async def find_snapshot_at(self, table_id: int, timestamp_ms: int) -> Snapshot | None:
        table = self._table(table_id)
        kept = (each for each in reversed(table.snapshots) if each.snapshot_id not in table.expired)
        return next((found for found in kept if found.committed_at_ms <= timestamp_ms), None)

    async def load_files(self, query: FileQuery) -> pa.Table:
        table = self._table(query.table_id)
        baseline = None if query.baseline_at is None else find_baseline_at(table, query.baseline_at)
        rows = [
            stored
            for stored in table.files.values()
            if (baseline is None or stored.placed.file_id in baseline)
            and _is_wanted(stored.placed.file, stored.placed.added_snapshot, stored.removed_snapshot, query)
        ]
        columns = to_file_columns(rows)
        return _entries(columns, [stored.placed.file for stored in rows], query)

    async def load_changelog_files(self, query: FileQuery) -> pa.Table:
        placed = self._table(query.table_id).changelog_files
        rows = [
            each
            for each in placed
            if each.is_log is query.of_log and _is_wanted(each.file, each.snapshot_id, None, query)
        ]
        columns: list[list[object]] = [
            [0 for _ in rows],
            [each.file.path for each in rows],
            [each.file.partition for each in rows],
            [each.file.bucket for each in rows],
            [each.file.level for each in rows],
            [each.file.row_count for each in rows],
            [each.file.delete_count for each in rows],
            [each.file.size_bytes for each in rows],
            [each.file.min_key for each in rows],
            [each.file.max_key for each in rows],
            [each.file.schema_id for each in rows],
            [each.snapshot_id for each in rows],
            [each.snapshot_id for each in rows],
            [each.ordinal for each in rows],
            [each.time_ms for each in rows],
            [None for _ in rows],
        ]
        return _entries(columns, [each.file for each in rows], query)

    async def list_removed(self, table_id: int, after: int, until: int) -> list[int]:
        return [
            file_id
            for file_id, stored in self._table(table_id).files.items()
            if stored.removed_snapshot is not None and after < stored.removed_snapshot <= until
        ]

    async def find_chunks(self, table_id: int) -> Packed:
        table = self._table(table_id)
        chunks = sorted(table.chunks, key=lambda stored: (stored.chunk.order_after, stored.chunk.part))
        return Packed(table.packed_until, tuple(_chunk(stored) for stored in chunks))

    async def load_entries(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        return {stored.chunk_id: stored.chunk.entries for stored in self._chunks(chunk_ids)}

    async def load_chunk_statistics(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        return {stored.chunk_id: stored.chunk.statistics for stored in self._chunks(chunk_ids)}

    async def lock_packing(self, table_id: int) -> bool:
        """Always True: there is one transaction at a time."""
        return True

    async def replace_chunks(
        self,
        table_id: int,
        packed_until: int,
        delete: Sequence[int],
        insert: Sequence[NewChunk],
        without: Mapping[int, Sequence[int]],
    ) -> None:
        table = self._table(table_id)
        gone = set(delete)
        chunks = [
            StoredChunk(stored.chunk_id, stored.chunk, tuple(without.get(stored.chunk_id, stored.without)))
            for stored in table.chunks
            if stored.chunk_id not in gone
        ]
        first_id = self._state.last_chunk_id + 1
        chunks += [StoredChunk(first_id + place, chunk) for place, chunk in enumerate(insert)]
        self._journal.set(self._state, "last_chunk_id", first_id + len(insert) - 1)
        self._journal.set(table, "chunks", chunks)
        self._journal.set(table, "packed_until", packed_until)

    async def list_unpacked(self, min_files: int, limit: int) -> list[str]:
        found = []
        for table in self._live():
            added = sum(
                snapshot.added_files + snapshot.removed_files for snapshot in table.snapshots[table.packed_until :]
            )
            if added >= min_files:
                found.append(table.new.table_uuid)
        return found[:limit]

    def _chunks(self, chunk_ids: Sequence[int]) -> list[StoredChunk]:
        wanted = set(chunk_ids)
        return [stored for table in self._state.tables for stored in table.chunks if stored.chunk_id in wanted]


def to_file_columns(rows: Sequence[StoredFile]) -> list[list[object]]:
    """The columns of FILE_SCHEMA, in its order."""
    return [
        [stored.placed.file_id for stored in rows],
        [stored.placed.file.path for stored in rows],
        [stored.placed.file.partition for stored in rows],
        [stored.placed.file.bucket for stored in rows],
        [stored.placed.file.level for stored in rows],
        [stored.placed.file.row_count for stored in rows],
        [stored.placed.file.delete_count for stored in rows],
        [stored.placed.file.size_bytes for stored in rows],
        [stored.placed.file.min_key for stored in rows],
        [stored.placed.file.max_key for stored in rows],
        [stored.placed.file.schema_id for stored in rows],
        [stored.placed.added_snapshot for stored in rows],
        [stored.placed.order_key.snapshot_id for stored in rows],
        [stored.placed.order_key.ordinal for stored in rows],
        [stored.placed.order_key.time_ms for stored in rows],
        [stored.placed.file.deletion_vector_path for stored in rows],
    ]


def _entries(columns: list[list[object]], files: Sequence[DataFile], query: FileQuery) -> pa.Table:
    schema = FILE_SCHEMA
    if query.with_statistics:
        schema = ENTRY_SCHEMA
        columns.append([encode_statistics(file.statistics) for file in files])
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _is_wanted(file: DataFile, added: int, removed: int | None, query: FileQuery) -> bool:
    if query.live_at is not None and not (added <= query.live_at and (removed is None or removed > query.live_at)):
        return False
    if added <= query.added_after or (query.added_until is not None and added > query.added_until):
        return False
    if query.removed_after is not None:
        if removed is None or removed <= query.removed_after:
            return False
        if query.removed_until is not None and removed > query.removed_until:
            return False
    if query.below_bytes and file.size_bytes >= query.below_bytes:
        return False
    if query.partitions is not None and file.partition not in query.partitions:
        return False
    if query.buckets is not None and file.bucket not in query.buckets:
        return False
    if query.levels is not None and file.level not in query.levels:
        return False
    if query.first_key is not None and file.max_key is not None and file.max_key < query.first_key:
        return False
    return not (query.last_key is not None and file.min_key is not None and file.min_key > query.last_key)


def _chunk(stored: StoredChunk) -> Chunk:
    new = stored.chunk
    return Chunk(
        chunk_id=stored.chunk_id,
        order_after=new.order_after,
        order_until=new.order_until,
        part=new.part,
        file_count=new.file_count,
        max_added=new.max_added,
        first_key=new.first_key,
        last_key=new.last_key,
        without=stored.without,
        size_bytes=len(new.entries),
    )
