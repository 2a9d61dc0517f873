"""`lakelog jobs`: work that commits leave for compactors, with its state, its history and its failures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation, shared_options
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_age, format_count, format_time
from lakelog.client.job_pages import list_jobs_by_need
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.jobs.job import KINDS, Job, JobStatus, parse_bucket_scope
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.keys.partition_text import name_bucket
from lakelog.format.tables.table import TableInfo

_FEW: Final = 200
_MOST: Final = 1_000_000
_FEW_RUNS: Final = 50
_BAD: Final = (RunResult.FAILED, RunResult.LOST)
_STATES: Final = tuple(each.value for each in JobStatus)
_STATE_STYLES: Final = {
    "due": "yellow",
    "resting": "yellow",
    "leased": "green",
    "abandoned": "red",
    "done": "dim",
    "failed": "bold red",
}
COLUMNS: Final = (
    Column("job_id", "JOB", right=True),
    Column("table", "TABLE", may_cut=True),
    Column("kind", "KIND"),
    Column("state", "STATE", style=lambda state: _STATE_STYLES.get(state, "")),
    Column("attempts", "TRIES", format_count, right=True, style=lambda tries: "red" if tries and tries > 1 else ""),
    Column("age_ms", "CHANGED", lambda age: f"{format_age(age)} ago"),
    Column("outcome", "DID LAST", may_cut=True),
    Column("holder", "DONE BY", may_cut=True),
    Column("place", "OF", may_cut=True),
)


_RESULT_STYLES: Final = {"done": "green", "given back": "yellow", "failed": "bold red", "lost": "red"}
RUN_COLUMNS: Final = (
    Column("run_id", "RUN", right=True),
    Column("ended_age_ms", "ENDED", lambda age: f"{format_age(age)} ago"),
    Column("job_id", "JOB", right=True),
    Column("table", "TABLE", may_cut=True),
    Column("kind", "KIND"),
    Column("result", "RESULT", style=lambda result: _RESULT_STYLES.get(result, "")),
    Column("duration_ms", "TOOK", lambda took: _format_took(took), right=True),
    Column("message", "DID, OR WHY NOT", may_cut=True),
    Column("holder", "DONE BY", may_cut=True),
    Column("place", "OF", may_cut=True),
)


@click.group(
    cls=LakelogGroup,
    invoke_without_command=True,
    params=shared_options(hidden=True),
    epilog="Examples: lakelog jobs; lakelog jobs list --state failed; lakelog jobs history shop.orders; "
    "lakelog jobs retry 7",
)
@click.pass_context
def jobs(context: click.Context) -> None:
    """List the jobs of compactors, what became of them, or try one again."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@jobs.command("list")
@click.argument("names", metavar="[DATABASE.TABLE]...", nargs=-1)
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Only jobs in this state.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only jobs of this kind.")
@click.option("--limit", type=Whole(1, _MOST), default=_FEW, show_default=True, help="How many jobs to list.")
@pass_invocation
def list_(
    invocation: Invocation,
    names: tuple[str, ...] = (),
    states: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
    limit: int = _FEW,
) -> None:
    """List the jobs of all tables, or of the named ones. Those that need you come first.

    A resting job will be tried again after a pause. A failed one will not, until a commit brings more work or you run
    `lakelog jobs retry`. A job whose compactor was killed is abandoned until another compactor takes it over.
    """
    tables = [invocation.catalog.table(name).uuid for name in names]
    now_ms = time.time_ns() // 1_000_000
    found, following = list_jobs_by_need(
        invocation.metastore, tables, kinds=kinds, statuses=[JobStatus(each) for each in states], limit=limit
    )
    places = _name_places(invocation.metastore, found)
    records = [describe_job(job, now_ms) | {"place": places[job.job_id]} for job in found]
    invocation.printer.records(COLUMNS, records, empty="There are no jobs: no commit has left any work to be done.")
    for record in records:
        if record["reason"]:
            style = "red" if record["state"] == "failed" else ""
            of = ", ".join([record["table"], *filter(None, [record["place"]])])
            invocation.printer.note(f"job {record['job_id']}, {of}: {record['reason']}", style=style)
    if following is not None:
        invocation.printer.warn(
            f"There are more than these {limit}: name a table, --state or --kind, or give a higher --limit."
        )


