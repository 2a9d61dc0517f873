"""Dropped tables in Postgres."""

from __future__ import annotations

from typing import Final

from lakelog.format.jobs.job import PURGE, PURGE_PRIORITY
from lakelog.format.log.state import to_publisher_lease
from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.tables.table import TableName

from ..store.dropped import DroppedRecord, DroppedTransaction
from .catalog import NOW_MS
from .connection.session import InSession, Row, Statement
from .schema.all_tables import metadata

# With 0 it is purged from the start: no one may restore what a compactor can delete at any moment.
_DROP: Final = f"""
UPDATE catalog_table SET dropped_at_ms = n.now_ms, kept_until_ms = n.now_ms + %s::bigint,
    purged_at_ms = CASE WHEN %s::bigint = 0 THEN n.now_ms END
FROM (SELECT {NOW_MS} AS now_ms) n WHERE table_id = %s
"""

_HIDE_HEAD: Final = "UPDATE table_head SET table_uuid = NULL WHERE table_id = %s"

_DELETE_JOBS: Final = "DELETE FROM job WHERE table_id = %s"

_INSERT_PURGE: Final = f"""
INSERT INTO job (table_id, kind, scope, state, priority, payload, attempts, reason, outcome, epoch, holder, due_at,
    created_at_ms, updated_at_ms)
VALUES (%s, '{PURGE}', '', 'due', {PURGE_PRIORITY}, '{{}}', 0, '', '', 0, '',
    clock_timestamp() + %s * interval '1 millisecond', {NOW_MS}, {NOW_MS})
"""

_SELECT: Final = """
SELECT table_id, replace(table_uuid::text, '-', ''), database, name, location, dropped_at_ms, kept_until_ms,
    purged_at_ms IS NOT NULL
FROM catalog_table WHERE dropped_at_ms IS NOT NULL
"""

_LIST: Final = (
    f"{_SELECT} AND (%s = '' OR database = %s) AND (%s = '' OR name = %s) ORDER BY dropped_at_ms DESC LIMIT %s"
)

_FIND: Final = f"{_SELECT} AND table_uuid = %s"

_LOCK: Final = f"{_FIND} FOR UPDATE"

_SHOW: Final = """
UPDATE catalog_table SET dropped_at_ms = NULL, kept_until_ms = NULL, database_gone = NULL, database = %s, name = %s
WHERE table_id = %s
"""

_SHOW_HEAD: Final = """
UPDATE table_head h SET table_uuid = t.table_uuid, name = t.database || '.' || t.name
FROM catalog_table t WHERE t.table_id = h.table_id AND h.table_id = %s
"""

_MARK_PURGED: Final = f"UPDATE catalog_table SET purged_at_ms = coalesce(purged_at_ms, {NOW_MS}) WHERE table_id = %s"

_ABORT: Final = """
UPDATE attempt SET state = 'aborted'
WHERE state = 'open' AND table_uuids = ARRAY[(SELECT table_uuid FROM catalog_table WHERE table_id = %s)]
"""

# Also from attempts that have other tables as well: no one clears them away below a table that is gone.
_TAKE_OFF_ATTEMPTS: Final = """
UPDATE attempt a SET table_uuids = array_remove(a.table_uuids, t.table_uuid)
FROM catalog_table t WHERE t.table_id = %s AND a.state <> 'committed' AND t.table_uuid = ANY(a.table_uuids)
"""

_FORGET_ATTEMPTS: Final = "DELETE FROM attempt WHERE state <> 'committed' AND table_uuids = '{}'"

# The table's id is never given again, so neither is an epoch of its publisher. A lease in use goes later, as all do.
_FORGET_LEASE: Final = f"""
DELETE FROM lease WHERE name IN (
    SELECT name FROM lease WHERE name = (
        SELECT '{to_publisher_lease("")}' || replace(table_uuid::text, '-', '') FROM catalog_table WHERE table_id = %s)
    FOR UPDATE SKIP LOCKED)
"""

_FORGET: Final = "DELETE FROM catalog_table WHERE table_id = %s"

_LAST: Final = ("job", "catalog_table")
"""They identify the job that deletes the rows; they are deleted when it ends."""

OWNED: Final = tuple(
    sorted(each.name for each in metadata.tables.values() if "table_id" in each.columns and each.name not in _LAST)
)
"""The Postgres tables that hold rows of a table."""

# By row locations, because not every one of these has a key of one column.
_DELETE_ROWS: Final = {
    name: f"""
DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {name} WHERE table_id = %s LIMIT %s)) RETURNING 1
"""
    for name in OWNED
}


class PostgresDropped(InSession, DroppedTransaction):
    """See `metastore.store.dropped.DroppedTransaction`."""

    async def drop_table(self, table_id: int, retention_ms: int) -> None:
        await self._session.write_all(
            [
                Statement(_DROP, (str(retention_ms), str(retention_ms), table_id)),
                Statement(_HIDE_HEAD, (table_id,)),
                Statement(_DELETE_JOBS, (table_id,)),
                Statement(_INSERT_PURGE, (table_id, retention_ms)),
            ]
        )

    async def list_dropped(self, database: str, name: str, limit: int) -> list[DroppedTable]:
        rows = await self._session.read(_LIST, (database, database, name, name, limit))
        return [_record(row).table for row in rows]

    async def find_dropped(self, table_uuid: str) -> DroppedTable | None:
        return await self._session.find(_FIND, (table_uuid,), lambda row: _record(row).table)

    async def lock_dropped(self, table_uuid: str) -> DroppedRecord | None:
        rows = await self._session.write(_LOCK, (table_uuid,))
        return _record(rows[0]) if rows else None

    async def restore_table(self, table_id: int, name: TableName) -> None:
        await self._session.write_all(
            [
                Statement(_SHOW, (name.database, name.name, table_id)),
                Statement(_SHOW_HEAD, (table_id,)),
                Statement(_DELETE_JOBS, (table_id,)),
            ]
        )

    async def mark_purged(self, table_id: int) -> None:
        await self._session.write_all([Statement(_MARK_PURGED, (table_id,)), Statement(_ABORT, (table_id,))])

    async def delete_rows(self, table_id: int, limit: int) -> int:
        for name in OWNED:
            deleted = len(await self._session.write(_DELETE_ROWS[name], (table_id, limit)))
            if deleted:
                return deleted
        return 0

    async def forget_table(self, table_id: int) -> None:
        await self._session.write_all(
            [
                Statement(_TAKE_OFF_ATTEMPTS, (table_id,)),
                Statement(_FORGET_ATTEMPTS),
                Statement(_DELETE_JOBS, (table_id,)),
                Statement(_FORGET_LEASE, (table_id,)),
                Statement(_FORGET, (table_id,)),
            ]
        )


def _record(row: Row) -> DroppedRecord:
    table_id, table_uuid, database, name, location, dropped_at_ms, kept_until_ms, is_purged = row
    table = DroppedTable(table_uuid, TableName(database, name), location, dropped_at_ms, kept_until_ms, is_purged)
    return DroppedRecord(table_id, table)
