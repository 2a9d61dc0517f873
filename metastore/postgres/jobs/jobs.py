"""Jobs in Postgres. Only its clock sets and judges deadlines and pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.jobs.due_job import FAILED_REST_MS
from lakelog.format.jobs.job import (
    CHANGELOG_PRIORITY,
    COMPACT,
    DELETION_VECTORS,
    REQUEST_PRIORITY,
    DueJob,
    Job,
    JobState,
)
from lakelog.format.jobs.queue import JobQueue
from lakelog.options.declared.tables import MAX_JOBS

from ...store.jobs import RunEnd
from ...store.transaction import TransactionAborted
from ..catalog import NOW_MS, epoch_after, is_ahead
from ..commits.group_records import INSERT_DUE, to_due_arrays, to_json, to_key
from ..connection import arrays
from ..connection.session import InSession, Row, Statement

REMAINING_MS: Final = """
CASE WHEN j.state IN ('due', 'leased')
    THEN greatest(0, (extract(epoch FROM j.due_at - clock_timestamp()) * 1000)::bigint) ELSE 0 END
"""

COLUMNS: Final = f"""
    j.job_id, replace(t.table_uuid::text, '-', ''), t.database || '.' || t.name, j.kind,
    coalesce(j.long_scope, j.scope), j.state, j.priority, j.payload, j.attempts, j.reason, j.outcome,
    j.epoch, j.holder, {REMAINING_MS}, j.created_at_ms, j.updated_at_ms, j.requested, coalesce(j.done_epoch, 0),
    coalesce(j.owner, '')
"""

FROM: Final = "FROM job j JOIN catalog_table t ON t.table_id = j.table_id"

# An empty list of tables stands for all of them.
_WAITING: Final = """
j.state IN ('due', 'leased') AND j.kind = ANY(%s::text[]) AND (%s::uuid[] = '{}' OR j.table_id IN (
    SELECT table_id FROM catalog_table WHERE table_uuid = ANY(%s::uuid[])))
"""

_DUE_AT: Final = "clock_timestamp() + %s * interval '1 millisecond'"

# A job is renewed, or made due, at the time of its last change.
_IS_DUE: Final = f"(j.due_at <= clock_timestamp() OR {is_ahead('j.updated_at_ms')})"

# By an index of leased jobs; there are no more of them than compactors.
_BUSY: Final = f"""
SELECT l.table_id, count(*) AS jobs, count(*) FILTER (WHERE l.kind = '{COMPACT}')
    >= max(coalesce((t.options ->> '{MAX_JOBS.key}')::int, {MAX_JOBS.default})) AS is_full
FROM job l JOIN catalog_table t USING (table_id)
WHERE l.state = 'leased' AND l.due_at > clock_timestamp() AND NOT {is_ahead("l.updated_at_ms")} GROUP BY l.table_id
"""

_IS_TOO_MUCH: Final = f"(j.kind = '{COMPACT}' AND coalesce(b.is_full, false))"

# A waiting job gains one step of priority a minute, so that none waits forever behind jobs that become due later.
_PRIORITY: Final = f"""
CASE WHEN j.priority < {REQUEST_PRIORITY}
    THEN least({REQUEST_PRIORITY - 1}, j.priority + floor(extract(epoch FROM clock_timestamp() - j.due_at) / 60))
    ELSE j.priority END
