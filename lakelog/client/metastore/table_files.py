"""What the metastore knows of files below tables' locations: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.retention.partition_expiry import PartitionPage
from lakelog.format.retention.table_files import MAX_FILES_A_CALL, AttemptAge, FoundFiles, UsedPage


class TableFiles(Protocol):
    """Files, and unfinished attempts. Lists have 1 to 10,000 entries."""

    def find_used_files(self, table_uuid: str, paths: Sequence[str]) -> FoundFiles:
        """Finds which of some files a table refers to, and the attempts in whose folders they are.

        Raises:
            NotFound: There is no such table.
        """
        ...

    def list_used_files(self, table_uuid: str, cursor: str = "", limit: int = MAX_FILES_A_CALL) -> UsedPage:
        """The files that a table refers to, page by page; the last has an empty cursor.

        Files committed meanwhile may be included.

        Raises:
            NotFound: There is no such table.
        """
        ...

    def list_partition_files(
        self, table_uuid: str, after: bytes | None = None, limit: int = MAX_FILES_A_CALL
    ) -> PartitionPage:
        """The partitions that have live files, page by page, with when they were last written to.

        Raises:
            NotFound: There is no such table.
            InvalidArgument: The table has no partitions.
        """
        ...

    def list_unfinished_attempts(
        self, table_uuid: str, *, open_ms: int, aborted_ms: int, limit: int = MAX_FILES_A_CALL
    ) -> list[AttemptAge]:
        """Attempts of a table that are open or aborted, the oldest first.

        Args:
            table_uuid: The table.
            open_ms: Only open ones that were opened at least this long ago.
            aborted_ms: Only aborted ones that were opened at least this long ago.
            limit: At most this many.
        """
        ...

    def abort_attempts(self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int) -> list[str]:
        """Aborts attempts that were opened at least so long ago; returns those that are aborted now. Idempotent.

        Only after this may the files of an open attempt be deleted.

        Args:
            table_uuid: The table.
            attempt_ids: Which attempts.
            open_ms: Younger attempts stay open. Attempts of other principals always stay open for as long as a write
                may take (`ABANDONED_MS`).
        """
        ...

    def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> int:
        """Forgets aborted attempts whose files below the table are deleted; returns how many. Idempotent.

        An attempt of several tables stays known for the others. An unknown attempt cannot be committed.
        Those of other principals stay known until their writers certainly know of the end (`SETTLED_MS`).
        """
        ...
