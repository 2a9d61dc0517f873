"""Dropped tables in memory."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.commit.facts import AttemptState
from lakelog.format.jobs.job import PURGE, PURGE_PRIORITY, DueJob
from lakelog.format.log.state import to_publisher_lease
from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.tables.table import TableName

from ..store.dropped import DroppedRecord, DroppedTransaction
from .jobs.jobs import MemoryJobs
from .state import StoredTable


class MemoryDropped(MemoryJobs, DroppedTransaction):
    """See `metastore.store.dropped.DroppedTransaction`."""

    async def drop_table(self, table_id: int, retention_ms: int) -> None:
        table, now_ms = self._table(table_id), self._clock.now_ms()
        self._journal.set(table, "dropped_at_ms", now_ms)
        self._journal.set(table, "kept_until_ms", now_ms + retention_ms)
        self._journal.set(table, "purged", retention_ms == 0)
        self._delete_jobs(table_id)
        self._insert(DueJob(table_id, PURGE, priority=PURGE_PRIORITY, delay_ms=retention_ms))

    async def list_dropped(self, database: str, name: str, limit: int) -> list[DroppedTable]:
        found = [
            _dropped(table)
            for table in reversed(self._state.tables)
            if table.dropped_at_ms is not None
            and table.new.table_uuid
            and database in ("", table.new.name.database)
            and name in ("", table.new.name.name)
        ]
        return sorted(found, key=lambda each: -each.dropped_at_ms)[:limit]

    async def find_dropped(self, table_uuid: str) -> DroppedTable | None:
        record = await self.lock_dropped(table_uuid)
        return None if record is None else record.table

    async def lock_dropped(self, table_uuid: str) -> DroppedRecord | None:
        for table in self._state.tables:
            if table.new.table_uuid == table_uuid and table.dropped_at_ms is not None:
                return DroppedRecord(table.table_id, _dropped(table))
        return None

    async def restore_table(self, table_id: int, name: TableName) -> None:
        table = self._table(table_id)
        self._journal.set(table, "dropped_at_ms", None)
        self._journal.set(table, "database_gone", False)
        self._journal.set(table, "new", replace(table.new, name=name))
        self._journal.set(table, "head", replace(table.head, name=str(name)))
        self._delete_jobs(table_id)

    async def mark_purged(self, table_id: int) -> None:
        table = self._table(table_id)
        self._journal.set(table, "purged", True)
        for attempt in list(self._state.attempts.values()):
            if attempt.state is AttemptState.OPEN and attempt.table_uuids == (table.new.table_uuid,):
                aborted = replace(attempt, state=AttemptState.ABORTED)
                self._journal.put(self._state.attempts, attempt.attempt_id, aborted)

    async def delete_rows(self, table_id: int, limit: int) -> int:
        table = self._table(table_id)
        for name in ("files", "results", "last_identifiers", "snapshots", "changelog_files", "chunks", "log_offsets"):
            rows = getattr(table, name)
            if rows:
                left = dict(list(rows.items())[limit:]) if isinstance(rows, dict) else rows[limit:]
                self._journal.set(table, name, left)
                return len(rows) - len(left)
        owned = [key for key in self._state.consumers if key[0] == table_id][:limit]
        for consumer in owned:
            self._journal.pop(self._state.consumers, consumer)
        granted = [key for key in self._state.grants if key[1].table_id == table_id][:limit]
        for grant in granted:
            self._journal.pop(self._state.grants, grant)
        return len(owned) + len(granted)

    async def forget_table(self, table_id: int) -> None:
        """Deletes the last records of a purged table: its place stays, because tables are found by it."""
        table = self._table(table_id)
        table_uuid = table.new.table_uuid
        for attempt in list(self._state.attempts.values()):
            if attempt.state is AttemptState.COMMITTED or table_uuid not in attempt.table_uuids:
                continue
            # Other tables keep theirs.
            left = tuple([each for each in attempt.table_uuids if each != table_uuid])
            if left:
                self._journal.put(self._state.attempts, attempt.attempt_id, replace(attempt, table_uuids=left))
            else:
                self._journal.pop(self._state.attempts, attempt.attempt_id)
        self._delete_jobs(table_id)
        for run_id in [key for key, (of_table, _) in self._state.job_runs.items() if of_table == table_id]:
            self._journal.pop(self._state.job_runs, run_id)
        publisher = to_publisher_lease(table_uuid)
        if publisher in self._state.leases:
            self._journal.pop(self._state.leases, publisher)
        self._journal.set(table, "new", replace(table.new, table_uuid="", name=TableName("", "")))

    def _delete_jobs(self, table_id: int) -> None:
        for job_id in [key for key, each in self._state.jobs.items() if each.table_id == table_id]:
            self._journal.pop(self._state.jobs, job_id)


def _dropped(table: StoredTable) -> DroppedTable:
    assert table.dropped_at_ms is not None, "only dropped tables are asked for"
    return DroppedTable(
        table_uuid=table.new.table_uuid,
        name=table.new.name,
        location=table.new.location,
        dropped_at_ms=table.dropped_at_ms,
        kept_until_ms=table.kept_until_ms,
        is_purged=table.purged,
    )
