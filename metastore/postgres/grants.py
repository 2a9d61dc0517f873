"""Grants in Postgres. Only its clock sets their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.tables.grant import Grant, GrantLevel

from ..store.grants import GrantScope, GrantTransaction, HeldGrant
from .catalog import NOW_MS
from .connection import arrays
from .connection.session import InSession, Row, Statement

_HELD: Final = """
SELECT coalesce(t.database, g.database), coalesce(replace(t.table_uuid::text, '-', ''), ''),
    CASE WHEN t.dropped_at_ms IS NULL THEN coalesce(t.name, '') ELSE '' END, g.level
FROM access_grant g LEFT JOIN catalog_table t ON t.table_id = g.table_id
WHERE g.principal = %s AND (g.table_id = 0 OR t.table_id IS NOT NULL)
"""

_SELECT: Final = """
SELECT g.principal, coalesce(t.database, g.database), coalesce(t.name, ''), g.level, g.granted_by, g.granted_at_ms,
    coalesce(replace(t.table_uuid::text, '-', ''), ''), coalesce(t.dropped_at_ms, 0)
FROM access_grant g LEFT JOIN catalog_table t ON t.table_id = g.table_id
WHERE (g.table_id = 0 OR t.table_id IS NOT NULL)
"""

_LIST: Final = f"{_SELECT} AND g.table_id = %s AND g.database = %s ORDER BY g.principal LIMIT %s"

_LIST_OF: Final = f"{_SELECT} AND g.principal = %s ORDER BY 2, 3, 7"

_FIND: Final = f"{_SELECT} AND g.table_id = %s AND g.database = %s AND g.principal = %s"

_LOCK_PRINCIPAL: Final = "SELECT pg_advisory_xact_lock(3, hashtext(%s))"

_COUNT_ON: Final = """
SELECT count(*) FROM (SELECT 1 FROM access_grant WHERE table_id = %s AND database = %s LIMIT %s) x
"""

_COUNT_OF: Final = """
SELECT count(*) FROM (SELECT 1 FROM access_grant WHERE principal = %s AND granted_by = %s LIMIT %s) x
"""

# `xmax` is 0 for a row that this statement has made.
_PUT: Final = f"""
INSERT INTO access_grant AS g (principal, table_id, database, level, granted_by, granted_at_ms)
VALUES (%s, %s, %s, %s, %s, {NOW_MS})
ON CONFLICT (principal, table_id, database) DO UPDATE
SET level = excluded.level, granted_by = excluded.granted_by, granted_at_ms = excluded.granted_at_ms
WHERE g.level <> excluded.level
RETURNING xmax = 0
"""

_DELETE: Final = "DELETE FROM access_grant WHERE principal = %s AND table_id = %s AND database = %s RETURNING 1"

_DATABASES_OF: Final = """
SELECT replace(table_uuid::text, '-', ''), CASE WHEN database_gone THEN '' ELSE database END
FROM catalog_table WHERE table_uuid = ANY(%s::uuid[])
"""

_UUID_OF: Final = """
SELECT replace(table_uuid::text, '-', '') FROM catalog_table
WHERE database = %s AND name = %s AND dropped_at_ms IS NULL
"""

_PIPELINE_TABLE: Final = "SELECT table_name FROM pipeline WHERE name = %s"

_ATTEMPT_TABLES: Final = "SELECT replace(table_uuids::text, '-', '')::text[] FROM attempt WHERE attempt_id = %s"


class PostgresGrants(InSession, GrantTransaction):
    """See `metastore.store.grants.GrantTransaction`."""

    async def load_held_grants(self, principal: str) -> list[HeldGrant]:
        rows = await self._session.read(_HELD, (principal,))
        return [HeldGrant(database, uuid, name, GrantLevel(level)) for database, uuid, name, level in rows]

    async def list_grants(self, scope: GrantScope, limit: int) -> list[Grant]:
        return [_grant(row) for row in await self._session.read(_LIST, (*_key(scope), limit))]

    async def list_grants_of(self, principal: str) -> list[Grant]:
        return [_grant(row) for row in await self._session.read(_LIST_OF, (principal,))]

    async def count_grants(self, principal: str, scope: GrantScope, by: str, limit: int) -> tuple[int, int]:
        _, on_scope, of_principal = await self._session.write_all(
            [
                Statement(_LOCK_PRINCIPAL, (principal,)),
                Statement(_COUNT_ON, (*_key(scope), limit)),
                Statement(_COUNT_OF, (principal, by, limit)),
            ]
        )
        return on_scope[0][0], of_principal[0][0]

    async def put_grant(self, principal: str, scope: GrantScope, level: GrantLevel, by: str) -> bool:
        rows = await self._session.write(_PUT, (principal, *_key(scope), int(level), by))
        return bool(rows) and bool(rows[0][0])

    async def find_grant(self, principal: str, scope: GrantScope) -> Grant | None:
        return await self._session.find(_FIND, (*_key(scope), principal), _grant)

    async def delete_grant(self, principal: str, scope: GrantScope) -> bool:
        return bool(await self._session.write(_DELETE, (principal, *_key(scope))))

    async def find_databases_of(self, table_uuids: Sequence[str]) -> dict[str, str]:
        rows = await self._session.read(_DATABASES_OF, (arrays.words(table_uuids),))
        return dict(rows)

    async def find_table_uuid(self, database: str, name: str) -> str | None:
        return await self._session.find(_UUID_OF, (database, name), lambda row: str(row[0]))

    async def find_pipeline_table(self, name: str) -> str | None:
        return await self._session.find(_PIPELINE_TABLE, (name,), lambda row: str(row[0]))

    async def find_attempt_tables(self, attempt_id: str) -> tuple[str, ...] | None:
        return await self._session.find(_ATTEMPT_TABLES, (attempt_id,), lambda row: tuple(row[0]))


def _key(scope: GrantScope) -> tuple[str, str]:
    return str(scope.table_id), scope.database


def _grant(row: Row) -> Grant:
    principal, database, table, level, granted_by, granted_at_ms, table_uuid, dropped_at_ms = row
    return Grant(principal, database, table, GrantLevel(level), granted_by, granted_at_ms, table_uuid, dropped_at_ms)
