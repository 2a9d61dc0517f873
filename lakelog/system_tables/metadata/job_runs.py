"""`$job_runs` and `sys.job_runs`: what became of jobs each time that compactors did them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakelog.client.job_pages import list_runs_paged
from lakelog.format.jobs.job import KINDS
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.types.schema import TableSchema
from lakelog.system_tables.columns import to_times
from lakelog.system_tables.declaration import NUMBER, SMALL_NUMBER, TEXT, TIME, Column, OfCatalog, OfTable
from lakelog.system_tables.metadata.jobs import find_place, make_schema_finder

if TYPE_CHECKING:
    from lakelog.context import Context
    from lakelog.format.tables.table import TableInfo
    from lakelog.system_tables.wanted import Wanted

_COLUMNS: Final = (
    Column("id", NUMBER, "The run's number: it rises with the end of runs."),
    Column("job_id", NUMBER, "The job, as in `$jobs`."),
    Column("kind", TEXT, "The kind of the job, as in `$jobs`."),
    Column("partition", TEXT, "The partition that it worked on, as `dt=2024-05-01`; NULL: no single one."),
    Column("bucket", SMALL_NUMBER, "The bucket that it worked on; NULL: no single one."),
    Column(
        "result",
        TEXT,
        "`done`; `given back` (its compactor was stopped, and left the rest to another); `failed`; `lost` (its "
        "compactor stopped reporting).",
    ),
    Column("message", TEXT, "What it did, with the files and bytes that it read and wrote, or why it failed."),
    Column("holder", TEXT, "The process that did it."),
    Column("started_at", TIME, "When it was taken; NULL: not known."),
    Column("ended_at", TIME, "When it ended."),
    Column("duration_ms", NUMBER, "How long it took; NULL: not known."),
)


def to_columns(runs: Sequence[JobRun], find_schema: Callable[[str], TableSchema | None]) -> dict[str, pa.Array]:
    """The columns of `$job_runs`. Pure, if the function is."""
    places = [find_place(run, find_schema) for run in runs]
    return {
        "id": pa.array([run.run_id for run in runs], NUMBER),
        "job_id": pa.array([run.job_id for run in runs], NUMBER),
        "kind": pa.array([run.kind for run in runs], TEXT),
        "partition": pa.array([partition for partition, _ in places], TEXT),
        "bucket": pa.array([bucket for _, bucket in places], SMALL_NUMBER),
        "result": pa.array([run.result.value for run in runs], TEXT),
        "message": pa.array([run.message or None for run in runs], TEXT),
        "holder": pa.array([run.holder for run in runs], TEXT),
        "started_at": to_times(run.started_at_ms or None for run in runs),
        "ended_at": to_times(run.ended_at_ms for run in runs),
        "duration_ms": pa.array([run.duration_ms for run in runs], NUMBER),
    }


def _load(context: Context, wanted: Wanted, table_uuids: Sequence[str] = ()) -> list[JobRun]:
    kinds, results = wanted.values_of("kind"), wanted.values_of("result")
    known = None if results is None else [each for each in RunResult if each.value in results]
    if known == []:
        return []
    # A kind that this version does not know is looked for among all.
    of_kinds = [str(each) for each in kinds] if kinds and set(kinds) <= set(KINDS) else []
    return list(list_runs_paged(context.metastore, table_uuids, kinds=of_kinds, results=known or ()))


def _read_runs(context: Context, info: TableInfo, wanted: Wanted) -> pa.Table:
    return pa.table(to_columns(_load(context, wanted, [info.table_uuid]), lambda _: info.schema))


def _read_all_runs(context: Context, wanted: Wanted) -> pa.Table:
    runs = _load(context, wanted)
    names = [run.table.partition(".") for run in runs]
    own = {
        "database": pa.array([database for database, _, _ in names], TEXT),
        "table": pa.array([table for _, _, table in names], TEXT),
    }
    return pa.table(own | to_columns(runs, make_schema_finder(context, wanted)))


_KEPT: Final = (
    "The newest come first. Runs that found nothing to do are not recorded. The newest 500 of a table that ended well "
    "are kept, and the newest 500 that ended badly, none for longer than 30 days."
)

JOB_RUNS: Final = OfTable(
    "job_runs",
    "What became of the table's jobs each time that a compactor did them: when, how long, and with which result. "
    + _KEPT,
    _COLUMNS,
    read=_read_runs,
)
ALL_JOB_RUNS: Final = OfCatalog(
    "job_runs",
    "The runs of the jobs of all tables, as of `$job_runs`.",
    (Column("database", TEXT, "The table's database."), Column("table", TEXT, "The table's name."), *_COLUMNS),
    read=_read_all_runs,
)
