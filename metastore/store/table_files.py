"""What a store does for the files below tables' locations: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.partition_expiry import PartitionFiles
from lakelog.format.retention.table_files import AttemptAge, UsedFile, UsedPage


class TableFilesTransaction(Protocol):
    """Files and attempts of tables. Ages are by the database's clock."""

    async def find_used_files(self, table_id: int, paths: Sequence[str]) -> list[UsedFile]:
        """Those of the paths that anything kept of the table refers to, or that are queued; each once, in any order."""
        ...

    async def list_used_files(self, table_id: int, cursor: str, limit: int) -> UsedPage:
        """The next files that the table refers to; an empty cursor begins.

        At most `limit`, and the files of positions that these name.
        """
        ...

    async def list_partition_files(self, table_id: int, after: bytes | None, limit: int) -> list[PartitionFiles]:
        """The partitions with live files, by their encoding, at most `limit` behind `after`."""
        ...

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> list[AttemptAge]:
        """Those of the attempts that were opened for the table."""
        ...

    async def list_unfinished_attempts(
        self, table_uuid: str, open_ms: int, aborted_ms: int, limit: int
    ) -> list[AttemptAge]:
        """Attempts of the table that are open or aborted and were opened at least so long ago, the oldest first."""
        ...

    async def list_uncleaned_tables(self, open_ms: int, aborted_ms: int, limit: int) -> list[str]:
        """Uuids of tables with attempts as of `list_unfinished_attempts`, each once, at most `limit`, in any order.

        Not of those whose job of the kind `clean` waits, is being done, or has failed and rests.
        """
        ...

    async def abort_old_attempts(self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> None:
        """Aborts those of the table's attempts that are open and were opened at least so long ago."""
        ...

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Takes the table off aborted attempts, and forgets those that are then of none; of how many it was taken."""
        ...
