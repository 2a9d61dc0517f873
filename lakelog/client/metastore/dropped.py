"""What the metastore does for dropped tables: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.tables.table import TableName


class DroppedTables(Protocol):
    """Dropped tables: listed, restored, purged."""

    def list_dropped_tables(self, database: str = "") -> list[DroppedTable]:
        """The dropped tables that are still known, the newest first; those of all databases if none is named.

        Args:
            database: Only tables of this database, which need not exist; empty: of all.
        """
        ...

    def restore_table(
        self, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        """Makes a dropped table live again: the one dropped last if no uuid is given.

        Args:
            name: Its former name. Its database is made again if it was dropped.
            table_uuid: Which table; empty: the one that was dropped last.
            new_name: Its new name, in a database that exists; None: the former name.

        Raises:
            NotFound: No such table can be restored, or the new name's database does not exist.
            AlreadyExists: The name is taken, or another table uses its named topic by now (`TOPIC_IN_USE`).
        """
        ...

    def begin_purge(self, job_id: int, epoch: int) -> DroppedTable:
        """Notes that the table of a `purge` job can no longer be restored.

        Its files may be deleted only after this. Idempotent.

        Args:
            job_id: The table's job of the kind `purge`.
            epoch: The caller's.

        Raises:
            NotFound: There is no such job; the table was restored.
            Fenced: Another holder has the job.
            PermissionDenied: Another principal holds it.
        """
        ...

    def purge_rows(self, job_id: int, epoch: int) -> int:
        """Deletes some of the table's rows in the metastore; returns how many, 0: none is left.

        Idempotent. Finishing the job deletes the rest.

        Raises:
            NotFound: There is no such job.
            Fenced: Another holder has the job.
            PermissionDenied: Another principal holds it.
            InvalidArgument: The purge has not begun.
        """
        ...
