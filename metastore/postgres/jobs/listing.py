"""Lists and counts jobs in Postgres: a page by an index, however many jobs there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.format.jobs.job import Job, JobCount, JobPage, JobStatus

from ...store.grants import Readable
from ...store.jobs import JobFilter, JobListingTransaction, JobPlace
from ..connection import arrays
from ..connection.session import InSession
from .jobs import COLUMNS, FROM, REMAINING_MS, to_job

# Each names its state literally, so that an index of the few jobs in that state can be used.
_STANDS: Final[Mapping[JobStatus, str]] = {
    JobStatus.FAILED: "j.state = 'failed'",
    JobStatus.ABANDONED: f"j.state = 'leased' AND {REMAINING_MS} = 0",
    JobStatus.LEASED: f"j.state = 'leased' AND {REMAINING_MS} > 0",
    JobStatus.DUE: f"j.state = 'due' AND {REMAINING_MS} = 0",
    JobStatus.RESTING: f"j.state = 'due' AND {REMAINING_MS} > 0",
    JobStatus.DONE: "j.state = 'done'",
}

_OF_ONE_TABLE: Final = "j.table_id = (SELECT table_id FROM catalog_table WHERE table_uuid = %s::uuid)"

_OF_TABLES: Final = "j.table_id IN (SELECT table_id FROM catalog_table WHERE table_uuid = ANY(%s::uuid[]))"

IS_READABLE: Final = "(t.database = ANY(%s::text[]) AND NOT t.database_gone OR t.table_uuid = ANY(%s::uuid[]))"
"""A condition on a table `t`; its parameters are those of `to_readable`."""

_CASES: Final = [f"WHEN {condition} THEN '{each.value}'" for each, condition in _STANDS.items()]
_STATUS: Final = f"CASE {' '.join(_CASES)} END"


class PostgresJobListing(InSession, JobListingTransaction):
    """See `metastore.store.jobs.JobListingTransaction`."""

    async def list_job_page(self, wanted: JobFilter, after: JobPlace | None, limit: int) -> JobPage:
        sql, parameters = to_page(wanted, after, limit + 1)
        rows = await self._session.read(sql, parameters)
        jobs = tuple([to_job(row[2:]) for row in rows[:limit]])
        if len(rows) <= limit:
            return JobPage(jobs)
        table_id, key = rows[limit - 1][:2]
        return JobPage(jobs, JobPlace(table_id, jobs[-1].kind, key).to_cursor())

    async def list_jobs(self, wanted: JobFilter, limit: int) -> list[Job]:
        condition, parameters = _to_condition(wanted)
        order = "t.database, t.name, j.kind, coalesce(j.long_scope, j.scope)"
        sql = f"SELECT {COLUMNS} {FROM} WHERE {condition} ORDER BY {order} LIMIT %s"
        return [to_job(row) for row in await self._session.read(sql, (*parameters, limit))]

    async def count_jobs(self, wanted: JobFilter) -> list[JobCount]:
        condition, parameters = _to_condition(wanted)
        sql = f"SELECT j.kind, {_STATUS}, count(*) {FROM} WHERE {condition} GROUP BY 1, 2 ORDER BY 1, 2"
        return [JobCount(kind, JobStatus(status), n) for kind, status, n in await self._session.read(sql, parameters)]


def to_page(wanted: JobFilter, after: JobPlace | None, limit: int) -> tuple[str, list[Any]]:
    """The statement of a page, and its parameters. Pure.

    The order is that of the index that makes a job unique, so that a page needs no other index and no sorting.
    """
    condition, parameters = _to_condition(wanted)
    if after is not None:
        condition += " AND (j.table_id, j.kind, j.scope) > (%s::bigint, %s, %s)"
        parameters += [str(after.table_id), after.kind, after.key]
    order = "j.table_id, j.kind, j.scope"
    return f"SELECT j.table_id, j.scope, {COLUMNS} {FROM} WHERE {condition} ORDER BY {order} LIMIT %s", [
        *parameters,
        limit,
    ]


def _to_condition(wanted: JobFilter) -> tuple[str, list[Any]]:
    """The condition on `job j` and its table `t`, and its parameters. Pure."""
    conditions, parameters = ["true"], list[Any]()
    if len(wanted.table_uuids) == 1:
        # SUBTLE: not as a list of one. Only with an equality the planner knows that the index has the order.
        conditions.append(_OF_ONE_TABLE)
        parameters.append(wanted.table_uuids[0])
    elif wanted.table_uuids:
        conditions.append(_OF_TABLES)
        parameters.append(arrays.words(wanted.table_uuids))
    if wanted.job_ids:
        conditions.append("j.job_id = ANY(%s::bigint[])")
        parameters.append(arrays.integers(wanted.job_ids))
    if wanted.kinds:
        conditions.append("j.kind = ANY(%s::text[])")
        parameters.append(arrays.texts(wanted.kinds))
    if wanted.statuses:
        stands = [condition for each, condition in _STANDS.items() if each in wanted.statuses]
        conditions.append(f"({' OR '.join(stands)})")
    if wanted.readable is not None:
        conditions.append(IS_READABLE)
        parameters += to_readable(wanted.readable)
    return " AND ".join(conditions), parameters


def to_readable(readable: Readable) -> list[Any]:
    """The parameters of `IS_READABLE`. Pure."""
    return [arrays.texts(sorted(readable.databases)), arrays.words(sorted(readable.table_uuids))]
