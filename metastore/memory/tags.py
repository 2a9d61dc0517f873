"""Tags in memory."""

from __future__ import annotations

from lakelog.format.retention.tag import Tag
from lakelog.format.tables.snapshot import Snapshot

from ..store.retention import TagTransaction
from .catalog import MemoryCatalog


class MemoryTags(MemoryCatalog, TagTransaction):
    """See `metastore.store.retention.TagTransaction`."""

    async def find_tag(self, table_id: int, name: str) -> Tag | None:
        return self._state.tags.get((table_id, name))

    async def has_tag(self, table_id: int, snapshot_id: int) -> bool:
        tags = self._state.tags.items()
        return any(owner == table_id and tag.snapshot_id == snapshot_id for (owner, _), tag in tags)

    async def list_tags(self, table_id: int) -> list[Tag]:
        return [tag for (owner, _), tag in sorted(self._state.tags.items()) if owner == table_id]

    async def insert_tag(self, table_id: int, name: str, snapshot: Snapshot) -> Tag:
        now_ms = self._clock.now_ms()
        tag = Tag(name, snapshot.snapshot_id, now_ms, snapshot.committed_at_ms, snapshot.total_rows)
        self._journal.put(self._state.tags, (table_id, name), tag)
        return tag

    async def delete_tag(self, table_id: int, name: str) -> None:
        self._journal.pop(self._state.tags, (table_id, name))
