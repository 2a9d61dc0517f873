"""Leases and pipelines in memory."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.jobs.work import LeaseGrant, Pipeline

from ...store.transaction import WorkTransaction
from ..catalog import MemoryCatalog
from ..state import StoredLease


class MemoryWork(MemoryCatalog, WorkTransaction):
    """See `metastore.store.transaction.WorkTransaction`."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, owner: str) -> LeaseGrant:
        now_ms = self._clock.now_ms()
        lease = self._state.leases.get(name)
        if lease is not None and lease.deadline_ms > now_ms:
            return LeaseGrant(False, lease.epoch, lease.holder, lease.deadline_ms - now_ms)
        epoch = self._make_epoch(0 if lease is None else lease.epoch)
        self._journal.put(self._state.leases, name, StoredLease(epoch, holder, now_ms + duration_ms, owner))
        return LeaseGrant(True, epoch, holder, duration_ms)

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
        self._journal.put(self._state.leases, name, replace(lease, holder="", deadline_ms=0))
        return lease.owner

    async def lock_lease(self, name: str) -> tuple[int, str]:
        lease = self._state.leases.get(name)
        return (0, "") if lease is None else (lease.epoch, lease.owner)

    async def upsert_pipeline(self, pipeline: Pipeline) -> None:
        reported = replace(pipeline, reported_at_ms=self._clock.now_ms())
        self._journal.put(self._state.pipelines, pipeline.name, reported)

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
