"""Waiting work in Postgres, and the one row with its last measurement. Only the database's clock sets times."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import ConsumerLag, ConsumerLags, FailedJob, LogLag, LogLags, WaitingWork
from lakelog.format.retention.consumer import SERVED_BY

from ..store.waiting_work import (
    MAX_COUNTED_SNAPSHOTS,
    MAX_NAMED,
    MAX_PROBLEM_CHARACTERS,
    SILENT_MS,
    MeasuredWork,
    WaitingWorkTransaction,
)
from .catalog import NOW_MS
from .connection.session import InSession, Row

_FORM: Final = 2
"""Rises when `WaitingWork` changes its fields: metastores of two versions do not read each other's measurements."""

_FIND: Final = f"SELECT {NOW_MS} - measured_at_ms, took_ms, CASE form WHEN %s THEN content END FROM waiting_work"

_LOCK: Final = f"{_FIND} FOR UPDATE SKIP LOCKED"

_PUT: Final = f"UPDATE waiting_work SET measured_at_ms = {NOW_MS}, took_ms = %s, form = %s, content = %s::jsonb"

_FAILED_JOBS: Final = f"""
SELECT j.job_id, t.database || '.' || t.name, j.kind, left(j.reason, {MAX_PROBLEM_CHARACTERS}),
    greatest({NOW_MS} - j.updated_at_ms, 0)
FROM job j JOIN catalog_table t ON t.table_id = j.table_id AND t.dropped_at_ms IS NULL
WHERE j.state = 'failed' ORDER BY j.updated_at_ms DESC, j.job_id DESC LIMIT %s
"""

# The comparison in the key of `s` leaves out the search for logs that do not lag.
_LOGS: Final = f"""
WITH lag AS (
    SELECT t.database || '.' || t.name AS name, d.snapshots,
        CASE WHEN d.snapshots > 0 THEN greatest({NOW_MS} - s.committed_at_ms, 0) ELSE 0 END AS behind_ms,
        l.state <> 'live' OR l.problem <> '' OR coalesce(p.problem, '') <> '' AS has_problem,
        left(coalesce(nullif(l.problem, ''), p.problem, ''), {MAX_PROBLEM_CHARACTERS}) AS problem
    FROM (SELECT DISTINCT ON (table_uuid) * FROM log_topic ORDER BY table_uuid, generation DESC) l
    JOIN catalog_table t ON t.table_uuid = l.table_uuid AND t.dropped_at_ms IS NULL
    JOIN table_head h ON h.table_id = t.table_id
    LEFT JOIN publish_state p ON p.table_id = t.table_id AND p.generation = l.generation
    CROSS JOIN LATERAL (SELECT coalesce(p.snapshot_id, l.starts_after) AS done) e
    CROSS JOIN LATERAL (SELECT greatest(h.latest_snapshot_id - e.done, 0) AS snapshots) d
    LEFT JOIN snapshot s ON s.table_id = t.table_id
        AND s.snapshot_id = CASE WHEN d.snapshots > 0 THEN greatest(e.done + 1, h.earliest_snapshot_id) END
)
SELECT name, snapshots, coalesce(behind_ms, 0), has_problem, problem, count(*) FILTER (WHERE snapshots > 0) OVER (),
    (sum(snapshots) OVER ())::bigint, coalesce(max(behind_ms) OVER (), 0)
FROM lag ORDER BY has_problem DESC, behind_ms DESC NULLS LAST, snapshots DESC, name LIMIT %s
"""

