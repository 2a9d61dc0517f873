"""What a store does for the files below tables' locations: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.partition_expiry import PartitionFiles
from lakelog.format.retention.table_files import AttemptAge, UsedFile, UsedPage


class TableFilesTransaction(Protocol):
    """Files and attempts of tables. The database's clock measures ages."""

    async def find_used_files(self, table_id: int, paths: Sequence[str]) -> list[UsedFile]:
        """Those of the paths that a retained record refers to, or that are queued; each once, in any order."""
        ...

    async def list_used_files(self, table_id: int, cursor: str, limit: int) -> UsedPage:
        """The next files that the table refers to; an empty cursor begins.

        At most `limit` entries, with the deletion vector files that they name.
        """
        ...

    async def list_partition_files(self, table_id: int, after: bytes | None, limit: int) -> list[PartitionFiles]:
        """The partitions with live files, by their encoding, at most `limit` after `after`."""
        ...

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> list[AttemptAge]:
        """Those of the attempts that were opened for the table."""
        ...

    async def list_unfinished_attempts(
        self, table_uuid: str, open_ms: int, aborted_ms: int, limit: int
    ) -> list[AttemptAge]:
        """Attempts of the table that are open or aborted and were opened at least this long ago, the oldest first."""
        ...

    async def list_uncleaned_tables(self, open_ms: int, aborted_ms: int, limit: int) -> list[str]:
        """Uuids of tables with attempts as in `list_unfinished_attempts`, each once, at most `limit`, in any order.

        Tables are left out whose job of the kind `clean` waits, is being done, or has failed and rests.
        """
        ...

    async def abort_old_attempts(
        self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int, others_ms: int, owner: str
    ) -> None:
        """Aborts open attempts of the table that were opened at least `open_ms` ago.

        Attempts of another principal than `owner` are aborted only if they were opened at least `others_ms` ago.
        """
        ...

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str], others_ms: int, owner: str) -> int:
        """Removes the table from aborted attempts, forgets attempts without tables, and returns how many it changed.

        Attempts of another principal than `owner` stay unless they were opened at least `others_ms` ago.
        """
        ...
