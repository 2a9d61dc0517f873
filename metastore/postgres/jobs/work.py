"""Leases and pipelines in Postgres. Only its clock sets and judges deadlines."""

from __future__ import annotations

from typing import Final

from lakelog.format.jobs.work import LeaseGrant, Pipeline

from ...store.limits import LONGEST_LEASE_MS
from ...store.transaction import WorkTransaction
from ..catalog import NOW_MS, epoch_after
from ..connection.session import InSession

_REMAINING_MS: Final = "greatest(0, (extract(epoch FROM lease.deadline - clock_timestamp()) * 1000)::bigint)"

_DEADLINE: Final = "clock_timestamp() + %s * interval '1 millisecond'"

# A deadline after the longest possible one was set before the clock went back. Epochs fence off a holder that was only
# overtaken by this.
IS_OVER: Final = f"""
(lease.deadline <= clock_timestamp()
    OR lease.deadline > clock_timestamp() + interval '1 millisecond' * {LONGEST_LEASE_MS + 1000})
"""

_ACQUIRE: Final = f"""
INSERT INTO lease (name, epoch, holder, owner, deadline)
VALUES (%s, {epoch_after("0")}, %s, nullif(%s, ''), {_DEADLINE})
ON CONFLICT (name) DO UPDATE SET epoch = {epoch_after("lease.epoch")}, holder = excluded.holder, owner = excluded.owner,
    deadline = {_DEADLINE}
WHERE {IS_OVER}
RETURNING epoch, holder
"""

_FIND: Final = f"SELECT epoch, holder, {_REMAINING_MS} FROM lease WHERE name = %s"

_RENEW: Final = f"""
UPDATE lease SET deadline = {_DEADLINE} WHERE name = %s AND epoch = %s AND holder <> ''
RETURNING epoch, holder, coalesce(owner, '')
"""

# The owner stays until another principal takes the lease, so that a second release by the owner is allowed.
_RELEASE: Final = """
UPDATE lease SET holder = '', deadline = clock_timestamp() WHERE name = %s AND epoch = %s
RETURNING coalesce(owner, '')
"""

_LOCK: Final = "SELECT epoch, coalesce(owner, '') FROM lease WHERE name = %s FOR SHARE"

_PIPELINE_COLUMNS: Final = """
    name, table_name, source, state, last_batch_id, position, lag, total_rows, dead_letter_rows, last_error,
    reported_at_ms
"""

_UPSERT_PIPELINE: Final = f"""
INSERT INTO pipeline ({_PIPELINE_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {NOW_MS})
ON CONFLICT (name) DO UPDATE SET table_name = excluded.table_name, source = excluded.source, state = excluded.state,
    last_batch_id = excluded.last_batch_id, position = excluded.position, lag = excluded.lag,
    total_rows = excluded.total_rows, dead_letter_rows = excluded.dead_letter_rows, last_error = excluded.last_error,
    reported_at_ms = excluded.reported_at_ms
"""

_LIST_PIPELINES: Final = f"""
SELECT p.name, p.table_name, p.source, p.state, p.last_batch_id, p.position, p.lag, p.total_rows, p.dead_letter_rows,
    p.last_error, p.reported_at_ms, coalesce(lease.holder, '')
FROM pipeline p LEFT JOIN lease ON lease.name = 'pipeline/' || p.name AND NOT {IS_OVER}
ORDER BY p.name
"""


_DELETE_PIPELINE: Final = "DELETE FROM pipeline WHERE name = %s"


class PostgresWork(InSession, WorkTransaction):
    """See `metastore.store.transaction.WorkTransaction`."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, owner: str) -> LeaseGrant:
        rows = await self._session.write(_ACQUIRE, (name, holder, owner, duration_ms, duration_ms))
        if rows:
            return LeaseGrant(True, rows[0][0], rows[0][1], duration_ms)
        return LeaseGrant(False, *await self._find(name))

    async def renew_lease(self, name: str, epoch: int, duration_ms: int) -> tuple[LeaseGrant, str]:
        rows = await self._session.write(_RENEW, (duration_ms, name, epoch))
        if rows:
            return LeaseGrant(True, rows[0][0], rows[0][1], duration_ms), rows[0][2]
        return LeaseGrant(False, *await self._find(name)), ""

    async def release_lease(self, name: str, epoch: int) -> str:
        rows = await self._session.write(_RELEASE, (name, epoch))
        return rows[0][0] if rows else ""

    async def lock_lease(self, name: str) -> tuple[int, str]:
        rows = await self._session.write(_LOCK, (name,))
        return rows[0] if rows else (0, "")

    async def upsert_pipeline(self, pipeline: Pipeline) -> None:
        await self._session.write(
            _UPSERT_PIPELINE,
            (
                pipeline.name,
                pipeline.table,
                pipeline.source,
                pipeline.state,
                pipeline.last_batch_id,
                pipeline.position,
                pipeline.lag,
                pipeline.total_rows,
                pipeline.dead_letter_rows,
                pipeline.last_error,
            ),
        )

    async def list_pipelines(self) -> list[Pipeline]:
        return [Pipeline(*row) for row in await self._session.read(_LIST_PIPELINES)]

    async def delete_pipeline(self, name: str) -> None:
        await self._session.write(_DELETE_PIPELINE, (name,))

    async def _find(self, name: str) -> tuple[int, str, int]:
        rows = await self._session.write(_FIND, (name,))
        return rows[0] if rows else (0, "", 0)
