"""What plans and watches read in Postgres, and packed entries."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.format.commit.facts import FIRST_LOG_ORDINAL, TableHead
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.snapshot import Snapshot

from ...heavy_work import SLICE
from ...plans.entries import ENTRY_SCHEMA
from ...store.records import Chunk, FileQuery, NewChunk, Packed
from ...store.transaction import SnapshotTransaction
from ..connection import arrays
from ..connection.session import InSession, Row, Statement
from .changes import FIRST_FILE_AFTER
from .commits import FIND_HEADS, heads
from .snapshot_rows import SNAPSHOT_COLUMNS, to_snapshot

_LIST_OLDEST: Final = f"""
SELECT {SNAPSHOT_COLUMNS} FROM snapshot
WHERE table_id = %s AND snapshot_id > %s AND snapshot_id <= %s ORDER BY snapshot_id LIMIT %s
"""

_LIST_NEWEST: Final = f"""
SELECT {SNAPSHOT_COLUMNS} FROM snapshot
WHERE table_id = %s AND snapshot_id > %s AND snapshot_id <= %s ORDER BY snapshot_id DESC LIMIT %s
"""

_FIND_SNAPSHOT_AT: Final = f"""
SELECT {SNAPSHOT_COLUMNS} FROM snapshot
WHERE table_id = %s AND committed_at_ms <= %s ORDER BY committed_at_ms DESC, snapshot_id DESC LIMIT 1
"""

_LIST_REMOVED: Final = """
SELECT file_id FROM data_file WHERE table_id = %s AND removed_snapshot > %s AND removed_snapshot <= %s
"""

_FIND_CHUNKS: Final = """
SELECT k.packed_until, c.chunk_id, c.order_after, c.order_until, c.part, c.file_count, c.max_added, c.first_key,
    c.last_key, c.without_file_ids, c.size_bytes
FROM packing k LEFT JOIN file_chunk c ON c.table_id = k.table_id AND c.replaced_at IS NULL
WHERE k.table_id = %s ORDER BY c.order_after, c.part
"""

_LOAD_ENTRIES: Final = "SELECT chunk_id, entries FROM file_chunk WHERE chunk_id = ANY(%s::bigint[])"

_LOAD_CHUNK_STATISTICS: Final = "SELECT chunk_id, statistics FROM file_chunk WHERE chunk_id = ANY(%s::bigint[])"

_LOCK_PACKING: Final = "SELECT table_id FROM packing WHERE table_id = %s FOR UPDATE SKIP LOCKED"

_REPLACE_CHUNKS: Final = "UPDATE file_chunk SET replaced_at = now() WHERE chunk_id = ANY(%s::bigint[])"

# A process that still sends a plan from them has had enough time.
_CLEAR_REPLACED: Final = "DELETE FROM file_chunk WHERE replaced_at < now() - interval '10 minutes'"

# The ids are ours. A sequence gives its numbers again in a database that was set back, while metastores still have
# chunks of the lost ones in memory.
_INSERT_CHUNK: Final = """
INSERT INTO file_chunk (chunk_id, table_id, order_after, order_until, part, file_count, max_added, first_key, last_key,
    without_file_ids, size_bytes, entries, statistics)
OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, '{}', %s, %s, %s)
"""

_SET_WITHOUT: Final = "UPDATE file_chunk SET without_file_ids = %s::bigint[] WHERE chunk_id = %s"

_SET_PACKED: Final = """
UPDATE packing SET packed_until = %s, packed_added = s.added, packed_removed = s.added - s.live
FROM (SELECT next_file_id - 1 AS added, total_files AS live FROM snapshot WHERE table_id = %s AND snapshot_id = %s) s
WHERE table_id = %s
"""

# File ids count the files ever added, so the number ever removed is the difference to the live ones.
_LIST_UNPACKED: Final = """
SELECT replace(h.table_uuid::text, '-', '')
FROM table_head h JOIN packing k USING (table_id)
WHERE h.table_uuid IS NOT NULL
    AND (h.next_file_id - 1 - k.packed_added) + (h.next_file_id - 1 - h.total_files - k.packed_removed) >= %s
