"""Jobs in Postgres. Deadlines and pauses are set and judged by its clock alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.job import DueJob, Job, JobState

from . import arrays
from .catalog import NOW_MS
from .group_records import INSERT_DUE, to_due_arrays, to_json
from .session import Row, Session

_REMAINING_MS: Final = """
CASE WHEN j.state IN ('due', 'leased')
    THEN greatest(0, (extract(epoch FROM j.due_at - clock_timestamp()) * 1000)::bigint) ELSE 0 END
"""

_COLUMNS: Final = f"""
    j.job_id, replace(t.table_uuid::text, '-', ''), t.database || '.' || t.name, j.kind,
    coalesce(j.long_scope, j.scope), j.state, j.priority, j.payload, j.attempts, j.reason, j.outcome,
    j.epoch, j.holder, {_REMAINING_MS}, j.created_at_ms, j.updated_at_ms, j.requested, coalesce(j.done_epoch, 0)
"""

_FROM: Final = "FROM job j JOIN catalog_table t ON t.table_id = j.table_id"

# An empty list of tables stands for all of them.
_WAITING: Final = """
j.state IN ('due', 'leased') AND j.kind = ANY(%s::text[]) AND (%s::uuid[] = '{}' OR j.table_id IN (
    SELECT table_id FROM catalog_table WHERE table_uuid = ANY(%s::uuid[])))
