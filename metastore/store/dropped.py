"""What a store does for dropped tables: a part of `metastore.store.transaction`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lakelog.format.retention.dropped import DroppedTable
from lakelog.format.tables.table import TableName


@dataclass(frozen=True)
class DroppedRecord:
    """A dropped table with its number in the store."""

    table_id: int
    table: DroppedTable


class DroppedTransaction(Protocol):
    """Dropped tables. Their heads are hidden, so that no commit, plan or watch finds them.

    A lock on a dropped table stands for the lock on a head: it is taken before the lock on a job.
    """

    async def drop_table(self, table_id: int, retention_ms: int) -> None:
        """Takes a table whose head is locked out of the catalog. All its records stay, except its jobs.

        A job of the kind `purge` is due after the retention. With 0 the table is purged from now on.
        """
        ...

    async def list_dropped(self, database: str, name: str, limit: int) -> list[DroppedTable]:
        """At most `limit` dropped tables, those dropped last first.

        An empty string stands for any database and any name.
        """
        ...

    async def find_dropped(self, table_uuid: str) -> DroppedTable | None:
        """A dropped table, without locking it; None when the table is live or unknown."""
        ...

    async def lock_dropped(self, table_uuid: str) -> DroppedRecord | None:
        """Locks a dropped table against changes; None when the table is live or unknown."""
        ...

    async def restore_table(self, table_id: int, name: TableName) -> None:
        """Gives a locked dropped table a free name in a locked database, and removes its purge job."""
        ...

    async def mark_purged(self, table_id: int) -> None:
        """Records that a locked dropped table cannot be restored, and aborts open attempts of it alone."""
        ...

    async def delete_rows(self, table_id: int, limit: int) -> int:
        """Deletes at most `limit` records of a locked, purged table and returns how many; 0: none are left."""
        ...

    async def forget_table(self, table_id: int) -> None:
        """Deletes the last records of a locked, purged table without others: its name, jobs and publisher's lease."""
        ...
