"""`lakelog status`: whether lakelog is reachable, its health, and its contents."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click

import lakelog
from lakelog.cli.commands.health import check_health
from lakelog.cli.commands.pipelines import describe_pipeline
from lakelog.cli.commands.service_list import COLUMNS as SERVICE_COLUMNS
from lakelog.cli.commands.service_list import describe_service, sum_up_services, to_rows
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_age, format_bytes, format_count, format_time, plural
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.retention.expiry import OverdueSnapshots
from lakelog.format.tables.table import DatabaseInfo, TableName
from lakelog.system_tables.metadata.log_status import LogStatus, load_log_status

_FACTS: Final = (
    Column("target", "Target"),
    Column("health", "Health", style=lambda state: "green" if state == "SERVING" else "bold red"),
    Column("latency_ms", "Latency", lambda latency: "" if latency is None else f"{latency:.1f} ms"),
    Column("problem", "Problem"),
    Column("version", "Client", lambda version: f"lakelog {version}"),
    Column("databases", "Databases", format_count),
    Column("tables", "Tables", format_count),
    Column("size_bytes", "Size", lambda size: "" if size is None else f"{format_bytes(size)} in newest snapshots"),
    Column("disk", "Disk", lambda disk: "" if disk is None else _sum_up_disk(disk)),
    Column("services", "Services", lambda found: "" if found is None else sum_up_services(found)),
    Column("pipelines", "Pipelines", lambda found: "" if found is None else _count_states(found)),
    Column("jobs", "Jobs", lambda found: "" if found is None else _sum_up_jobs(found)),
    Column("logs", "Logs", lambda found: "" if found is None else _sum_up_logs(found)),
)

_LEFT_AFTER_MS: Final = 60_000
"""A compactor takes a job within a second. If jobs wait for so long and none is running, there is probably none."""

_OVERDUE: Final = (
    Column("table", "OVERDUE SNAPSHOTS OF", may_cut=True),
    Column("count", "COUNT", format_count, right=True),
    Column("since", "SINCE"),
    Column("kind", "KEPT FOR"),
    Column("holder", "", may_cut=True),
)
"""Snapshots that would have expired, but something needs them."""


@click.command(cls=LakelogCommand)
@pass_invocation
def status(invocation: Invocation) -> ExitCode:
    """Show lakelog's health and contents.

    Services are the processes that report to the metastore every few seconds. One that stops reporting is silent at
    first, then gone, and leaves the list ten minutes later. One that ends in good order leaves the list at once.

    Jobs are the work that commits leave for compactors: how many are due, and for how long. Of the external logs, the
    one with the longest delay is shown. Disk is the disk of this machine that holds tables.

    Overdue snapshots would have expired, but something needs them: a consumer, a reader, the publisher of a log, or a
    changelog that is still to be made. 'lakelog consumers delete' forgets a consumer.

    The exit code is 5 if lakelog does not serve.
    """
    health = check_health(invocation.address, invocation.tls, invocation.sign_in)
    record: dict[str, Any] = {
        "target": invocation.address,
        "serving": health.is_serving,
        "health": health.state,
        "latency_ms": health.latency_ms,
        "problem": health.problem or None,
        "version": lakelog.__version__,
        "databases": None,
        "tables": None,
        "size_bytes": None,
        "disk": None,
        "services": None,
        "pipelines": None,
        "jobs": None,
        "logs": None,
        "overdue": None,
    }
    if health.is_serving:
        databases = invocation.metastore.list_databases()
        now_ms = time.time_ns() // 1_000_000
        record["databases"] = len(databases)
        record["tables"] = sum(found.table_count for found in databases)
        record["size_bytes"] = sum(found.size_bytes for found in databases)
        record["disk"] = _find_disk(invocation.metastore, databases)
        record["services"] = [describe_service(found, now_ms) for found in invocation.metastore.list_services()]
        record["pipelines"] = [describe_pipeline(found, now_ms) for found in invocation.metastore.list_pipelines()]
        record["jobs"] = [dataclasses.asdict(queue) for queue in invocation.metastore.describe_queue()]
        record["logs"] = [_describe_log(found) for found in load_log_status(invocation.metastore, (), now_ms)]
        record["overdue"] = [_describe_overdue(found) for found in invocation.metastore.list_overdue_snapshots()]
    if invocation.printer.is_json:
        invocation.printer.document(record)
    else:
        invocation.printer.facts(_FACTS, record)
        if record["services"]:
            invocation.printer.raw("\n")
            invocation.printer.records(SERVICE_COLUMNS, to_rows(record["services"]), empty="")
        if record["overdue"]:
            invocation.printer.raw("\n")
            invocation.printer.records(_OVERDUE, record["overdue"], empty="")
    if health.is_serving:
        return ExitCode.FINE
    if health.latency_ms is None:
        tls = " without TLS" if invocation.tls is None else " with TLS (if not, leave --tls and the TLS files out)"
        invocation.printer.note(
            f"Is lakelog running there{tls}? --target or LAKELOG_TARGET names another address.", style=""
        )
    return ExitCode.UNAVAILABLE


def _describe_log(found: LogStatus) -> dict[str, Any]:
    return {
        "table": str(found.info.name),
        "snapshots_behind": found.snapshots_behind,
        "behind_ms": found.behind_ms,
        "problem": found.problem or None,
    }


def _sum_up_jobs(found: list[dict[str, Any]]) -> str:
    """`3 compact due for 2 s, 1 being done`."""
    parts = []
    for queue in found:
        counts = {
            "being done": queue["leased_count"],
            "resting": queue["resting_count"],
            "failed": queue["failed_count"],
        }
        due = f"{queue['due_count']} due for {format_age(queue['oldest_due_ms'])}" if queue["due_count"] else ""
        said = [due, *(f"{count} {state}" for state, count in counts.items() if count)]
        parts += [f"{queue['kind']}: {', '.join(filter(None, said))}"] if any(said) else []
    summary = "; ".join(parts) or "none"
    waits_ms = max((queue["oldest_due_ms"] for queue in found if queue["due_count"]), default=0)
    is_left = waits_ms >= _LEFT_AFTER_MS and not any(queue["leased_count"] for queue in found)
    return f"{summary}. None is running. Is there a compactor (lakelog compactor run)?" if is_left else summary


def _find_disk(metastore: Metastore, databases: Sequence[DatabaseInfo]) -> dict[str, Any] | None:
    """The space of the disk that holds tables; None: there are none, or they are not on this machine."""
    smallest = min((found for found in databases if found.table_count), key=lambda each: each.table_count, default=None)
    try:
        names = metastore.list_tables(smallest.name) if smallest else []
        location = metastore.get_table(TableName(smallest.name, names[0])).location if smallest and names else ""
        if not location.startswith("file:"):
            return None
        usage = shutil.disk_usage(Path(unquote(urlsplit(location).path)).parent)
    except (NotFound, OSError):
        # It was dropped meanwhile, or its files are on another machine.
        return None
    return {"free_bytes": usage.free, "total_bytes": usage.total}


def _sum_up_disk(disk: dict[str, int]) -> str:
    """`8.1 GiB free of 250.2 GiB`."""
    return f"{format_bytes(disk['free_bytes'])} free of {format_bytes(disk['total_bytes'])}"


def _sum_up_logs(found: list[dict[str, Any]]) -> str:
    """`3, shop.orders 2 snapshots behind for 4 s`."""
    if not found:
        return "none"
    slowest = max(found, key=lambda log: (log["problem"] is not None, log["behind_ms"]))
    if slowest["problem"]:
        return f"{len(found)}; {slowest['table']}: {slowest['problem']}"
    if not slowest["snapshots_behind"]:
        return f"{len(found)}, all published"
    behind = plural(slowest["snapshots_behind"], "snapshot")
    return f"{len(found)}, {slowest['table']} {behind} behind for {format_age(slowest['behind_ms'])}"


def _describe_overdue(found: OverdueSnapshots) -> dict[str, Any]:
    return {
        "table": found.table,
        "count": found.count,
        "since": format_time(found.since_ms),
        "kind": found.lease.kind.value,
        "holder": found.lease.holder,
    }


def _count_states(found: list[dict[str, Any]]) -> str:
    """`2 running, 1 failed`."""
    states = Counter(record["state"] for record in found)
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