ORDER BY h.next_file_id - k.packed_added DESC LIMIT %s
"""

_ENTRY_COLUMNS: Final = """
    f.file_id, f.path, coalesce(p.encoded, ''), f.bucket, f.level, f.row_count, f.delete_count, f.size_bytes, f.min_key,
    f.max_key, f.schema_id, f.added_snapshot, f.order_snapshot, f.order_ordinal, f.order_time_ms, f.deletion_vector_path
"""

_NEVER: Final = 2**63 - 1

_FROM_FILES: Final = (
    "FROM data_file f LEFT JOIN table_partition p ON p.partition_id = f.partition_id WHERE f.table_id = %s"
)

_CHANGELOG_COLUMNS: Final = """
    0::bigint, f.path, coalesce(p.encoded, ''), f.bucket, 0::smallint, f.row_count, f.delete_count, f.size_bytes,
    f.min_key, f.max_key, f.schema_id, f.snapshot_id, f.snapshot_id, f.ordinal, f.time_ms, NULL::text
"""

_FROM_CHANGELOG: Final = (
    "FROM changelog_file f LEFT JOIN table_partition p ON p.partition_id = f.partition_id "
    "WHERE f.table_id = %s AND f.snapshot_id > %s AND f.snapshot_id <= %s"
    f" AND f.ordinal {{}} {FIRST_LOG_ORDINAL}"
)

_FROM_BASELINE: Final = (
    "FROM baseline_file t JOIN data_file f ON f.table_id = t.table_id AND f.file_id = t.file_id "
    "LEFT JOIN table_partition p ON p.partition_id = f.partition_id "
    f"WHERE t.table_id = %s AND t.baseline_from <= %s AND coalesce(t.baseline_until, {_NEVER}) > %s"
)

FIRST_FILE_OF_LATER: Final = f"""
coalesce((SELECT next_file_id FROM snapshot WHERE table_id = %s AND snapshot_id = %s), {_NEVER})
"""


class PostgresSnapshots(InSession, SnapshotTransaction):
    """See `metastore.store.transaction.SnapshotTransaction`."""

    async def find_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        return heads(await self._session.read(FIND_HEADS, (arrays.words(table_uuids),)))

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        rows = await self._session.read(_LIST_NEWEST if newest else _LIST_OLDEST, _fixed(table_id, after, until, limit))
        if newest:
            rows.reverse()
        return await self._session.work.rows.run(len(rows), _to_snapshots, rows)

    async def find_snapshot_at(self, table_id: int, timestamp_ms: int) -> Snapshot | None:
        return await self._session.find(_FIND_SNAPSHOT_AT, _fixed(table_id, timestamp_ms), to_snapshot)

    async def load_files(self, query: FileQuery) -> pa.Table:
        return await self._load_entries(query, files_query)

    async def load_changelog_files(self, query: FileQuery) -> pa.Table:
        """Changelog files in any order; a range of their primary key."""
        return await self._load_entries(query, _changelog_query)

    async def _load_entries(
        self, query: FileQuery, to_statement: Callable[[FileQuery], tuple[str, list[Any]]]
    ) -> pa.Table:
        threads = self._session.work.rows
        size = len(query.partitions or ()) + len(query.buckets or ())
        sql, parameters = await threads.run(size, to_statement, query)
        schema = ENTRY_SCHEMA if query.with_statistics else FILE_SCHEMA
        parts = await self._session.read_parts(sql, parameters, lambda rows: _to_entries(rows, schema))
        if len(parts) <= 1:
            return parts[0] if parts else schema.empty_table()
        return await threads.run(len(parts) * SLICE, _combine, parts)

    async def list_removed(self, table_id: int, after: int, until: int) -> list[int]:
        return [row[0] for row in await self._session.read(_LIST_REMOVED, _fixed(table_id, after, until), binary=True)]

    async def find_chunks(self, table_id: int) -> Packed:
        rows = await self._session.read(_FIND_CHUNKS, _fixed(table_id))
        chunks = [_chunk(row) for row in rows if row[1] is not None]
        return Packed(rows[0][0] if rows else 0, tuple(chunks))

    async def load_entries(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The entries of chunks, including chunks that were packed again a moment ago."""
        return dict(await self._session.read(_LOAD_ENTRIES, (arrays.integers(chunk_ids),), binary=True))

    async def load_chunk_statistics(self, chunk_ids: Sequence[int]) -> dict[int, bytes]:
        """The statistics of chunks, including chunks that were packed again a moment ago."""
        return dict(await self._session.read(_LOAD_CHUNK_STATISTICS, (arrays.integers(chunk_ids),), binary=True))

    async def lock_packing(self, table_id: int) -> bool:
        return bool(await self._session.write(_LOCK_PACKING, (table_id,)))

    async def replace_chunks(
        self,
        table_id: int,
        packed_until: int,
        delete: Sequence[int],
        insert: Sequence[NewChunk],
        without: Mapping[int, Sequence[int]],
    ) -> None:
        statements = [Statement(_CLEAR_REPLACED)]
        if delete:
            statements.append(Statement(_REPLACE_CHUNKS, (arrays.integers(delete),)))
        statements += [Statement(_SET_WITHOUT, (arrays.integers(ids), chunk_id)) for chunk_id, ids in without.items()]
        statements += [
            Statement(
                _INSERT_CHUNK,
                (
                    _new_chunk_id(),
                    table_id,
                    new.order_after,
                    new.order_until,
                    new.part,
                    new.file_count,
                    new.max_added,
                    new.first_key,
                    new.last_key,
                    len(new.entries),
                    new.entries,
                    new.statistics,
                ),
            )
            for new in insert
        ]
        statements.append(Statement(_SET_PACKED, (packed_until, table_id, packed_until, table_id)))
        await self._session.write_all(statements)

    async def list_unpacked(self, min_files: int, limit: int) -> list[str]:
        return [row[0] for row in await self._session.read(_LIST_UNPACKED, _fixed(min_files, limit))]

    async def notify(self, channel: str, payload: str) -> None:
        """Notifies all listeners."""
        await self._session.read("SELECT pg_notify(%s, %s)", (channel, payload))


