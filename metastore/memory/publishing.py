"""How far external logs are published, in memory."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.snapshot import LogContent

from .catalog import MemoryCatalog


class MemoryPublishing(MemoryCatalog):
    """See `metastore.publish_store.PublishTransaction`."""

    async def set_log(self, table_id: int, log: LogContent) -> None:
        """Changes what the commits to a table must bring to its log."""
        table = self._table(table_id)
        self._journal.set(table, "head", replace(table.head, log=log))
