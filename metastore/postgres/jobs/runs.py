"""Runs of jobs in Postgres: listed, and bounded. `jobs.py` records them."""

from __future__ import annotations

from typing import Any, Final

from lakelog.format.jobs.job_run import JobRun, RunResult

from ...store.jobs import JobRunTransaction, RunFilter
from ..catalog import NOW_MS
from ..connection import arrays
from ..connection.session import InSession, Row
from .listing import IS_READABLE, to_readable

_IS_BAD: Final = "result IN ('failed', 'lost')"

_COLUMNS: Final = """
r.run_id, r.job_id, replace(t.table_uuid::text, '-', ''), t.database || '.' || t.name, r.kind, r.scope, r.epoch,
    r.holder, coalesce(r.started_at_ms, 0), r.ended_at_ms, r.result, r.message
"""

# SUBTLE: all of a table's, which are bounded, and sorted then. Else the planner may go through the runs of all tables
# from the newest on, in the hope of meeting this one's soon.
_OF_ONE_TABLE: Final = """
WITH own AS MATERIALIZED (
    SELECT * FROM job_run WHERE table_id = (SELECT table_id FROM catalog_table WHERE table_uuid = %s::uuid))
"""

# A job and its runs are of one table.
_OF_ONE_JOB: Final = """
WITH own AS MATERIALIZED (
    SELECT * FROM job_run WHERE table_id = (SELECT table_id FROM job WHERE job_id = %s::bigint))
"""

_OF_TABLES: Final = "r.table_id IN (SELECT table_id FROM catalog_table WHERE table_uuid = ANY(%s::uuid[]))"

_TABLES: Final = "SELECT table_id FROM catalog_table WHERE table_id > %s::bigint ORDER BY table_id LIMIT %s"

_FORGET: Final = f"""
DELETE FROM job_run WHERE run_id IN (
    SELECT run_id FROM (
        SELECT run_id, ended_at_ms, row_number() OVER (PARTITION BY table_id, {_IS_BAD} ORDER BY run_id DESC) AS place
        FROM job_run WHERE table_id = ANY(%s::bigint[])
    ) r WHERE r.place > %s OR r.ended_at_ms < {NOW_MS} - %s::bigint)
RETURNING run_id
"""


class PostgresJobRuns(InSession, JobRunTransaction):
    """See `metastore.store.jobs.JobRunTransaction`."""

    async def list_job_runs(self, wanted: RunFilter, before: int, limit: int) -> list[JobRun]:
        sql, parameters = to_list(wanted, before, limit)
        return [_run(row) for row in await self._session.read(sql, parameters)]

    async def forget_old_runs(self, after: str, most: int, age_ms: int, limit: int) -> tuple[str, list[str]]:
        tables = [row[0] for row in await self._session.read(_TABLES, (after or "0", limit))]
        if not tables:
            return "", []
        rows = await self._session.write(_FORGET, (arrays.integers(tables), most, str(age_ms)))
        return str(tables[-1]) if len(tables) == limit else "", [str(row[0]) for row in rows]


def to_list(wanted: RunFilter, before: int, limit: int) -> tuple[str, list[Any]]:
    """The statement of a list, and its parameters. Pure."""
    begin, source, conditions, parameters = "", "job_run", ["true"], list[Any]()
    if wanted.job_id:
        begin, source = _OF_ONE_JOB, "own"
        conditions.append("r.job_id = %s::bigint")
        parameters += [str(wanted.job_id)] * 2
        if wanted.table_uuids:
            conditions.append(_OF_TABLES)
            parameters.append(arrays.words(wanted.table_uuids))
    elif len(wanted.table_uuids) == 1:
        begin, source = _OF_ONE_TABLE, "own"
        parameters.append(wanted.table_uuids[0])
    elif wanted.table_uuids:
        conditions.append(_OF_TABLES)
        parameters.append(arrays.words(wanted.table_uuids))
    if wanted.kinds:
        conditions.append("r.kind = ANY(%s::text[])")
        parameters.append(arrays.texts(wanted.kinds))
    if wanted.results and all(each in (RunResult.FAILED, RunResult.LOST) for each in wanted.results):
        # In the words of its index.
        conditions.append(f"r.{_IS_BAD}")
    if wanted.results:
        conditions.append("r.result = ANY(%s::text[])")
        parameters.append(arrays.texts(each.value for each in wanted.results))
    if before:
        conditions.append("r.run_id < %s::bigint")
        parameters.append(str(before))
    if wanted.readable is not None:
        conditions.append(IS_READABLE)
        parameters += to_readable(wanted.readable)
    return (
        f"{begin} SELECT {_COLUMNS} FROM {source} r JOIN catalog_table t ON t.table_id = r.table_id "
        f"WHERE {' AND '.join(conditions)} ORDER BY r.run_id DESC LIMIT %s",
        [*parameters, limit],
    )


def _run(row: Row) -> JobRun:
    values = list(row)
    values[10] = RunResult(values[10])
    return JobRun(*values)