def files_query(query: FileQuery) -> tuple[str, list[Any]]:
    """The statement for a query. Each of its forms uses a range of one index, even before tables were analyzed.

    - Files added after a snapshot are a range of file ids, the primary key. SUBTLE: the condition whether such files
      are live is written so that no partial index can answer it; else the planner, which knows nothing of new tables,
      may prefer to scan all live files.
    - Files that are live use the index of live files; files that were live then, but are no more, that of removed
      files.
    - Files of the baseline use an index of their own.
    """
    columns = _ENTRY_COLUMNS + (", f.statistics" if query.with_statistics else "")
    if query.baseline_at is not None:
        narrowed, parameters = _narrowed_to_part(query, "t")
        values = [*_fixed(query.table_id, query.baseline_at, query.baseline_at), *parameters]
        return f"SELECT {columns} {_FROM_BASELINE}{narrowed}", values
    narrowed, parameters = _narrowed(query)
    branches: list[tuple[str, list[Any]]]
    if query.removed_after is not None:
        removed, bounds = " AND f.removed_snapshot > %s", [max(query.live_at or 0, query.removed_after)]
        if query.removed_until is not None:
            removed += " AND f.removed_snapshot <= %s"
            bounds.append(query.removed_until)
        branches = [(removed, bounds)]
    elif query.live_at is None:
        branches = [("", [])]
    elif query.added_after and _goes_by_ids(query):
        branches = [(f" AND coalesce(f.removed_snapshot, {_NEVER}) > %s", [query.live_at])]
    else:
        # For the newest snapshot the second branch finds nothing, by its index.
        branches = [(" AND f.removed_snapshot IS NULL", []), (" AND f.removed_snapshot > %s", [query.live_at])]
    sql = " UNION ALL ".join(f"SELECT {columns} {_FROM_FILES}{narrowed}{extra}" for extra, _ in branches)
    values = [[query.table_id, *parameters, *extra] for _, extra in branches]
    return sql, [str(value) if isinstance(value, int) else value for branch in values for value in branch]


