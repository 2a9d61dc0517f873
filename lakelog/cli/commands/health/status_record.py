"""What `lakelog status` shows: the facts, the services, overdue snapshots, and what is wrong."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import lakelog
from lakelog.cli.commands.health.service_list import COLUMNS as SERVICE_COLUMNS
from lakelog.cli.commands.health.service_list import describe_service, sum_up_services, to_rows
from lakelog.cli.commands.health.serving import ServingState, check_serving
from lakelog.cli.commands.pipelines import describe_pipeline
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Column, Printer
from lakelog.cli.output.problems import describe_problem, to_lines
from lakelog.cli.output.text import format_age, format_bytes, format_count, format_time, plural
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import LogLag
from lakelog.format.retention.expiry import OverdueSnapshots
from lakelog.format.tables.table import DatabaseInfo, TableName
from lakelog.health.health import load_health
from lakelog.health.problem import Problem
from lakelog.health.waiting import is_left

_FACTS: Final = (
    Column("target", "Target"),
    Column("health", "Health", style=lambda state: "green" if state == "SERVING" else "bold red"),
    Column("latency_ms", "Latency", lambda latency: "" if latency is None else f"{latency:.1f} ms"),
    Column("problem", "Problem"),
    Column("version", "Client", lambda version: f"lakelog {version}"),
    Column("databases", "Databases", format_count),
    Column("tables", "Tables", format_count),
    Column("rows", "Rows", format_count),
    Column("size_bytes", "Size", lambda size: "" if size is None else f"{format_bytes(size)} in newest snapshots"),
    Column("disk", "Disk", lambda disk: "" if disk is None else _sum_up_disk(disk)),
    Column("services", "Services", lambda found: "" if found is None else sum_up_services(found)),
    Column("pipelines", "Pipelines", lambda found: "" if found is None else _count_states(found)),
    Column("jobs", "Jobs", lambda found: "" if found is None else _sum_up_jobs(found)),
    Column("logs", "Logs", lambda found: "" if found is None else _sum_up_logs(found)),
)

_OF_CATALOG: Final = (
    "databases",
    "tables",
    "snapshots",
    "rows",
    "files",
    "size_bytes",
    "committed_at",
    "disk",
    "services",
    "pipelines",
    "jobs",
    "logs",
    "lagging_logs",
    "measured_ms",
    "overdue",
    "problems",
)
"""What is known only while the metastore serves; `jobs` and `logs` are as old as `measured_ms` says."""

_OVERDUE: Final = (
    Column("table", "OVERDUE SNAPSHOTS OF", may_cut=True),
    Column("count", "COUNT", format_count, right=True),
    Column("since", "SINCE"),
    Column("kind", "KEPT FOR"),
    Column("holder", "", may_cut=True),
)
"""Snapshots that would have expired, but something needs them."""


@dataclasses.dataclass(frozen=True)
class Status:
    """All that is shown.

    Args:
        serving: Whether the metastore serves.
        record: For programs.
        problems: What is wrong.
        now_ms: The metastore's clock.
    """

    serving: ServingState
    record: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    now_ms: int = 0


def load_status(invocation: Invocation) -> Status:
    """Loads it; a metastore that does not serve is no error."""
    serving = check_serving(invocation.address, invocation.tls, invocation.sign_in)
    record: dict[str, Any] = dict.fromkeys(
        ("target", "serving", "health", "latency_ms", "problem", "version", *_OF_CATALOG)
    )
    record |= {
        "target": invocation.address,
        "serving": serving.is_serving,
        "health": serving.state,
        "latency_ms": serving.latency_ms,
        "problem": serving.problem or None,
        "version": lakelog.__version__,
    }
    if not serving.is_serving:
        return Status(serving, record)
    found = load_health(invocation.catalog)
    now_ms = time.time_ns() // 1_000_000
    record["problems"] = [describe_problem(each) for each in found.problems]
    if found.overview is not None:
        now_ms = found.overview.now_ms or now_ms
        record |= _describe_overview(found.overview)
        record["disk"] = _find_disk(invocation.metastore, invocation.metastore.list_databases())
        record["services"] = [describe_service(each, now_ms) for each in found.services or ()]
        record["pipelines"] = [describe_pipeline(each, now_ms) for each in found.pipelines or ()]
        record["overdue"] = [_describe_overdue(each) for each in invocation.metastore.list_overdue_snapshots()]
    return Status(serving, record, found.problems, now_ms)


def print_status(printer: Printer, status: Status) -> None:
    """Prints it for people."""
    printer.facts(_FACTS, status.record)
    if status.record["services"]:
        printer.raw("\n")
        printer.records(SERVICE_COLUMNS, to_rows(status.record["services"]), empty="")
    if status.record["overdue"]:
        printer.raw("\n")
        printer.records(_OVERDUE, status.record["overdue"], empty="")
    if status.problems:
        printer.raw("\n")
        printer.cells([*to_lines(status.problems, status.now_ms)])


def _describe_overview(overview: Overview) -> dict[str, Any]:
    work = overview.work
    return {
        "databases": overview.database_count,
        "tables": overview.table_count,
        "snapshots": overview.snapshot_count,
        "rows": overview.total_rows,
        "files": overview.total_files,
        "size_bytes": overview.total_bytes,
        "committed_at": format_time(overview.committed_at_ms or None) or None,
        "jobs": None if work is None else [dataclasses.asdict(queue) for queue in work.queues],
        "logs": None if work is None else [_describe_log(lag) for lag in work.logs.named],
        "lagging_logs": None if work is None else work.logs.lagging_count,
        "measured_ms": None if work is None else overview.work_age_ms,
    }


def _describe_log(lag: LogLag) -> dict[str, Any]:
    return {
        "table": lag.table,
        "snapshots_behind": lag.snapshots_behind,
        "behind_ms": lag.behind_ms,
        "problem": lag.problem or None,
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
    left = is_left([JobQueue(**queue) for queue in found])
    return f"{summary}. None is running. Is there a compactor (lakelog compactor run)?" if left else summary


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
