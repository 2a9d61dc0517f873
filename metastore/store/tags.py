"""Tags, as use cases see them in a transaction of the store."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.retention.tag import Tag
from lakelog.format.tables.snapshot import Snapshot


class TagTransaction(Protocol):
    """Tags: names of snapshots."""

    async def find_tag(self, table_id: int, name: str) -> Tag | None:
        """A tag of a table."""
        ...

    async def has_tag(self, table_id: int, snapshot_id: int) -> bool:
        """Whether a snapshot has a tag."""
        ...

    async def list_tags(self, table_id: int) -> list[Tag]:
        """A table's tags by name."""
        ...

    async def insert_tag(self, table_id: int, name: str, snapshot: Snapshot) -> Tag:
        """Gives a snapshot a free name. The table's head is locked."""
        ...

    async def delete_tag(self, table_id: int, name: str) -> None:
        """Removes a tag. The table's head is locked."""
        ...
