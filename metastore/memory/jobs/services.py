"""Presence of services in memory."""

from __future__ import annotations

from lakelog.format.jobs.presence import Service, ServiceReport

from ..catalog import MemoryCatalog
from ..state import StoredService


class MemoryServices(MemoryCatalog):
    """See `metastore.store.jobs.PresenceTransaction`."""

    async def renew_service(self, report: ServiceReport) -> bool:
        stored = self._state.services.get(report.instance_id)
        if stored is None:
            return False
        self._put(report, stored.started_at_ms)
        return True

    async def lock_services(self) -> None:
        """Nothing to do: this is the only transaction."""

    async def count_services(self) -> int:
        return len(self._state.services)

    async def insert_service(self, report: ServiceReport) -> None:
        self._put(report, self._clock.now_ms() - report.uptime_ms)

    async def remove_service(self, instance_id: str) -> None:
        if instance_id in self._state.services:
            self._journal.pop(self._state.services, instance_id)

    async def evict_services(self, gone_ms: int) -> None:
        now_ms = self._clock.now_ms()
        for stored in list(self._state.services.values()):
            if now_ms - stored.reported_at_ms >= stored.report.ttl_ms + gone_ms:
                self._journal.pop(self._state.services, stored.report.instance_id)

    async def list_services(self) -> list[Service]:
        now_ms = self._clock.now_ms()
        found = [
            Service(
                kind=stored.report.kind,
                instance_id=stored.report.instance_id,
                host=stored.report.host,
                pid=stored.report.pid,
                version=stored.report.version,
                state=stored.report.state,
                work=stored.report.work,
                metrics=stored.report.metrics,
                started_at_ms=stored.started_at_ms,
                silent_ms=max(now_ms - stored.reported_at_ms, 0),
                ttl_ms=stored.report.ttl_ms,
            )
            for stored in self._state.services.values()
        ]
        return sorted(found, key=lambda each: (each.kind, each.host, each.started_at_ms, each.instance_id))

    def _put(self, report: ServiceReport, started_at_ms: int) -> None:
        stored = StoredService(report, started_at_ms, self._clock.now_ms())
        self._journal.put(self._state.services, report.instance_id, stored)
