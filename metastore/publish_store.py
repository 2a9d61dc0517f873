"""What a store does for external logs: a part of `metastore.store`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.snapshot import LogContent


class PublishTransaction(Protocol):
    """What commits bring to logs, and how far these are published."""

    async def set_log(self, table_id: int, log: LogContent) -> None:
        """Changes what the commits to a table, whose head is locked, must bring to its log."""
        ...