@jobs.command()
@click.argument("names", metavar="[DATABASE.TABLE]...", nargs=-1)
@click.option("--job", "job_id", type=Whole(1), metavar="JOB", help="Only the runs of this job.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only runs of jobs of this kind.")
@click.option("--failed", is_flag=True, help="Only runs that failed, or whose compactor was lost.")
@click.option("--before", type=Whole(1), metavar="RUN", help="Only runs before this one: for the next page.")
@click.option("--limit", type=Whole(1, 10_000), default=_FEW_RUNS, show_default=True, help="How many runs to list.")
@pass_invocation
def history(
    invocation: Invocation,
    names: tuple[str, ...],
    job_id: int | None,
    kinds: tuple[str, ...],
    failed: bool,
    before: int | None,
    limit: int,
) -> None:
    """List what became of jobs when they were done: the newest run first.

    Runs that found nothing to do are left out. The newest 500 runs of a table that ended well are kept, and the newest
    500 that did not, none for longer than 30 days.
    """
    tables = [invocation.catalog.table(name).uuid for name in names]
    found = invocation.metastore.list_job_runs(
        tables,
        job_id=job_id or 0,
        kinds=kinds,
        results=_BAD if failed else (),
        before=before or 0,
        limit=limit,
    )
    now_ms = time.time_ns() // 1_000_000
    places = _name_places(invocation.metastore, found)
    records = [_describe_run(run, now_ms) | {"place": places[run.job_id]} for run in found]
    invocation.printer.records(RUN_COLUMNS, records, empty="No run of a job is recorded.")
    if len(found) == limit:
        invocation.printer.note(f"Older ones: --before {found[-1].run_id}, or a higher --limit.")


@jobs.command()
@click.argument("job_id", metavar="JOB", type=Whole(1))
@pass_invocation
def retry(invocation: Invocation, job_id: int) -> None:
    """Make a failed or resting job due at once."""
    invocation.metastore.retry_job(job_id)
    invocation.printer.done(f"Job {job_id} is due now.", {"job_id": job_id, "state": "due"})


def _name_places(metastore: Metastore, jobs: Sequence[Job | JobRun]) -> dict[int, str | None]:
    """The part of the table that each job works on, for people; None: all of it."""
    tables: dict[str, TableInfo | None] = {}
    places: dict[int, str | None] = {}
    for job in jobs:
        places[job.job_id] = job.scope or None
        try:
            partition, bucket = parse_bucket_scope(job.scope)
        except InvalidArgument:
            continue
        if not partition:
            places[job.job_id] = f"bucket {bucket}"
            continue
        if job.table_uuid not in tables:
            try:
                tables[job.table_uuid] = metastore.get_table_by_uuid(job.table_uuid)
            except NotFound:
                # The table was dropped just now, and its jobs with it.
                tables[job.table_uuid] = None
        info = tables[job.table_uuid]
        if info is not None:
            places[job.job_id] = name_bucket(info.schema, partition, bucket)
    return places


def describe_job(job: Job, now_ms: int) -> dict[str, Any]:
    """A job's record. Pure.

    A job that is due after a pause is `resting`, one leased beyond its deadline `abandoned`; `age_ms` is at least 0.
    """
    return {
        "job_id": job.job_id,
        "table": job.table,
        "kind": job.kind,
        "scope": job.scope or None,
        "state": job.status.value,
        "priority": job.priority,
        "attempts": job.attempts,
        "holder": job.holder or None,
        "epoch": job.epoch,
        "remaining_ms": job.remaining_ms,
        "outcome": job.outcome or None,
        "reason": job.reason or None,
        "created_at": format_time(job.created_at_ms),
        "updated_at": format_time(job.updated_at_ms),
        "age_ms": max(now_ms - job.updated_at_ms, 0),
    }


def _format_took(duration_ms: int | None) -> str:
    """A duration; most are below a second."""
    if duration_ms is None:
        return ""
    return f"{duration_ms} ms" if duration_ms < 1000 else format_age(duration_ms)


def _describe_run(run: JobRun, now_ms: int) -> dict[str, Any]:
    """A run's record. Pure."""
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "table": run.table,
        "kind": run.kind,
        "scope": run.scope or None,
        "result": run.result.value,
        "message": run.message or None,
        "holder": run.holder,
        "started_at": format_time(run.started_at_ms) if run.started_at_ms else None,
        "ended_at": format_time(run.ended_at_ms),
        "duration_ms": run.duration_ms,
        "ended_age_ms": max(now_ms - run.ended_at_ms, 0),
    }
