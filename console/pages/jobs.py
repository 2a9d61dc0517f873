"""Jobs of compactors: due, running, failed, and what they did last."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from lakelog.arguments import parse_table_name
from lakelog.client.job_pages import find_jobs
from lakelog.errors import InvalidArgument
from lakelog.format.jobs.job import KINDS, Job, parse_bucket_scope
from lakelog.format.jobs.overview import Overview
from lakelog.format.keys.partition_text import name_bucket
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo

from .job_lists import RETRIED, STATES, list_runs, load_page
from .overview import list_queues
from .page import Column, Listing, Page, PageRequest, table_address
from .rights import find_writable

FAILED: Final = (
    Column("job_id", "Job", "code"),
    Column("table", "Table", "code"),
    Column("kind", "Kind"),
    Column("failed_age_ms", "Failed, ago", "age"),
    Column("reason", "Why"),
)
JOBS: Final = (
    Column("job_id", "Job", "code"),
    Column("table", "Table", "code"),
    Column("kind", "Kind"),
    Column("state", "State", "state"),
    Column("place", "Of", "text", "the bucket that it works on; none: the whole table"),
    Column("attempts", "Tries", "count", "since its last success"),
    Column("changed_age_ms", "Changed, ago", "age"),
    Column("outcome", "Did last"),
    Column("reason", "Failed because"),
    Column("holder", "Done by", "code"),
)
_SNAPSHOTS: Final = 1000
"""Snapshots from which the amplification is computed: the newest."""


def jobs(request: PageRequest) -> Page:
    """All jobs that the filter lets through."""
    found = request.catalog.overview()
    chosen = {name: request.query.get(name, "") for name in ("state", "kind", "table")}
    info = request.catalog.metastore.get_table(parse_table_name(chosen["table"])) if chosen["table"] else None
    parts: dict[str, Any] = {
        "queues": list_queues(found.work.queues if found.work else ()),
        "failed": list_failed(found, _find_retried(request, found)),
        "jobs": _list_jobs(request, info, found),
        "history": list_runs(request, [info.table_uuid] if info else [], lambda _: info.schema if info else None),
    }
    if info is not None:
        page = request.catalog.metastore.list_snapshots(info.table_uuid, limit=_SNAPSHOTS, newest=True)
        parts["amplification"] = find_amplification(page.snapshots)
    return Page("jobs.html", "Jobs", parts, area="jobs", extra={"chosen": chosen, "states": STATES, "kinds": KINDS})


def _find_retried(request: PageRequest, found: Overview) -> set[int]:
    """The failed jobs that the caller may try again here."""
    failed = [each.job_id for each in (found.work.failed_jobs if found.work else ())]
    if not request.settings.actions or not failed:
        return set()
    jobs = find_jobs(request.catalog.metastore, failed).values()
    writable = find_writable(request.catalog, {each.table_uuid for each in jobs})
    return {each.job_id for each in jobs if each.table_uuid in writable}


def list_failed(found: Overview, retried: Collection[int]) -> Listing:
    """The jobs that failed for good; some of them lead to their retry. Pure."""
    rows = [
        {
            "job_id": each.job_id,
            "table": each.table,
            "kind": each.kind,
            "failed_age_ms": each.failed_ms,
            "reason": each.reason,
            "_links": {"table": f"/jobs?table={each.table}"}
            | ({"job_id": f"/jobs/{each.job_id}/act/retry"} if each.job_id in retried else {}),
        }
        for each in (found.work.failed_jobs if found.work else ())
    ]
    note = "More work for a job makes it due again, and so does a retry" if rows else ""
    note += (": choose its number." if retried else " (`lakelog jobs retry`).") if rows else ""
    return Listing("failed", "Failed", FAILED, rows, "No job has failed for good.", note=note)


def _list_jobs(request: PageRequest, info: TableInfo | None, found: Overview) -> Listing:
    listed, following = load_page(request.catalog.metastore, request.query, [info.table_uuid] if info else [])
    now_ms = found.now_ms or request.now_ms
    tables = {each.table_uuid for each in listed if each.status in RETRIED}
    writable = find_writable(request.catalog, tables) if request.settings.actions and tables else set()
    return Listing(
        "jobs",
        "Jobs and what they did last",
        JOBS,
        [show_job(each, now_ms, info, retried=each.table_uuid in writable) for each in listed],
        "There is no such job: no commit has left any work to be done.",
        next_query=None if following is None else request.with_query(after=following),
        note="Those that need somebody first. There is one job for each kind and place, which becomes due again and "
        "again.",
    )


def show_job(job: Job, now_ms: int, info: TableInfo | None, *, retried: bool) -> dict[str, Any]:
    """A row; it leads to the retry of its job if the caller may do that. Pure."""
    links = {"table": table_address(job.table, "jobs")}
    if retried and job.status in RETRIED:
        links["job_id"] = f"/jobs/{job.job_id}/act/retry"
    return {
        "job_id": job.job_id,
        "table": job.table,
        "kind": job.kind,
        "state": job.status.value,
        "place": _name_place(job, info),
        "priority": job.priority,
        "attempts": job.attempts,
        "created_ms": job.created_at_ms,
        "changed_age_ms": max(now_ms - job.updated_at_ms, 0),
        "outcome": job.outcome or None,
        "reason": job.reason or None,
        "holder": job.holder or None,
        "payload": dict(job.payload),
        "_links": links,
    }


def _name_place(job: Job, info: TableInfo | None) -> str | None:
    try:
        partition, bucket = parse_bucket_scope(job.scope)
    except InvalidArgument:
        # It works on the whole table.
        return None
    if not partition:
        return f"bucket {bucket}"
    return f"a partition, bucket {bucket}" if info is None else name_bucket(info.schema, partition, bucket)


def find_amplification(snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """How many rows compactions rewrote for each row that was committed. Pure."""
    rewritten = sum(each.added_rows for each in snapshots if each.kind is SnapshotKind.COMPACT)
    committed = sum(each.added_rows for each in snapshots if each.kind is not SnapshotKind.COMPACT)
    return {
        "snapshots": len(snapshots),
        "committed_rows": committed,
        "rewritten_rows": rewritten,
        "amplification": round(1 + rewritten / committed, 2) if committed else None,
    }
