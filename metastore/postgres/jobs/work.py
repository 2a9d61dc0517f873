"""Leases and pipelines in Postgres. Only its clock sets and judges deadlines."""

from __future__ import annotations

from typing import Final

from lakelog.format.jobs.work import LeaseGrant, Pipeline

from ...store.jobs import WorkTransaction
from ...store.limits import LONGEST_LEASE_MS
from ..catalog import NOW_MS, epoch_after
from ..connection import arrays
from ..connection.session import InSession, Statement

_REMAINING_MS: Final = "greatest(0, (extract(epoch FROM lease.deadline - clock_timestamp()) * 1000)::bigint)"

_DEADLINE: Final = "clock_timestamp() + %s * interval '1 millisecond'"

# A deadline after the longest possible one was set before the clock went back. Epochs fence off a holder that was only
# overtaken by this.
IS_OVER: Final = f"""
(lease.deadline <= clock_timestamp()
    OR lease.deadline > clock_timestamp() + interval '1 millisecond' * {LONGEST_LEASE_MS + 1000})
"""

# The former owner is the one that the statement finds when it begins, so it is read before the row changes.
_ACQUIRE: Final = f"""
WITH former AS (SELECT owner FROM lease WHERE name = %s)
INSERT INTO lease (name, epoch, holder, owner, deadline)
VALUES (%s, {epoch_after("0")}, %s, nullif(%s, ''), {_DEADLINE})
ON CONFLICT (name) DO UPDATE SET epoch = {epoch_after("lease.epoch")}, holder = excluded.holder, owner = excluded.owner,
    deadline = {_DEADLINE}
WHERE {IS_OVER}
RETURNING epoch, holder, NOT EXISTS (SELECT 1 FROM former WHERE former.owner = lease.owner)
"""

# Numbers apart from those of writers and jobs, which others lock.
_LOCK_OWNER: Final = "SELECT pg_advisory_xact_lock(2, hashtext(%s))"

_COUNT_LEASES: Final = "SELECT count(*) FROM (SELECT 1 FROM lease WHERE owner = %s LIMIT %s) x"

_COUNT_PIPELINES: Final = "SELECT count(*) FROM (SELECT 1 FROM pipeline WHERE owner = %s LIMIT %s) x"

# The epoch is a time, and one that lies in the future must not be forgotten: the next one would be lower.
_IS_UNUSED: Final = """
(lease.deadline < clock_timestamp() - %s::bigint * interval '1 ms'
    AND lease.epoch < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %s::bigint * 1000)
"""

_LIST_LEASES: Final = f"""
SELECT lease.name, {_IS_UNUSED} FROM (SELECT * FROM lease WHERE name > %s COLLATE "C" ORDER BY name LIMIT %s) lease
ORDER BY lease.name
"""

# Looks again, because they were not locked. It does not wait: a lease that someone uses at this moment is not unused.
_FORGET_LEASES: Final = f"""
DELETE FROM lease l WHERE l.name IN (
    SELECT lease.name FROM lease WHERE lease.name = ANY(%s::text[]) AND {_IS_UNUSED} FOR UPDATE SKIP LOCKED)
RETURNING l.name
"""

_FORGET_PIPELINES: Final = "DELETE FROM pipeline WHERE 'pipeline/' || name = ANY(%s::text[])"

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
    reported_at_ms, owner
"""

_UPSERT_PIPELINE: Final = f"""
WITH former AS (SELECT owner FROM pipeline WHERE name = %s)
INSERT INTO pipeline ({_PIPELINE_COLUMNS})
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {NOW_MS}, nullif(%s, ''))
ON CONFLICT (name) DO UPDATE SET table_name = excluded.table_name, source = excluded.source, state = excluded.state,
    last_batch_id = excluded.last_batch_id, position = excluded.position, lag = excluded.lag,
    total_rows = excluded.total_rows, dead_letter_rows = excluded.dead_letter_rows, last_error = excluded.last_error,
    reported_at_ms = excluded.reported_at_ms, owner = excluded.owner
RETURNING NOT EXISTS (SELECT 1 FROM former WHERE former.owner = pipeline.owner)
"""

_LIST_PIPELINES: Final = f"""
SELECT p.name, p.table_name, p.source, p.state, p.last_batch_id, p.position, p.lag, p.total_rows, p.dead_letter_rows,
    p.last_error, p.reported_at_ms, coalesce(lease.holder, '')
FROM pipeline p LEFT JOIN lease ON lease.name = 'pipeline/' || p.name AND NOT {IS_OVER}
ORDER BY p.name
"""


_DELETE_PIPELINE: Final = "DELETE FROM pipeline WHERE name = %s"


class PostgresWork(InSession, WorkTransaction):
    """See `metastore.store.jobs.WorkTransaction`."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, owner: str) -> tuple[LeaseGrant, bool]:
        rows = await self._session.write(_ACQUIRE, (name, name, holder, owner, duration_ms, duration_ms))
        if rows:
            return LeaseGrant(True, rows[0][0], rows[0][1], duration_ms), rows[0][2]
        return LeaseGrant(False, *await self._find(name)), False

    async def count_leases(self, owner: str, limit: int) -> int:
        return await self._count(_COUNT_LEASES, owner, limit)

    async def forget_unused_leases(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        unused = (str(unused_ms), str(unused_ms))
        listed = await self._session.read(_LIST_LEASES, (*unused, after, limit))
        last: str = listed[-1][0] if len(listed) == limit else ""
        names = [name for name, is_unused in listed if is_unused]
        if not names:
            return last, []
        rows = await self._session.write(_FORGET_LEASES, (arrays.texts(names), *unused))
        removed = sorted([row[0] for row in rows])
        await self._session.write(_FORGET_PIPELINES, (arrays.texts(removed),))
        return last, removed

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

    async def upsert_pipeline(self, pipeline: Pipeline, owner: str) -> bool:
        rows = await self._session.write(
            _UPSERT_PIPELINE,
            (
                pipeline.name,
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
                owner,
            ),
        )
        is_more: bool = rows[0][0]
        return is_more

    async def count_pipelines(self, owner: str, limit: int) -> int:
        return await self._count(_COUNT_PIPELINES, owner, limit)

    async def list_pipelines(self) -> list[Pipeline]:
        return [Pipeline(*row) for row in await self._session.read(_LIST_PIPELINES)]

    async def delete_pipeline(self, name: str) -> None:
        await self._session.write(_DELETE_PIPELINE, (name,))

    async def _count(self, sql: str, owner: str, limit: int) -> int:
        lock = Statement(_LOCK_OWNER, (owner,))
        _, rows = await self._session.write_all([lock, Statement(sql, (owner, limit))])
        count: int = rows[0][0]
        return count

    async def _find(self, name: str) -> tuple[int, str, int]:
        rows = await self._session.write(_FIND, (name,))
        return rows[0] if rows else (0, "", 0)