"""

# SUBTLE: a job that another transaction takes at this moment is skipped, not waited for; it is taken already.
_LEASE: Final = f"""
WITH busy AS ({_BUSY}), first AS (
    SELECT j.job_id, j.state FROM job j LEFT JOIN busy b ON b.table_id = j.table_id
    WHERE {_WAITING} AND {_IS_DUE} AND NOT {_IS_TOO_MUCH}
    ORDER BY %s::boolean AND j.priority >= {CHANGELOG_PRIORITY}, {_PRIORITY} DESC, coalesce(b.jobs, 0), j.due_at,
        j.job_id
    LIMIT 1 FOR UPDATE OF j SKIP LOCKED
), lost AS (
    INSERT INTO job_run (table_id, job_id, kind, scope, epoch, holder, started_at_ms, ended_at_ms, result, message)
    SELECT j.table_id, j.job_id, j.kind, coalesce(j.long_scope, j.scope), j.epoch, j.holder, j.leased_at_ms,
        (extract(epoch FROM j.due_at) * 1000)::bigint, 'lost', ''
    FROM job j JOIN first ON first.job_id = j.job_id WHERE first.state = 'leased'
)
UPDATE job SET state = 'leased', attempts = attempts + 1, epoch = {epoch_after("epoch")}, holder = %s,
    owner = nullif(%s, ''), due_at = {_DUE_AT}, updated_at_ms = {NOW_MS}, leased_at_ms = {NOW_MS}
FROM first WHERE job.job_id = first.job_id
RETURNING job.job_id, first.state = 'leased', job.kind, job.table_id
"""

# Two that take jobs of one table at the same time do not see each other; after this lock the later one does. It is
# the last lock, and its holder waits for no one.
_LOCK_LEASED: Final = "SELECT pg_advisory_xact_lock(1, (%s::bigint % 2147483647)::int)"

_COUNT_LEASED: Final = f"""
SELECT count(*) > coalesce((SELECT (options ->> '{MAX_JOBS.key}')::int FROM catalog_table WHERE table_id = %s),
    {MAX_JOBS.default})
FROM job WHERE table_id = %s AND kind = '{COMPACT}' AND state = 'leased' AND due_at > clock_timestamp()
    AND NOT {is_ahead("updated_at_ms")}
"""

# A job held back by the limit on running ones becomes due when one of them ends, which is announced.
# SUBTLE: greatest(0, NULL) is 0, and without any job the answer must be NULL.
_NEXT_DUE: Final = f"""
WITH busy AS ({_BUSY})
SELECT CASE WHEN bool_or({_IS_DUE}) THEN 0
    ELSE ceil(extract(epoch FROM min(j.due_at) - clock_timestamp()) * 1000)::bigint END
FROM job j LEFT JOIN busy b ON b.table_id = j.table_id
WHERE {_WAITING} AND NOT (j.state = 'due' AND {_IS_TOO_MUCH})
"""

_FIND: Final = f"SELECT {COLUMNS} {FROM} WHERE j.job_id = %s"

_LOCK: Final = f"{_FIND} FOR UPDATE OF j"

_RENEW: Final = f"UPDATE job SET due_at = {_DUE_AT}, updated_at_ms = {NOW_MS} WHERE job_id = %s"

_PUT: Final = f"""
UPDATE job SET state = %s, attempts = %s, reason = %s, outcome = %s, payload = %s::jsonb, requested = %s::jsonb,
    done_epoch = %s, holder = '', owner = NULL, due_at = {_DUE_AT}, updated_at_ms = {NOW_MS}, leased_at_ms = NULL
