"""Dropped tables, and files below tables' locations: a part of `metastore.service`."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, AttemptAge, FoundFiles, UsedPage

from .dropped import DroppedTables
from .table_files import TableFiles


class UpkeepCalls:
    """What `lakelog.client.metastore.metastore.Metastore` says of them."""

    _dropped_tables: DroppedTables
    _table_files: TableFiles

    async def list_dropped_tables(self, database: str = "") -> list[DroppedTable]:
        """The dropped tables that are still known, the newest first; of all databases where none is named."""
        return await self._dropped_tables.list_dropped_tables(database)

    async def begin_purge(self, job_id: int, epoch: int) -> DroppedTable:
        """Notes that a table can no longer be restored; Fenced when another does the job. Idempotent."""
        return await self._dropped_tables.begin_purge(job_id, epoch)

    async def purge_rows(self, job_id: int, epoch: int) -> int:
        """Deletes some of what is known of a table; how many rows. Fenced when another does the job."""
        return await self._dropped_tables.purge_rows(job_id, epoch)

    async def find_used_files(self, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        """Tells which of some files a table refers to, and of the attempts in whose folders they are."""
        return await self._table_files.find_used_files(table_uuid, paths)

    async def list_used_files(self, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        """The files that a table refers to, page by page."""
        return await self._table_files.list_used_files(table_uuid, cursor, limit)

    async def list_partition_files(
        self, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        """The partitions of a table that have live files, page by page."""
        return await self._table_files.list_partition_files(table_uuid, after, limit)

    async def list_unfinished_attempts(
        self, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        """Attempts of a table that are open or aborted, the oldest first."""
        return await self._table_files.list_unfinished_attempts(
            table_uuid, open_ms=open_ms, aborted_ms=aborted_ms, limit=limit
        )

    async def abort_attempts(self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> list[str]:
        """Aborts attempts that have been open for too long; which are aborted now. Idempotent."""
        return await self._table_files.abort_attempts(table_uuid, attempt_ids, open_ms)

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Forgets aborted attempts whose files below the table are deleted; how many. Idempotent."""
        return await self._table_files.forget_attempts(table_uuid, attempt_ids)