"""

_DUE_AT: Final = "clock_timestamp() + %s * interval '1 millisecond'"

# SUBTLE: what another takes at this moment is passed over, not waited for; it is not to be had any more.
_LEASE: Final = f"""
WITH first AS (
    SELECT j.job_id, j.state FROM job j WHERE {_WAITING} AND j.due_at <= clock_timestamp()
    ORDER BY j.priority DESC, j.due_at, j.job_id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE job SET state = 'leased', attempts = attempts + 1, epoch = epoch + 1, holder = %s, due_at = {_DUE_AT},
    updated_at_ms = {NOW_MS}
FROM first WHERE job.job_id = first.job_id
RETURNING job.job_id, first.state = 'leased'
"""

_NEXT_DUE: Final = f"""
SELECT greatest(0, ceil(extract(epoch FROM min(j.due_at) - clock_timestamp()) * 1000)::bigint)
FROM job j WHERE {_WAITING}
"""

_FIND: Final = f"SELECT {_COLUMNS} {_FROM} WHERE j.job_id = %s"

_LOCK: Final = f"{_FIND} FOR UPDATE OF j"

_LIST: Final = f"""
SELECT {_COLUMNS} {_FROM} WHERE %s::uuid[] = '{{}}' OR t.table_uuid = ANY(%s::uuid[])
ORDER BY t.database, t.name, j.kind, coalesce(j.long_scope, j.scope)
"""

_RENEW: Final = f"UPDATE job SET due_at = {_DUE_AT} WHERE job_id = %s"

_PUT: Final = f"""
UPDATE job SET state = %s, attempts = %s, reason = %s, outcome = %s, payload = %s::jsonb, requested = %s::jsonb,
    done_epoch = %s, holder = '', due_at = {_DUE_AT}, updated_at_ms = {NOW_MS}
WHERE job_id = %s
"""

_SET_PAYLOAD: Final = "UPDATE job SET payload = %s::jsonb, requested = %s::jsonb WHERE job_id = %s"

# In one order, so that those who lock several never wait for each other in a circle.
_LOCK_SCOPES: Final = f"""
SELECT {_COLUMNS} {_FROM} WHERE j.table_id = %s AND j.kind = %s AND coalesce(j.long_scope, j.scope) = ANY(%s::text[])
ORDER BY j.job_id FOR UPDATE OF j
"""

_REQUEST: Final = f"""
{INSERT_DUE}
ON CONFLICT (table_id, kind, scope) DO UPDATE SET
    priority = CASE j.state WHEN 'done' THEN excluded.priority ELSE greatest(j.priority, excluded.priority) END,
    requested = CASE j.state WHEN 'leased' THEN excluded.payload END,
    payload = CASE j.state WHEN 'leased' THEN j.payload ELSE excluded.payload END,
    attempts = CASE j.state WHEN 'leased' THEN j.attempts ELSE 0 END,
    due_at = CASE j.state WHEN 'leased' THEN j.due_at ELSE excluded.due_at END,
    updated_at_ms = CASE j.state WHEN 'leased' THEN j.updated_at_ms ELSE excluded.updated_at_ms END,
    state = CASE j.state WHEN 'leased' THEN 'leased' ELSE 'due' END
"""

# `requested` of what is being done: behind its end at once, so that what is to come later is not in it.
_MAKE_DUE: Final = f"""
{INSERT_DUE}
ON CONFLICT (table_id, kind, scope) DO UPDATE SET
    priority = CASE j.state WHEN 'done' THEN excluded.priority ELSE greatest(j.priority, excluded.priority) END,
    requested = CASE WHEN j.state = 'leased' AND excluded.due_at <= clock_timestamp() THEN excluded.payload
        WHEN j.state = 'leased' THEN j.requested END,
    payload = CASE j.state WHEN 'leased' THEN j.payload ELSE excluded.payload END,
    attempts = CASE j.state WHEN 'done' THEN 0 ELSE j.attempts END,
    due_at = CASE WHEN j.state = 'done' THEN excluded.due_at WHEN j.state = 'leased' OR j.attempts > 0 THEN j.due_at
        ELSE least(j.due_at, excluded.due_at) END,
    updated_at_ms = CASE j.state WHEN 'leased' THEN j.updated_at_ms ELSE excluded.updated_at_ms END,
    state = CASE j.state WHEN 'leased' THEN 'leased' ELSE 'due' END
WHERE j.state <> 'failed'
"""

_DOOM: Final = """
UPDATE attempt SET state = 'doomed' WHERE state = 'open' AND writer LIKE 'job/%%' AND writer = %s
RETURNING replace(attempt_id::text, '-', '')
"""


class PostgresJobs:
    """See `metastore.job_store.JobTransaction`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # As attributes, so that a test can take a protection out and see it missed.
    lease_sql = _LEASE
    request_sql = _REQUEST

    async def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, duration_ms: int
    ) -> tuple[Job, bool] | None:
        """Takes the first job that is due, or over; the flag tells whether it was over."""
        rows = await self._session.write(self.lease_sql, (*_wanted(kinds, table_uuids), holder, duration_ms))
        if not rows:
            return None
        job = await self.lock_job(rows[0][0])
        assert job is not None, "it was taken in this transaction"
        return job, rows[0][1]

    async def next_due_ms(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> int | None:
        """In how many milliseconds the first of these jobs is due or over; None: none will be by itself."""
        rows = await self._session.read(_NEXT_DUE, _wanted(kinds, table_uuids))
        left_ms: int | None = rows[0][0]
        return left_ms

    async def doom_attempts(self, writer: str) -> list[str]:
        """Dooms the open attempts of a writer and tells which."""
        return [row[0] for row in await self._session.write(_DOOM, (writer,))]

    async def find_job(self, job_id: int) -> Job | None:
        """A job, without locking it."""
        row = await self._session.read_one(_FIND, (str(job_id),))
        return None if row is None else _job(row)

    async def lock_job(self, job_id: int) -> Job | None:
        """Keeps a job as it is."""
        rows = await self._session.write(_LOCK, (str(job_id),))
        return _job(rows[0]) if rows else None

    async def renew_job(self, job_id: int, duration_ms: int) -> None:
        """Moves the deadline of a locked job."""
        await self._session.write(_RENEW, (duration_ms, str(job_id)))

    async def put_job(self, job: Job, pause_ms: int) -> None:
        """Changes a locked job that nobody holds any more."""
        values = (
            job.state.value,
            job.attempts,
            job.reason,
            job.outcome,
            to_json(job.payload),
            to_json(job.requested),
            str(job.done_epoch),
            pause_ms,
            str(job.job_id),
        )
        await self._session.write(_PUT, values)

    async def set_payload(self, job: Job) -> None:
        """Changes what a locked job does, and what was asked for since."""
        await self._session.write(_SET_PAYLOAD, (to_json(job.payload), to_json(job.requested), str(job.job_id)))

    async def lock_jobs(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        """Keeps those jobs of a table that exist as they are."""
        rows = await self._session.write(_LOCK_SCOPES, (str(table_id), kind, arrays.texts(scopes)))
        return [_job(row) for row in rows]

    async def request_jobs(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due at once, those that somebody does behind their end."""
        await self._session.write(self.request_sql, to_due_arrays(due))

    async def make_due(self, due: Sequence[DueJob]) -> None:
        """Makes jobs due by themselves, at once or after their delays."""
        await self._session.write(_MAKE_DUE, to_due_arrays(due))

    async def list_jobs(self, table_uuids: Sequence[str]) -> list[Job]:
        """All jobs, or those of some tables, by table, kind and scope."""
        wanted = arrays.words(table_uuids)
        return [_job(row) for row in await self._session.read(_LIST, (wanted, wanted))]


def _wanted(kinds: Sequence[str], table_uuids: Sequence[str]) -> tuple[str, str, str]:
    tables = arrays.words(table_uuids)
    return (arrays.texts(kinds), tables, tables)


def _job(row: Row) -> Job:
    values = list(row)
    values[5] = JobState(values[5])
    values[7] = values[7] or {}
    values[16] = values[16] or {}
    return Job(*values)