WHERE job_id = %s
"""

# One statement: the run is as the job was before it.
_END: Final = f"""
WITH ended AS ({_PUT})
INSERT INTO job_run (table_id, job_id, kind, scope, epoch, holder, started_at_ms, ended_at_ms, result, message)
SELECT table_id, job_id, kind, coalesce(long_scope, scope), epoch, holder, leased_at_ms, {NOW_MS}, %s, %s
FROM job WHERE job_id = %s
"""

_SET_PAYLOAD: Final = "UPDATE job SET payload = %s::jsonb, requested = %s::jsonb WHERE job_id = %s"

# In one order, so that transactions that lock several never deadlock.
_LOCK_SCOPES: Final = f"""
SELECT {COLUMNS} {FROM} WHERE j.table_id = %s AND j.kind = %s AND j.scope = ANY(%s::text[])
ORDER BY j.job_id FOR UPDATE OF j
"""

_LIST_WAITING: Final = f"""
SELECT {COLUMNS} {FROM}
WHERE j.table_id = %s AND j.kind = %s AND j.state = 'due' AND j.scope = ANY(%s::text[])
"""

_COUNT_WAITING: Final = "SELECT count(*) FROM job WHERE table_id = %s AND kind = %s AND state = 'due'"

# Conditions that each have an index; of finished jobs there is a row for each bucket that was ever compacted.
_DESCRIBE_QUEUE: Final = """
SELECT kind, count(*) FILTER (WHERE may), count(*) FILTER (WHERE state = 'due' AND NOT may),
    count(*) FILTER (WHERE state = 'leased' AND NOT may), count(*) FILTER (WHERE state = 'failed'),
    coalesce(max(extract(epoch FROM clock_timestamp() - due_at) * 1000) FILTER (WHERE may), 0)::bigint
FROM (
    SELECT kind, state, due_at, due_at <= clock_timestamp() AS may FROM job WHERE state IN ('due', 'leased')
    UNION ALL SELECT kind, state, due_at, false FROM job WHERE state = 'failed'
) j
GROUP BY kind ORDER BY kind
"""

# A job that is being done keeps everything but its priority.
_ON_CONFLICT: Final = """
ON CONFLICT (table_id, kind, scope) DO UPDATE SET
    priority = CASE j.state WHEN 'done' THEN excluded.priority ELSE greatest(j.priority, excluded.priority) END,
    payload = CASE j.state WHEN 'leased' THEN j.payload ELSE excluded.payload END,
    updated_at_ms = CASE j.state WHEN 'leased' THEN j.updated_at_ms ELSE excluded.updated_at_ms END,
    state = CASE j.state WHEN 'leased' THEN 'leased' ELSE 'due' END,
"""

_REQUEST: Final = f"""
{INSERT_DUE} {_ON_CONFLICT}
    requested = CASE j.state WHEN 'leased' THEN excluded.payload END,
    attempts = CASE j.state WHEN 'leased' THEN j.attempts ELSE 0 END,
    due_at = CASE j.state WHEN 'leased' THEN j.due_at ELSE excluded.due_at END
"""

# `requested` of a job that is being done: due at once after its end, so payloads with a delay are not in it. Only
# jobs for deletion vectors are put off, by each commit to their bucket: they are for buckets that get no more files.
_MAKE_DUE: Final = f"""
{INSERT_DUE} {_ON_CONFLICT}
    requested = CASE WHEN j.state = 'leased' AND excluded.due_at <= clock_timestamp() THEN excluded.payload
        WHEN j.state = 'leased' THEN j.requested END,
    attempts = CASE j.state WHEN 'done' THEN 0 ELSE j.attempts END,
    due_at = CASE WHEN j.state IN ('done', 'failed') THEN excluded.due_at
        WHEN j.state = 'leased' OR j.attempts > 0 THEN j.due_at
        WHEN j.kind = '{DELETION_VECTORS}' THEN excluded.due_at ELSE least(j.due_at, excluded.due_at) END
WHERE j.state <> 'failed' OR j.updated_at_ms <= excluded.updated_at_ms - {FAILED_REST_MS}
    OR {is_ahead("j.updated_at_ms")}
