"""`lakelog jobs`: work that commits leave for compactors, with its state and its failures."""

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
from lakelog.format.keys.partition_text import name_bucket
from lakelog.format.tables.table import TableInfo

_FEW: Final = 200
_MOST: Final = 1_000_000
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


@click.group(
    cls=LakelogGroup,
    invoke_without_command=True,
    params=shared_options(hidden=True),
    epilog="Examples: lakelog jobs; lakelog jobs list shop.orders --state failed; lakelog jobs retry 7",
)
@click.pass_context
def jobs(context: click.Context) -> None:
    """List the jobs of compactors, or try one again."""
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
@click.argument("job_id", metavar="JOB", type=Whole(1))
@pass_invocation
def retry(invocation: Invocation, job_id: int) -> None:
    """Make a failed or resting job due at once."""
    invocation.metastore.retry_job(job_id)
    invocation.printer.done(f"Job {job_id} is due now.", {"job_id": job_id, "state": "due"})


def _name_places(metastore: Metastore, jobs: Sequence[Job]) -> dict[int, str | None]:
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
