"""Tags in Postgres. Only its clock sets their times."""

from __future__ import annotations

from typing import Final

from lakelog.format.retention.tag import Tag
from lakelog.format.tables.snapshot import Snapshot

from ..store.retention import TagTransaction
from .catalog import NOW_MS
from .connection.session import InSession

_SELECT: Final = """
SELECT t.name, t.snapshot_id, t.created_at_ms, s.committed_at_ms, s.total_rows
FROM tag t JOIN snapshot s ON s.table_id = t.table_id AND s.snapshot_id = t.snapshot_id
WHERE t.table_id = %s
"""

_FIND: Final = f"{_SELECT} AND t.name = %s"

_LIST: Final = f"{_SELECT} ORDER BY t.name"

_HAS: Final = "SELECT EXISTS (SELECT FROM tag WHERE table_id = %s AND snapshot_id = %s)"

_INSERT: Final = f"""
INSERT INTO tag (table_id, name, snapshot_id, created_at_ms) VALUES (%s, %s, %s, {NOW_MS}) RETURNING created_at_ms
"""

_DELETE: Final = "DELETE FROM tag WHERE table_id = %s AND name = %s"


class PostgresTags(InSession, TagTransaction):
    """See `metastore.store.retention.TagTransaction`."""

    async def find_tag(self, table_id: int, name: str) -> Tag | None:
        return await self._session.find(_FIND, (table_id, name), lambda row: Tag(*row))

    async def has_tag(self, table_id: int, snapshot_id: int) -> bool:
        rows = await self._session.read(_HAS, (str(table_id), str(snapshot_id)))
        return bool(rows[0][0])

    async def list_tags(self, table_id: int) -> list[Tag]:
        return [Tag(*row) for row in await self._session.read(_LIST, (table_id,))]

    async def insert_tag(self, table_id: int, name: str, snapshot: Snapshot) -> Tag:
        rows = await self._session.write(_INSERT, (str(table_id), name, str(snapshot.snapshot_id)))
        return Tag(name, snapshot.snapshot_id, rows[0][0], snapshot.committed_at_ms, snapshot.total_rows)

    async def delete_tag(self, table_id: int, name: str) -> None:
        await self._session.write(_DELETE, (table_id, name))
