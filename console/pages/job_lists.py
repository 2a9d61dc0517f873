"""Which jobs an address asks for, and where a page of them begins: shared by the pages with lists of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lakelog.client.job_pages import NeedPlace, list_jobs_by_need
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.jobs.job import KINDS, Job, JobStatus
from lakelog.format.jobs.job_run import JobRun
from lakelog.format.types.schema import TableSchema
from lakelog.system_tables.metadata.jobs import find_place

from .page import PAGE_ROWS, Column, Listing, PageRequest, table_address

RUNS: Final = (
    Column("ended_ms", "Ended", "time"),
    Column("result", "Result", "state", "lost: its compactor stopped reporting"),
    Column("table", "Table", "code"),
    Column("kind", "Kind"),
    Column("partition", "Partition", "code"),
    Column("bucket", "Bucket", "count"),
    Column("duration_ms", "Took, ms", "count"),
    Column("message", "Did, or why not"),
    Column("holder", "Done by", "code"),
    Column("job_id", "Job", "code"),
)

_LONGEST: Final = 18
"""Digits of an id."""

RETRIED: Final = (JobStatus.FAILED, JobStatus.RESTING)
"""Jobs that stand so can be tried again."""

STATES: Final = tuple(each.value for each in JobStatus)


def load_page(metastore: Metastore, query: Mapping[str, str], table_uuids: list[str]) -> tuple[list[Job], str | None]:
    """The jobs of a page, those that need somebody first, and where the next page begins; None: this is the last.

    Args:
        metastore: Where they are.
        query: The parameters of the address: `state`, `kind` and `after` count.
        table_uuids: Of these tables; empty: of all.

    Raises:
        InvalidArgument: There is no such state or kind, or the place is none of this list.
    """
    statuses = [JobStatus(state)] if (state := _choose(query, "state", STATES)) else []
    kinds = [kind] if (kind := _choose(query, "kind", KINDS)) else []
    start = _read_place(query.get("after", ""), statuses)
    jobs, following = list_jobs_by_need(
        metastore, table_uuids, kinds=kinds, statuses=statuses, start=start, limit=PAGE_ROWS
    )
    return jobs, None if following is None else f"{following.status.value}:{following.cursor}"


def _choose(query: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    value = query.get(name, "")
    if value and value not in known:
        raise InvalidArgument(f"{name}={value!r:.80} is none of {', '.join(known)}.", metadata={"field": name})
    return value


def _read_place(text: str, statuses: list[JobStatus]) -> NeedPlace | None:
    if not text:
        return None
    state, _, cursor = text.partition(":")
    if state not in STATES or (statuses and JobStatus(state) not in statuses):
        raise InvalidArgument(
            f"after={text!r:.80} is no place in this list. Leave it out, to begin with the first jobs.",
            metadata={"field": "after"},
        )
    return NeedPlace(JobStatus(state), cursor)


def list_runs(
    request: PageRequest, table_uuids: list[str], find_schema: Callable[[str], TableSchema | None]
) -> Listing:
    """What became of jobs when they were done, the newest first; `kind` and `runs_before` of the address count.

    Args:
        request: The request.
        table_uuids: Of these tables; empty: of all.
        find_schema: The schema of a table, which names its partitions; None: it is not at hand.
    """
    kind = _choose(request.query, "kind", KINDS)
    before = _read_run(request.query.get("runs_before", ""))
    found = request.catalog.metastore.list_job_runs(
        table_uuids, kinds=[kind] if kind else (), before=before, limit=PAGE_ROWS + 1
    )
    shown = found[:PAGE_ROWS]
    return Listing(
        "history",
        "History",
        [column for column in RUNS if column.key != "table" or len(table_uuids) != 1],
        [_show_run(run, find_schema) for run in shown],
        "No run of a job is recorded.",
        next_query=request.with_query(runs_before=shown[-1].run_id) if len(found) > PAGE_ROWS else None,
        note="The newest first, without runs that found nothing to do. They go after a month." if shown else "",
    )


def _show_run(run: JobRun, find_schema: Callable[[str], TableSchema | None]) -> dict[str, Any]:
    partition, bucket = find_place(run, find_schema)
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "table": run.table,
        "kind": run.kind,
        "partition": partition,
        "bucket": bucket,
        "result": run.result.value,
        "duration_ms": run.duration_ms,
        "message": run.message or None,
        "holder": run.holder,
        "started_ms": run.started_at_ms or None,
        "ended_ms": run.ended_at_ms,
        "_links": {"table": table_address(run.table, "jobs")},
    }


def _read_run(text: str) -> int:
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST):
        raise InvalidArgument(f"runs_before={text!r:.80} is no number of a run.", metadata={"field": "runs_before"})
    return int(text or 0)
