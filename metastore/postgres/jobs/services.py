"""Presence of services in Postgres. Only its clock says when they reported and started."""

from __future__ import annotations

from typing import Final

from lakelog.format.jobs.presence import Service, ServiceReport, ServiceState

from ..catalog import NOW_MS
from ..connection import arrays
from ..connection.session import InSession

_RENEW: Final = f"""
UPDATE service SET kind = %s, host = %s, pid = %s::bigint, version = %s, state = %s, work = %s::text[], metrics = %s,
    ttl_ms = %s::bigint, reported_at_ms = {NOW_MS}
WHERE instance_id = %s RETURNING pid
"""

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('services', 0))"

_COUNT: Final = "SELECT count(*) FROM service"

_INSERT: Final = f"""
INSERT INTO service (kind, host, pid, version, state, work, metrics, ttl_ms, instance_id, started_at_ms, reported_at_ms)
VALUES (%s, %s, %s::bigint, %s, %s, %s::text[], %s, %s::bigint, %s, {NOW_MS} - %s::bigint, {NOW_MS})
ON CONFLICT (instance_id) DO UPDATE SET state = excluded.state, work = excluded.work, metrics = excluded.metrics,
    ttl_ms = excluded.ttl_ms, reported_at_ms = excluded.reported_at_ms
"""

_REMOVE: Final = "DELETE FROM service WHERE instance_id = %s"

# Every report evicts: two that waited for each other's rows would be a deadlock.
_EVICT: Final = f"""
DELETE FROM service WHERE instance_id IN (
    SELECT instance_id FROM service WHERE reported_at_ms + ttl_ms + %s::bigint <= {NOW_MS} FOR UPDATE SKIP LOCKED
)
"""

# A report from the future was made before the clock went back; a living service reports again within seconds.
_LIST: Final = f"""
SELECT kind, replace(instance_id::text, '-', ''), host, pid, version, state, work, metrics, started_at_ms,
    abs({NOW_MS} - reported_at_ms), ttl_ms
FROM service ORDER BY kind, host, started_at_ms, instance_id
"""


class PostgresServices(InSession):
    """See `metastore.store.jobs.PresenceTransaction`."""

    async def renew_service(self, report: ServiceReport) -> bool:
        return bool(await self._session.write(_RENEW, _values(report)))

    async def lock_services(self) -> None:
        await self._session.write(_LOCK)

    async def count_services(self) -> int:
        return int((await self._session.read(_COUNT))[0][0])

    async def insert_service(self, report: ServiceReport) -> None:
        await self._session.write(_INSERT, (*_values(report), str(report.uptime_ms)))

    async def remove_service(self, instance_id: str) -> None:
        await self._session.write(_REMOVE, (instance_id,))

    async def evict_services(self, gone_ms: int) -> None:
        await self._session.write(_EVICT, (str(gone_ms),))

    async def list_services(self) -> list[Service]:
        rows = await self._session.read(_LIST)
        return [_to_service(*row) for row in rows]


def _to_service(
    kind: str,
    instance_id: str,
    host: str,
    pid: int,
    version: str,
    state: str,
    work: list[str],
    metrics: str,
    started_at_ms: int,
    silent_ms: int,
    ttl_ms: int,
) -> Service:
    return Service(
        kind,
        instance_id,
        host,
        pid,
        version,
        ServiceState(state),
        tuple(work),
        metrics,
        started_at_ms,
        silent_ms,
        ttl_ms,
    )


def _values(report: ServiceReport) -> tuple[str, ...]:
    return (
        report.kind,
        report.host,
        str(report.pid),
        report.version,
        report.state.value,
        arrays.texts(report.work),
        report.metrics,
        str(report.ttl_ms),
        report.instance_id,
    )
