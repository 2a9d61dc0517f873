"""How far external logs are published, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent

from ..store.publishing import AttemptSeen, Published, PublishTransaction
from .catalog import MemoryCatalog


class MemoryPublishing(MemoryCatalog, PublishTransaction):
    """See `metastore.store.publishing.PublishTransaction`."""

    async def find_sent_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptSeen]:
        state, now_ms = self._state, self._clock.now_ms()
        tables = [table for table in self._live() if table.new.table_uuid == table_uuid]
        found = {}
        for attempt_id in attempt_ids:
            attempt = state.attempts.get(attempt_id)
            if attempt is None or table_uuid not in attempt.table_uuids:
                continue
            opened_ms = state.attempt_times[attempt_id]
            is_applied = any((attempt.writer, attempt.identifier) in table.results for table in tables)
            is_fenced = attempt.identifier is not None and attempt.epoch < state.epochs.get(attempt.writer, 0)
            quiet_ms = now_ms - max(opened_ms, state.attempt_renewals.get(attempt_id, 0))
            found[attempt_id] = AttemptSeen(attempt.state, opened_ms, quiet_ms, is_applied or is_fenced)
        return found

    async def find_busy_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        """Returns none: there is one transaction at a time."""
        return []

    async def renew_attempts(self, attempt_ids: Sequence[str], owner: str | None) -> list[str]:
        known = [self._state.attempts[each] for each in attempt_ids if each in self._state.attempts]
        own = [each for each in known if owner is None or each.owner in ("", owner)]
        renewed = [each.attempt_id for each in own if each.state is AttemptState.OPEN]
        for each in renewed:
            self._journal.put(self._state.attempt_renewals, each, self._clock.now_ms())
        return renewed

    async def set_log(self, table_id: int, log: LogContent) -> None:
        table = self._table(table_id)
        self._journal.set(table, "head", replace(table.head, log=log))

    async def find_published(self, table_id: int) -> Published | None:
        return self._table(table_id).published

    async def lock_published(self, table_id: int) -> Published | None:
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

    async def insert_log_offsets(
        self, table_id: int, generation: int, snapshots: Sequence[SnapshotOffsets], *, visible_now: bool
    ) -> None:
        known = self._table(table_id).log_offsets
        visible_at_ms = self._clock.now_ms() if visible_now else 0
        for each in snapshots:
            if (generation, each.snapshot_id) not in known:
                entry = replace(each, visible_at_ms=visible_at_ms)
                self._journal.put(known, (generation, each.snapshot_id), entry)

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
