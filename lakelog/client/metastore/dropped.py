"""What the metastore does for dropped tables: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.tables.table import TableName


class DroppedTables(Protocol):
    """Dropped tables: listed, restored, purged."""

    def list_dropped_tables(self, database: str = "") -> list[DroppedTable]:
        """The dropped tables that are still known, the newest first; of all databases where none is named."""
        ...

    def restore_table(
        self, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        """Makes a dropped table live again, the one dropped last where no uuid is given.

        Raises:
            NotFound: There is none that could be restored; or no database for the new name.
            AlreadyExists: The name is taken, or its named topic is another table's by now (`TOPIC_IN_USE`).
        """
        ...

    def begin_purge(self, job_id: int, epoch: int) -> DroppedTable:
        """Notes that the table of a job of the kind `purge` can no longer be restored; Fenced when another does it.

        Only behind this its files may be deleted. Idempotent.
        """
        ...

    def purge_rows(self, job_id: int, epoch: int) -> int:
        """Deletes some of what is known of the table; how many rows, 0: none is left. Fenced when another does it.

        Idempotent. Finishing the job forgets the rest.
        """
        ...
