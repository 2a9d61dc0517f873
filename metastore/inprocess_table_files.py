"""Files of tables, and attempts that are over, in this process; see `metastore.inprocess`."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, AttemptAge, FoundFiles, UsedPage

from .inprocess_dropped import Running


class InProcessTableFiles:
    """The part of `InProcessMetastore` that is about files below tables' locations."""

    def find_used_files(self: Running, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        """Tells which of some files a table refers to."""
        return self.run(self.service.find_used_files(table_uuid, paths))

    def list_used_files(self: Running, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        """The files that a table refers to, page by page."""
        return self.run(self.service.list_used_files(table_uuid, cursor, limit))

    def list_partition_files(
        self: Running, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        """The partitions of a table that have live files, page by page."""
        return self.run(self.service.list_partition_files(table_uuid, after, limit))

    def list_unfinished_attempts(
        self: Running, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        """Attempts that are open or aborted, the oldest first."""
        return self.run(
            self.service.list_unfinished_attempts(table_uuid, open_ms=open_ms, aborted_ms=aborted_ms, limit=limit)
        )

    def abort_attempts(self: Running, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> list[str]:
        """Aborts attempts that have been open for too long."""
        return self.run(self.service.abort_attempts(table_uuid, attempt_ids, open_ms))

    def forget_attempts(self: Running, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Forgets aborted attempts."""
        return self.run(self.service.forget_attempts(table_uuid, attempt_ids))
