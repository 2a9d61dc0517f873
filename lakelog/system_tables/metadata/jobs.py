"""`$jobs` and `sys.jobs`: what compactors have to do, do, and did last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.client.job_pages import find_jobs, list_jobs_paged
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.jobs.job import KINDS, Job, JobStatus, parse_bucket_scope
from lakelog.format.jobs.job_run import JobRun
from lakelog.format.keys.partition_text import name_partition
from lakelog.format.types.schema import TableSchema
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, OfCatalog, OfTable

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

_MAX_ID: Final = 2**62
"""Ids are below it."""

_COLUMNS: Final = (
    Column("id", NUMBER, "The job's number, for `lakelog jobs retry`."),
    Column(
        "kind", TEXT, "`compact`, `changelog`, `deletion-vectors`, `expire`, `expire-partitions`, `clean`, `purge`."
    ),
    Column("partition", TEXT, "The partition that it works on, as `dt=2024-05-01`; NULL: no single one."),
    Column("bucket", SMALL_NUMBER, "The bucket that it works on; NULL: no single one."),
    Column(
        "state",
        TEXT,
        "`due`, `resting` (due after a pause), `leased` (a compactor does it), `abandoned` (its compactor does not "
        "report any more), `done`, `failed`.",
    ),
    Column("priority", SMALL_NUMBER, "Jobs with a higher one come first."),
    Column("payload", pa.map_(TEXT, TEXT), "What it has to do."),
    Column("attempts", SMALL_NUMBER, "How often it was taken since its last success."),
    Column("holder", TEXT, "The process that does it; NULL: none."),
    Column("outcome", TEXT, "What it did last; NULL: it has never ended well."),
    Column("reason", TEXT, "Why it failed last; NULL: it succeeded since."),
    Column("created_at", TIME, "When it first became due."),
    Column("updated_at", TIME, "When its state changed last."),
)


def to_columns(jobs: Sequence[Job], find_schema: Callable[[str], TableSchema | None]) -> dict[str, pa.Array]:
    """The columns of `$jobs`. Pure, if the function is."""
    places = [find_place(job, find_schema) for job in jobs]
    return {
        "id": pa.array([job.job_id for job in jobs], NUMBER),
        "kind": pa.array([job.kind for job in jobs], TEXT),
        "partition": pa.array([partition for partition, _ in places], TEXT),
        "bucket": pa.array([bucket for _, bucket in places], SMALL_NUMBER),
        "state": pa.array([job.status.value for job in jobs], TEXT),
        "priority": pa.array([job.priority for job in jobs], SMALL_NUMBER),
        "payload": pa.array([list(job.payload.items()) for job in jobs], pa.map_(TEXT, TEXT)),
        "attempts": pa.array([job.attempts for job in jobs], SMALL_NUMBER),
        "holder": pa.array([job.holder or None for job in jobs], TEXT),
        "outcome": pa.array([job.outcome or None for job in jobs], TEXT),
        "reason": pa.array([job.reason or None for job in jobs], TEXT),
        "created_at": to_times(job.created_at_ms for job in jobs),
        "updated_at": to_times(job.updated_at_ms for job in jobs),
    }


def find_place(job: Job | JobRun, find_schema: Callable[[str], TableSchema | None]) -> tuple[str | None, int | None]:
    """The partition and the bucket that a job works on. Pure, if the function is."""
    try:
        partition, bucket = parse_bucket_scope(job.scope)
    except InvalidArgument:
        # It works on the whole table.
        return None, None
    schema = find_schema(job.table_uuid) if partition else None
    return None if schema is None else name_partition(schema, partition), bucket


def _read_jobs(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    return pa.table(to_columns(_load(context, wanted, [info.table_uuid]), lambda _: info.schema))


def _load(context: Context, wanted: Wanted, table_uuids: Sequence[str] = ()) -> list[Job]:
    """The jobs of tables that a read wants, by table, kind and scope."""
    ids, kinds, states = (wanted.values_of(name) for name in ("id", "kind", "state"))
    if ids is not None:
        found = find_jobs(context.metastore, [each for each in ids if isinstance(each, int) and 0 < each < _MAX_ID])
        jobs = [job for job in found.values() if not table_uuids or job.table_uuid in table_uuids]
    else:
        known = None if states is None else [each for each in JobStatus if each.value in states]
        if known == []:
            return []
        # A kind that this version does not know is looked for among all.
        of_kinds = [str(each) for each in kinds] if kinds and set(kinds) <= set(KINDS) else []
        jobs = list(list_jobs_paged(context.metastore, table_uuids, kinds=of_kinds, statuses=known or ()))
    return sorted(jobs, key=lambda job: (job.table, job.kind, job.scope))


def _read_all_jobs(context: Context, wanted: Wanted) -> pa.Table:
    jobs = _load(context, wanted)
    databases, tables = wanted.values_of("database"), wanted.values_of("table")
    names = {job.job_id: job.table.partition(".") for job in jobs}
    jobs = [
        job
        for job in jobs
        if (databases is None or names[job.job_id][0] in databases)
        and (tables is None or names[job.job_id][2] in tables)
    ]
    own = {
        "database": pa.array([names[job.job_id][0] for job in jobs], TEXT),
        "table": pa.array([names[job.job_id][2] for job in jobs], TEXT),
    }
    return pa.table(own | to_columns(jobs, make_schema_finder(context, wanted)))


def make_schema_finder(context: Context, wanted: Wanted) -> Callable[[str], TableSchema | None]:
    """A function that loads the schema of a table at its first use; None: it is not needed, or the table is gone."""
    schemas: dict[str, TableSchema | None] = {}

    def find_schema(table_uuid: str) -> TableSchema | None:
        if not wanted.needs("partition"):
            return None
        if table_uuid not in schemas:
            schemas[table_uuid] = _load_schema(context, table_uuid)
        return schemas[table_uuid]

    return find_schema


def _load_schema(context: Context, table_uuid: str) -> TableSchema | None:
    try:
        return context.metastore.get_table_by_uuid(table_uuid).schema
    except NotFound:
        # The table was dropped just now, and its jobs with it.
        return None


JOBS: Final = OfTable(
    "jobs",
    "The jobs of the table: what compactors have to do, and, for jobs that are done, what they did last and why they "
    "failed. There is one for each kind and place, which becomes due again and again.",
    _COLUMNS,
    read=_read_jobs,
)
ALL_JOBS: Final = OfCatalog(
    "jobs",
    "The jobs of all tables, as of `$jobs`.",
    (Column("database", TEXT, "The table's database."), Column("table", TEXT, "The table's name."), *_COLUMNS),
    read=_read_all_jobs,
)
