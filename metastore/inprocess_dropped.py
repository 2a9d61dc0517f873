"""Dropped tables in this process; see `metastore.inprocess`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from lakelog.format.retention.dropped import DroppedTable, RestoredTable
from lakelog.format.tables.table import TableName

from .service import MetastoreService

T = TypeVar("T")


class Running(Protocol):
    """A service with its event loop."""

    service: MetastoreService

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the service's event loop and waits for it."""
        ...


class InProcessDropped:
    """The part of `InProcessMetastore` that is about dropped tables."""

    def list_dropped_tables(self: Running, database: str = "") -> list[DroppedTable]:
        """The dropped tables that are still known, the newest first."""
        return self.run(self.service.list_dropped_tables(database))

    def restore_table(
        self: Running, name: TableName, *, table_uuid: str = "", new_name: TableName | None = None
    ) -> RestoredTable:
        """Makes a dropped table live again."""
        return self.run(self.service.restore_table(name, table_uuid=table_uuid, new_name=new_name))

    def begin_purge(self: Running, job_id: int, epoch: int) -> DroppedTable:
        """Notes that a table can no longer be restored."""
        return self.run(self.service.begin_purge(job_id, epoch))

    def purge_rows(self: Running, job_id: int, epoch: int) -> int:
        """Deletes some of what is known of a table."""
        return self.run(self.service.purge_rows(job_id, epoch))
