"""What the metastore knows of files below tables' locations: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, AttemptAge, FoundFiles, UsedPage


class TableFiles(Protocol):
    """Files, and attempts that are over. Lists have 1 to 10,000 entries."""

    def find_used_files(self, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        """Tells which of some files a table refers to, and of the attempts in whose folders they are."""
        ...

    def list_used_files(self, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        """The files that a table refers to, page by page; the last has an empty cursor."""
        ...

    def list_partition_files(
        self, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        """The partitions that have live files, page by page; InvalidArgument: the table has no partitions."""
        ...

    def list_unfinished_attempts(
        self, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        """Attempts that are open or aborted and were opened at least so long ago, the oldest first."""
        ...

    def abort_attempts(self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> list[str]:
        """Aborts attempts that were opened at least so long ago; which are aborted now. Idempotent.

        Only behind this the files of an attempt that was open may be deleted.
        """
        ...

    def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Forgets aborted attempts whose files below the table are deleted; how many. Idempotent."""
        ...