def _narrowed(query: FileQuery) -> tuple[str, list[Any]]:
    sql = ""
    parameters: list[Any] = []
    until = min((bound for bound in (query.live_at, query.added_until) if bound is not None), default=None)
    by_file_id = _goes_by_ids(query)
    if query.added_after:
        sql += " AND f.added_snapshot > %s"
        parameters.append(query.added_after)
        if by_file_id:
            sql += " AND f.file_id >=" + FIRST_FILE_AFTER
            parameters += [query.table_id, query.added_after]
    if until is not None:
        sql += " AND f.added_snapshot <= %s"
        parameters.append(until)
        if by_file_id:
            sql += " AND f.file_id <" + FIRST_FILE_OF_LATER
            parameters += [query.table_id, until]
    narrowed, values = _narrowed_to_part(query)
    return sql + narrowed, parameters + values


def _goes_by_ids(query: FileQuery) -> bool:
    if query.below_bytes and query.partitions and query.live_at is not None:
        # The small files of a partition may have been added long ago, but the partition has few.
        return False
    return query.removed_after is None and (query.added_after > 0 or query.live_at is None)


def _changelog_query(query: FileQuery) -> tuple[str, list[Any]]:
    columns = _CHANGELOG_COLUMNS + (", f.statistics" if query.with_statistics else "")
    narrowed, values = _narrowed_to_part(query)
    until = _NEVER if query.added_until is None else query.added_until
    source = _FROM_CHANGELOG.format(">=" if query.of_log else "<")
    sql = f"SELECT {columns} {source}{narrowed}"
    return sql, [*_fixed(query.table_id, query.added_after, until), *values]


def _narrowed_to_part(query: FileQuery, place: str = "f") -> tuple[str, list[Any]]:
    """Conditions on partition, bucket and key range, which data and changelog files share.

    Args:
        query: Which files to load.
        place: The table whose partition and bucket are compared.
    """
    sql = ""
    parameters: list[Any] = []
    if query.partitions is not None:
        sql += f""" AND {place}.partition_id = ANY(ARRAY(
            SELECT partition_id FROM table_partition WHERE table_id = %s AND encoded = ANY(%s::bytea[])
            UNION ALL SELECT 0 WHERE ''::bytea = ANY(%s::bytea[])))"""
        wanted = arrays.blobs(sorted(query.partitions))
        parameters += [str(query.table_id), wanted, wanted]
    if query.buckets is not None:
        sql += f" AND {place}.bucket = ANY(%s::int[])"
        parameters.append(arrays.integers(sorted(query.buckets)))
    if query.levels is not None:
        sql += " AND f.level = ANY(%s::int[])"
        parameters.append(arrays.integers(sorted(query.levels)))
    if query.below_bytes:
        sql += " AND f.size_bytes < %s"
        parameters.append(str(query.below_bytes))
    if query.first_key is not None:
        sql += " AND (f.max_key IS NULL OR f.max_key >= %s)"
        parameters.append(query.first_key)
    if query.last_key is not None:
        sql += " AND (f.min_key IS NULL OR f.min_key <= %s)"
        parameters.append(query.last_key)
    return sql, parameters


def _to_entries(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Makes a table of some rows; few enough, because each call into C keeps other threads waiting."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.Table.from_arrays([pa.array(values, field.type) for values, field in columns], schema=schema)


def _combine(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).combine_chunks()


def _to_snapshots(rows: Sequence[Row]) -> list[Snapshot]:
    return [to_snapshot(row) for row in rows]


def _fixed(*values: int) -> tuple[str, ...]:
    """Numbers as text, whose type the statement decides: psycopg would choose one by the value's size."""
    return tuple(map(str, values))


def _new_chunk_id() -> int:
    """An id that no chunk ever had: above all that the column's sequence gave in earlier versions, and random."""
    return 1 << 61 | secrets.randbits(61)


def _chunk(row: Row) -> Chunk:
    values = list(row[1:])
    values[8] = tuple(values[8])
    return Chunk(*values)
