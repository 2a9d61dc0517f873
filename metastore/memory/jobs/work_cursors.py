"""How far the work that commits make due has been planned, in memory."""

from __future__ import annotations

from dataclasses import replace

from ...store.records import WorkCursor
from ..catalog import MemoryCatalog
from ..state import StoredWorkCursor


class MemoryWorkCursors(MemoryCatalog):
    """See `metastore.store.jobs.JobTransaction`."""

    async def lock_work_cursor(self, table_id: int) -> WorkCursor | None:
        """Never None: there is one transaction at a time."""
        stored = self._find_cursor(table_id)
        return WorkCursor(stored.planned_until, stored.requested)

    async def move_work_cursor(self, table_id: int, cursor: WorkCursor) -> None:
        stored = self._find_cursor(table_id)
        until, answered = max(stored.planned_until, cursor.planned_until), max(stored.answered, cursor.requested)
        self._journal.put(self._state.work_cursors, table_id, replace(stored, planned_until=until, answered=answered))

    async def request_planning(self, table_id: int) -> None:
        stored = self._find_cursor(table_id)
        self._journal.put(self._state.work_cursors, table_id, replace(stored, requested=stored.requested + 1))

    async def list_unplanned(self, limit: int) -> list[str]:
        found = []
        for table in self._live():
            stored = self._find_cursor(table.table_id)
            if table.head.latest_snapshot_id > stored.planned_until or stored.requested > stored.answered:
                found.append(table.new.table_uuid)
        return found[:limit]

    def _find_cursor(self, table_id: int) -> StoredWorkCursor:
        return self._state.work_cursors.get(table_id, StoredWorkCursor())