"""

_ABORT: Final = """
UPDATE attempt SET state = 'aborted' WHERE state = 'open' AND writer LIKE 'job/%%' AND writer = %s
RETURNING replace(attempt_id::text, '-', '')
"""


class PostgresJobs(InSession):
    """See `metastore.store.jobs.JobTransaction`."""

    # Attributes, so that a test can remove a protection and see its absence.
    lease_sql = _LEASE
    count_leased_sql = _COUNT_LEASED
    request_sql = _REQUEST

    async def lease_job(
        self,
        kinds: Sequence[str],
        table_uuids: Sequence[str],
        holder: str,
        duration_ms: int,
        *,
        owner: str = "",
        changelogs_last: bool = False,
    ) -> tuple[Job, bool] | None:
        wanted = _wanted(kinds, table_uuids)
        rows = await self._session.write(self.lease_sql, (*wanted, changelogs_last, holder, owner, duration_ms))
        if not rows:
            return None
        job_id, was_over, kind, table_id = rows[0]
        if kind == COMPACT:
            await self._check_leased(table_id)
        job = await self.lock_job(job_id)
        assert job is not None, "it was taken in this transaction"
        return job, was_over

    async def _check_leased(self, table_id: int) -> None:
        """Aborts the transaction, to look for another job, if others have taken the last ones of a table."""
        lock, count = (str(table_id),), (str(table_id), str(table_id))
        _, rows = await self._session.write_all(
            [Statement(_LOCK_LEASED, lock), Statement(self.count_leased_sql, count)]
        )
        if rows[0][0]:
            raise TransactionAborted("Others have taken as many compactions of the table as may be done at once.")

    async def next_due_ms(self, kinds: Sequence[str], table_uuids: Sequence[str]) -> int | None:
        rows = await self._session.read(_NEXT_DUE, _wanted(kinds, table_uuids))
        left_ms: int | None = rows[0][0]
        return left_ms

    async def abort_attempts(self, writer: str) -> list[str]:
        return [row[0] for row in await self._session.write(_ABORT, (writer,))]

    async def find_job(self, job_id: int) -> Job | None:
        return await self._session.find(_FIND, (str(job_id),), to_job)

    async def lock_job(self, job_id: int) -> Job | None:
        rows = await self._session.write(_LOCK, (str(job_id),))
        return to_job(rows[0]) if rows else None

    async def renew_job(self, job_id: int, duration_ms: int) -> None:
        await self._session.write(_RENEW, (duration_ms, str(job_id)))

    async def put_job(self, job: Job, pause_ms: int, run: RunEnd | None = None) -> None:
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
        if run is None:
            await self._session.write(_PUT, values)
        else:
            await self._session.write(_END, (*values, run.result.value, run.message, str(job.job_id)))

    async def set_payload(self, job: Job) -> None:
        await self._session.write(_SET_PAYLOAD, (to_json(job.payload), to_json(job.requested), str(job.job_id)))

    async def lock_jobs(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        rows = await self._session.write(_LOCK_SCOPES, (str(table_id), kind, arrays.texts(map(to_key, scopes))))
        return [to_job(row) for row in rows]

    async def list_waiting(self, table_id: int, kind: str, scopes: Sequence[str]) -> list[Job]:
        rows = await self._session.read(_LIST_WAITING, (str(table_id), kind, arrays.texts(map(to_key, scopes))))
        return [to_job(row) for row in rows]

    async def request_jobs(self, due: Sequence[DueJob]) -> None:
        await self._session.write(self.request_sql, to_due_arrays(due))

    async def count_waiting(self, table_id: int, kind: str) -> int:
        count: int = (await self._session.read(_COUNT_WAITING, (str(table_id), kind)))[0][0]
        return count

    async def describe_queue(self) -> list[JobQueue]:
        return [JobQueue(*row) for row in await self._session.read(_DESCRIBE_QUEUE)]

    async def make_due(self, due: Sequence[DueJob]) -> None:
        await self._session.write(_MAKE_DUE, to_due_arrays(due))


def _wanted(kinds: Sequence[str], table_uuids: Sequence[str]) -> tuple[str, str, str]:
    tables = arrays.words(table_uuids)
    return (arrays.texts(kinds), tables, tables)


def to_job(row: Row) -> Job:
    """A job from its `COLUMNS`. Pure."""
    values = list(row)
    values[5] = JobState(values[5])
    values[7] = values[7] or {}
    values[16] = values[16] or {}
    # Reading a job aborts no attempts.
    values.insert(-1, ())
    return Job(*values)
