"""`lakelog status`: whether lakelog can be reached, how it is, and what it holds."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

import click

import lakelog
from lakelog.cli.failures import ExitCode
from lakelog.cli.health import check_health
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.pipelines import describe_pipeline
from lakelog.cli.printer import Column
from lakelog.cli.text import format_count, format_time
from lakelog.format.expiry import OverdueSnapshots

_FACTS: Final = (
    Column("target", "Target"),
    Column("health", "Health", style=lambda state: "green" if state == "SERVING" else "bold red"),
    Column("latency_ms", "Latency", lambda latency: "" if latency is None else f"{latency:.1f} ms"),
    Column("problem", "Problem"),
    Column("version", "Client", lambda version: f"lakelog {version}"),
    Column("databases", "Databases", format_count),
    Column("tables", "Tables", format_count),
    Column("pipelines", "Pipelines", lambda found: "" if found is None else _count_states(found)),
)


_OVERDUE: Final = (
    Column("table", "OVERDUE SNAPSHOTS OF", may_cut=True),
    Column("count", "COUNT", format_count, right=True),
    Column("since", "SINCE"),
    Column("kind", "KEPT FOR"),
    Column("holder", "", may_cut=True),
)
"""What would have expired but for somebody."""


@click.command(cls=LakelogCommand)
@pass_invocation
def status(invocation: Invocation) -> ExitCode:
    """Show how lakelog is and what it holds.

    Snapshots are overdue that would have expired but for somebody who needs them: a consumer, a reader, the publisher
    of a log, or a changelog that is still to be made. 'lakelog consumers delete' forgets one.

    Ends with exit code 5 when it does not serve.
    """
    health = check_health(invocation.target, invocation.tls, invocation.token)
    record: dict[str, Any] = {
        "target": invocation.target,
        "serving": health.is_serving,
        "health": health.state,
        "latency_ms": health.latency_ms,
        "problem": health.problem or None,
        "version": lakelog.__version__,
        "databases": None,
        "tables": None,
        "pipelines": None,
        "overdue": None,
    }
    if health.is_serving:
        databases = invocation.metastore.list_databases()
        now_ms = time.time_ns() // 1_000_000
        record["databases"] = len(databases)
        record["tables"] = sum(found.table_count for found in databases)
        record["pipelines"] = [describe_pipeline(found, now_ms) for found in invocation.metastore.list_pipelines()]
        record["overdue"] = [_describe_overdue(found) for found in invocation.metastore.list_overdue_snapshots()]
    if invocation.printer.is_json:
        invocation.printer.document(record)
    else:
        invocation.printer.facts(_FACTS, record)
        if record["overdue"]:
            invocation.printer.raw("\n")
            invocation.printer.records(_OVERDUE, record["overdue"], empty="")
    if health.is_serving:
        return ExitCode.FINE
    if health.latency_ms is None:
        tls = " without TLS" if invocation.tls is None else " with TLS (if not, leave --tls and the TLS files out)"
        invocation.printer.note(
            f"Is lakelog running there{tls}? Another place is named by --target or LAKELOG_TARGET.", style=""
        )
    return ExitCode.UNAVAILABLE


def _describe_overdue(found: OverdueSnapshots) -> dict[str, Any]:
    return {
        "table": found.table,
        "count": found.count,
        "since": format_time(found.since_ms),
        "kind": found.pin.kind.value,
        "holder": found.pin.holder,
    }


def _count_states(found: list[dict[str, Any]]) -> str:
    """`2 running, 1 failed`."""
    states = Counter(record["state"] for record in found)
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
