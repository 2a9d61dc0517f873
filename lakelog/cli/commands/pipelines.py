"""`lakelog pipelines`: the states of the ingestion pipelines."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_age, format_count, format_time
from lakelog.format.jobs.work import Pipeline

_STATE_STYLES: Final = {
    "running": "green",
    "starting": "yellow",
    "stopped": "dim",
    "failed": "bold red",
    "abandoned": "red",
}
COLUMNS: Final = (
    Column("name", "PIPELINE", may_cut=True),
    Column("table", "TABLE", may_cut=True),
    Column("state", "STATE", style=lambda state: _STATE_STYLES.get(state, "")),
    Column("position", "POSITION", may_cut=True),
    Column("lag", "LAG", format_count, right=True),
    Column("total_rows", "ROWS", format_count, right=True),
    Column("dead_letter_rows", "DEAD LETTERS", format_count, right=True, style=lambda rows: "red" if rows else ""),
    Column("age_ms", "REPORTED", lambda age: f"{format_age(age)} ago"),
    Column("holder", "HELD BY", may_cut=True),
)


@click.group(cls=LakelogGroup)
def pipelines() -> None:
    """List ingestion pipelines and streams to sinks, or forget one."""


@pipelines.command(example=("lakelog pipelines forget flights",))
@click.argument("pipeline")
@pass_invocation
def forget(invocation: Invocation, pipeline: str) -> None:
    """Remove a pipeline that has ended from the list; nothing else changes."""
    invocation.metastore.forget_pipeline(pipeline)
    invocation.printer.done(f"Forgot pipeline {pipeline}.", {"pipeline": pipeline, "forgotten": True})


@pipelines.command("list", example=("lakelog pipelines list",))
@pass_invocation
def list_(invocation: Invocation) -> None:
    """List the pipelines: position, lag, last error.

    A pipeline whose writer was killed is abandoned once its lease is over.
    """
    now_ms = time.time_ns() // 1_000_000
    records = [describe_pipeline(pipeline, now_ms) for pipeline in invocation.metastore.list_pipelines()]
    invocation.printer.records(
        COLUMNS, records, empty="No pipeline has reported yet. Start one: lakelog up --pipelines FILE.yaml"
    )
    for record in records:
        if record["last_error"]:
            invocation.printer.note(f"{record['name']}: {record['last_error']}", style="red")


def describe_pipeline(pipeline: Pipeline, now_ms: int) -> dict[str, Any]:
    """A pipeline's record. Pure.

    `age_ms` is the time since its last report, at least 0. A running one whose lease no writer holds is `abandoned`.
    """
    # A running pipeline's writer holds the lease.
    is_abandoned = pipeline.state in ("running", "starting") and not pipeline.holder
    return {
        "name": pipeline.name,
        "table": pipeline.table,
        "source": pipeline.source,
        "state": "abandoned" if is_abandoned else pipeline.state,
        "holder": pipeline.holder or None,
        "last_batch_id": pipeline.last_batch_id,
        "position": pipeline.position,
        "lag": pipeline.lag,
        "total_rows": pipeline.total_rows,
        "dead_letter_rows": pipeline.dead_letter_rows,
        "last_error": pipeline.last_error or None,
        "reported_at": format_time(pipeline.reported_at_ms),
        "age_ms": max(now_ms - pipeline.reported_at_ms, 0),
    }
