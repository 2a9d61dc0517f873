"""What a store does for dropped tables: a part of `metastore.store.transaction`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.tables.table import TableName


@dataclass(frozen=True)
class DroppedRecord:
    """A dropped table with the store's own number of it."""

    table_id: int
    table: DroppedTable


class DroppedTransaction(Protocol):
    """Dropped tables. Their heads are hidden, so that no commit, plan or watch finds them.

    A lock on one stands for that on a head: it comes before one on a job.
    """

    async def drop_table(self, table_id: int, retention_ms: int) -> None:
        """Takes a table whose head is locked out of the catalog; all that is known of it stays, but for its jobs.

        A job of the kind `purge` is due once it was kept so long. With 0 it is purged from now on.
        """
        ...

    async def list_dropped(self, database: str, name: str, limit: int) -> list[DroppedTable]:
        """At most `limit` dropped tables, by the time of their drop, the newest first.

        Empty texts stand for any database and any name.
        """
        ...

    async def find_dropped(self, table_uuid: str) -> DroppedTable | None:
        """A dropped table, without locking it; None when it is live or not known."""
        ...

    async def lock_dropped(self, table_uuid: str) -> DroppedRecord | None:
        """Keeps a dropped table as it is; None when it is live or not known."""
        ...

    async def restore_table(self, table_id: int, name: TableName) -> None:
        """Gives a locked dropped table a free name in a locked database, and takes its job away."""
        ...

    async def mark_purged(self, table_id: int) -> None:
        """Notes that a locked dropped table can no longer be restored, and dooms the open attempts of it alone."""
        ...

    async def delete_rows(self, table_id: int, limit: int) -> int:
        """Deletes at most `limit` rows of what is known of a locked, purged table; how many, 0: there are none."""
        ...

    async def forget_table(self, table_id: int) -> None:
        """Deletes the last that is known of a locked, purged table without rows: its name, and its jobs."""
        ...