# A consumer without a position has never done a snapshot. `lakelog.format.retention.lag` defines what is behind.
_CONSUMERS: Final = f"""
WITH lag AS (
    SELECT t.table_id, t.database || '.' || t.name AS name, c.consumer_id, c.snapshot_id AS done, d.snapshots,
        CASE WHEN d.snapshots > 0 THEN greatest(coalesce({NOW_MS} - s.committed_at_ms, 0), 0) ELSE 0 END AS behind_ms,
        CASE WHEN c.holder = '' OR c.used_at_ms <= {NOW_MS} - %s::bigint THEN 'silent'
            WHEN starts_with(c.holder, '{SERVED_BY}') THEN 'served' ELSE 'read' END AS state
    FROM consumer c
    JOIN catalog_table t ON t.table_id = c.table_id AND t.dropped_at_ms IS NULL
    JOIN table_head h ON h.table_id = c.table_id
    CROSS JOIN LATERAL (SELECT greatest(h.latest_snapshot_id - c.snapshot_id, 0) AS snapshots) d
    LEFT JOIN LATERAL (
        SELECT n.committed_at_ms FROM snapshot n
        WHERE d.snapshots > 0 AND n.table_id = c.table_id
            AND n.snapshot_id >= greatest(c.snapshot_id + 1, h.earliest_snapshot_id)
            AND (n.kind <> 'COMPACT' OR n.changelog = 'attached')
        ORDER BY n.snapshot_id LIMIT 1
    ) s ON true
    WHERE c.snapshot_id IS NOT NULL
), ranked AS (
    SELECT *, count(*) OVER s AS count, max(snapshots) OVER s AS most, max(behind_ms) OVER s AS longest_ms,
        row_number() OVER (PARTITION BY state ORDER BY behind_ms DESC, snapshots DESC, name, consumer_id) AS rank
    FROM lag WINDOW s AS (PARTITION BY state)
)
SELECT r.state, r.count, r.most, r.longest_ms, r.name, r.consumer_id, r.snapshots, r.behind_ms,
    CASE WHEN r.snapshots <= %s THEN (
        SELECT coalesce(sum(s.added_rows), 0)::bigint FROM snapshot s
        WHERE s.table_id = r.table_id AND s.snapshot_id > r.done AND s.kind <> 'COMPACT'
    ) END
FROM ranked r WHERE r.rank <= %s ORDER BY r.state, r.rank
"""


class PostgresWaitingWork(InSession, WaitingWorkTransaction):
    """See `metastore.store.waiting_work.WaitingWorkTransaction`."""

    async def find_measured_work(self) -> MeasuredWork:
        (row,) = await self._session.read(_FIND, (_FORM,))
        return _measured(row)

    async def lock_measured_work(self) -> MeasuredWork | None:
        rows = await self._session.write(_LOCK, (_FORM,))
        return _measured(rows[0]) if rows else None

    async def put_measured_work(self, took_ms: int, work: WaitingWork) -> None:
        await self._session.write(_PUT, (took_ms, _FORM, json.dumps(dataclasses.asdict(work))))

    async def list_failed_jobs(self) -> list[FailedJob]:
        return [FailedJob(*row) for row in await self._session.read(_FAILED_JOBS, (MAX_NAMED,))]

    async def measure_logs(self) -> LogLags:
        rows = await self._session.read(_LOGS, (MAX_NAMED,))
        if not rows:
            return LogLags()
        lagging, snapshots, longest_ms = rows[0][5:]
        return LogLags(lagging, snapshots, longest_ms, tuple(LogLag(*row[:5]) for row in rows))

    async def measure_consumers(self) -> list[ConsumerLags]:
        parameters = (str(SILENT_MS), MAX_COUNTED_SNAPSHOTS, MAX_NAMED)
        rows = await self._session.read(_CONSUMERS, parameters)
        states = dict.fromkeys(row[0] for row in rows)
        return [_lags([row for row in rows if row[0] == state]) for state in states]


def _lags(rows: list[Row]) -> ConsumerLags:
    """Of one state."""
    named = tuple(ConsumerLag(*row[4:]) for row in rows if row[6])
    state, count, most, longest_ms = rows[0][:4]
    return ConsumerLags(state, count, most, longest_ms, named)


def _measured(row: Row) -> MeasuredWork:
    age_ms, took_ms, content = row
    return MeasuredWork(age_ms, took_ms, None if content is None else _to_work(content))


def _to_work(content: dict[str, Any]) -> WaitingWork:
    logs, consumers = content["logs"], content["consumers"]
    return WaitingWork(
        tuple(JobQueue(**queue) for queue in content["queues"]),
        tuple(FailedJob(**job) for job in content["failed_jobs"]),
        LogLags(**logs | {"named": tuple(LogLag(**lag) for lag in logs["named"])}),
        tuple(
            ConsumerLags(**each | {"named": tuple(ConsumerLag(**lag) for lag in each["named"])}) for each in consumers
        ),
    )
