"""How far external logs are published, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent

from ..store.publishing import Published, PublishTransaction
from .catalog import MemoryCatalog


class MemoryPublishing(MemoryCatalog, PublishTransaction):
    """See `metastore.store.publishing.PublishTransaction`."""

    async def set_log(self, table_id: int, log: LogContent) -> None:
        table = self._table(table_id)
        self._journal.set(table, "head", replace(table.head, log=log))

    async def find_published(self, table_id: int) -> Published | None:
        return self._table(table_id).published

    async def lock_published(self, table_id: int) -> Published | None:
        """How far a table's log is published."""
        return self._table(table_id).published

    async def put_published(self, table_id: int, published: Published) -> None:
        stored = replace(published, reported_at_ms=self._clock.now_ms())
        self._journal.set(self._table(table_id), "published", stored)

    async def find_snapshot_uuids(self, table_id: int, snapshot_ids: Sequence[int]) -> dict[int, str]:
        table, wanted = self._table(table_id), set(snapshot_ids)
        return {
            each.snapshot_id: each.snapshot_uuid
            for each in table.snapshots
            if each.snapshot_id in wanted and each.snapshot_id not in table.expired
        }

    async def insert_log_offsets(self, table_id: int, generation: int, snapshots: Sequence[SnapshotOffsets]) -> None:
        known = self._table(table_id).log_offsets
        for each in snapshots:
            if (generation, each.snapshot_id) not in known:
                self._journal.put(known, (generation, each.snapshot_id), each)

    async def put_log_offsets(self, table_id: int, generation: int, snapshot: SnapshotOffsets) -> None:
        self._journal.put(self._table(table_id).log_offsets, (generation, snapshot.snapshot_id), snapshot)

    async def find_log_offsets(self, table_id: int, generation: int, until: int) -> SnapshotOffsets | None:
        found = await self.list_log_offsets(table_id, generation, -1, until, len(self._table(table_id).log_offsets))
        return found[-1] if found else None

    async def list_log_offsets(
        self, table_id: int, generation: int, after: int, until: int, limit: int
    ) -> list[SnapshotOffsets]:
        known = sorted(self._table(table_id).log_offsets.items())
        return [offsets for (of, snapshot_id), offsets in known if of == generation and after < snapshot_id <= until][
            :limit
        ]

    async def find_lease_holder(self, name: str) -> str:
        lease = self._state.leases.get(name)
        return lease.holder if lease is not None and lease.deadline_ms > self._clock.now_ms() else ""
