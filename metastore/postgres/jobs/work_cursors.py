"""How far the work that commits make due has been planned, in Postgres."""

from __future__ import annotations

from typing import Final

from ...store.records import WorkCursor
from ..connection.session import InSession

# SUBTLE: not a lock on the row, which others also write while they hold the head: a planner that then waits for the
# head would wait for transactions that wait for the row.
_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended('work_cursor', %s))"

_FIND: Final = "SELECT planned_until, requested FROM work_cursor WHERE table_id = %s"

_MOVE: Final = """
INSERT INTO work_cursor AS c (table_id, planned_until, requested, answered) VALUES (%s, %s, %s, %s)
ON CONFLICT (table_id) DO UPDATE SET planned_until = greatest(c.planned_until, excluded.planned_until),
    answered = greatest(c.answered, excluded.answered)
"""

_REQUEST_PLANNING: Final = """
INSERT INTO work_cursor AS c (table_id, planned_until, requested, answered) VALUES (%s, 0, 1, 0)
ON CONFLICT (table_id) DO UPDATE SET requested = c.requested + 1
"""

_LIST: Final = """
SELECT replace(h.table_uuid::text, '-', '')
FROM table_head h LEFT JOIN work_cursor c USING (table_id)
WHERE h.table_uuid IS NOT NULL AND (h.latest_snapshot_id > coalesce(c.planned_until, 0) OR c.requested > c.answered)
ORDER BY h.table_id LIMIT %s
"""


class PostgresWorkCursors(InSession):
    """See `metastore.store.jobs.JobTransaction`."""

    async def lock_work_cursor(self, table_id: int) -> WorkCursor | None:
        if not (await self._session.write(_LOCK, (str(table_id),)))[0][0]:
            return None
        row = await self._session.read_one(_FIND, (str(table_id),))
        return WorkCursor() if row is None else WorkCursor(*row)

    async def move_work_cursor(self, table_id: int, cursor: WorkCursor) -> None:
        requested = str(cursor.requested)
        await self._session.write(_MOVE, (str(table_id), str(cursor.planned_until), requested, requested))

    async def request_planning(self, table_id: int) -> None:
        await self._session.write(_REQUEST_PLANNING, (str(table_id),))

    async def list_unplanned(self, limit: int) -> list[str]:
        return [row[0] for row in await self._session.read(_LIST, (str(limit),))]
