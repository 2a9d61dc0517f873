"""Leases and pipelines in memory."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.jobs.work import LeaseGrant, Pipeline

from ...store.jobs import WorkTransaction
from ..catalog import MemoryCatalog
from ..state import StoredLease


class MemoryWork(MemoryCatalog, WorkTransaction):
    """See `metastore.store.jobs.WorkTransaction`."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, owner: str) -> tuple[LeaseGrant, bool]:
        now_ms = self._clock.now_ms()
        lease = self._state.leases.get(name)
        if lease is not None and lease.deadline_ms > now_ms:
            return LeaseGrant(False, lease.epoch, lease.holder, lease.deadline_ms - now_ms), False
        epoch = self._make_epoch(0 if lease is None else lease.epoch)
        self._journal.put(self._state.leases, name, StoredLease(epoch, holder, now_ms + duration_ms, owner))
        is_more = lease is None or lease.owner != owner
        return LeaseGrant(True, epoch, holder, duration_ms), is_more

    async def count_leases(self, owner: str, limit: int) -> int:
        return min(limit, sum(lease.owner == owner for lease in self._state.leases.values()))

    async def forget_unused_leases(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        names = sorted(name for name in self._state.leases if name > after)[:limit]
        old_ms = self._clock.now_ms() - unused_ms
        found = [(name, self._state.leases[name]) for name in names]
        removed = [name for name, lease in found if lease.deadline_ms < old_ms and lease.epoch < old_ms * 1000]
        for name in removed:
            self._journal.pop(self._state.leases, name)
            pipeline = name.removeprefix("pipeline/")
            if pipeline != name and pipeline in self._state.pipelines:
                await self.delete_pipeline(pipeline)
        return names[-1] if len(names) == limit else "", removed

    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> tuple[LeaseGrant, str]:
        now_ms = self._clock.now_ms()
        lease = self._state.leases.get(name)
        if lease is None:
            return LeaseGrant(False, 0, "", 0), ""
        if lease.epoch != epoch or not lease.holder:
            return LeaseGrant(False, lease.epoch, lease.holder, max(lease.deadline_ms - now_ms, 0)), ""
        self._journal.put(self._state.leases, name, replace(lease, deadline_ms=now_ms + duration_ms))
        return LeaseGrant(True, epoch, lease.holder, duration_ms), lease.owner

    async def release_lease(self, name: str, epoch: int) -> str:
        lease = self._state.leases.get(name)
        if lease is None or lease.epoch != epoch:
            return ""
        self._journal.put(self._state.leases, name, replace(lease, holder="", deadline_ms=self._clock.now_ms()))
        return lease.owner

    async def lock_lease(self, name: str) -> tuple[int, str]:
        lease = self._state.leases.get(name)
        return (0, "") if lease is None else (lease.epoch, lease.owner)

    async def upsert_pipeline(self, pipeline: Pipeline, owner: str) -> bool:
        reported = replace(pipeline, reported_at_ms=self._clock.now_ms())
        is_more = self._state.pipeline_owners.get(pipeline.name) != owner
        self._journal.put(self._state.pipelines, pipeline.name, reported)
        self._journal.put(self._state.pipeline_owners, pipeline.name, owner)
        return is_more

    async def count_pipelines(self, owner: str, limit: int) -> int:
        found = [name for name in self._state.pipelines if self._state.pipeline_owners.get(name) == owner]
        return min(limit, len(found))

    async def list_pipelines(self) -> list[Pipeline]:
        now_ms = self._clock.now_ms()
        found = []
        for name, pipeline in sorted(self._state.pipelines.items()):
            lease = self._state.leases.get(f"pipeline/{name}")
            held = lease is not None and lease.deadline_ms > now_ms
            found.append(replace(pipeline, holder=lease.holder if lease is not None and held else ""))
        return found

    async def delete_pipeline(self, name: str) -> None:
        self._journal.pop(self._state.pipelines, name)
        if name in self._state.pipeline_owners:
            self._journal.pop(self._state.pipeline_owners, name)
