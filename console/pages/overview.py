"""The first page: is all well, how much is committed, what runs, what waits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Liveness, Service
from lakelog.format.jobs.queue import JobQueue
from lakelog.health.health import examine
from lakelog.health.problem import Problem, Severity

from .commit_rate import add_point, find_rate, split_rates
from .page import Column, Listing, Page, PageRequest, table_address
from .sparkline import draw_sparkline

PROBLEMS: Final = (
    Column("severity", "How bad", "state"),
    Column("summary", "What is wrong"),
    Column("since_ms", "Since", "time"),
    Column("remedy", "What helps", "code"),
    Column("table", "Table", "code"),
)
SERVICES: Final = (
    Column("kind", "Service"),
    Column("state", "State", "state"),
    Column("host", "Host", "code"),
    Column("pid", "Process", "code"),
    Column("uptime_ms", "Runs for", "age"),
    Column("version", "Version", "code"),
    Column("work", "Does"),
)
QUEUES: Final = (
    Column("kind", "Kind"),
    Column("due_count", "Due", "count"),
    Column("oldest_due_ms", "Waiting for", "age"),
    Column("leased_count", "Running", "count"),
    Column("resting_count", "Resting", "count", "due after a pause"),
    Column("failed_count", "Failed", "count"),
)
_PAGES: Final[Mapping[str, str]] = {
    "metastore": "/settings",
    "service": "/#services",
    "compactor": "/jobs",
    "job": "/jobs#failed",
    "pipeline": "/pipelines",
    "log": "/streams#logs",
    "consumer": "/streams#consumers",
    "expiry": "/streams#retaining",
}
"""Where more is to be seen about a kind of problem."""


def overview(request: PageRequest) -> Page:
    """The overview."""
    health = examine(request.catalog)
    found = health.overview or request.catalog.overview()
    points = add_point(request.catalog, found)
    rate, rates = find_rate(points), split_rates(points)
    picture = draw_sparkline(
        rates, f"Commits a minute, of the last minutes: {', '.join(f'{each:.0f}' for each in rates)}"
    )
    problems = [_show_problem(each) for each in health.problems]
    return Page(
        "overview.html",
        "Overview",
        {
            "facts": to_facts(found, rate),
            "problems": Listing("problems", "What is wrong now", PROBLEMS, problems, "Nothing is known to be wrong."),
            "services": list_services(health.services, request.now_ms),
            "queues": list_queues(found.work.queues if found.work else ()),
        },
        area="overview",
        extra={
            "picture": picture,
            "failed": sum(each.severity is Severity.FAILED for each in health.problems),
            "metastore": request.settings.target,
        },
    )


def to_facts(found: Overview, rate: float | None) -> dict[str, Any]:
    """The sums of an overview. Pure."""
    return {
        "databases": found.database_count,
        "tables": found.table_count,
        "rows": found.total_rows,
        "files": found.total_files,
        "bytes": found.total_bytes,
        "snapshots": found.snapshot_count,
        "commits_a_minute": None if rate is None else round(rate, 1),
        "newest_commit_ms": found.committed_at_ms or None,
        "newest_commit_age_ms": max(found.now_ms - found.committed_at_ms, 0) if found.committed_at_ms else None,
    }


def _show_problem(problem: Problem) -> dict[str, Any]:
    links = {"summary": _PAGES.get(problem.kind, "/")}
    if problem.kind == "pipeline" and problem.concerns:
        links["summary"] = f"/pipelines/{quote(problem.concerns, safe='')}"
    if problem.table:
        links["table"] = table_address(problem.table)
    return {
        "severity": problem.severity.value,
        "kind": problem.kind,
        "concerns": problem.concerns or None,
        "summary": problem.summary,
        "since_ms": problem.since_ms,
        "remedy": problem.remedy,
        "table": problem.table or None,
        "_links": links,
    }


def list_services(services: Sequence[Service] | None, now_ms: int) -> Listing:
    """The services that report. Pure.

    Args:
        services: None: the caller may not see them.
        now_ms: The time.
    """
    rows = [
        {
            "kind": each.kind,
            "state": each.state.value if each.liveness is Liveness.PRESENT else each.liveness.value,
            "host": each.host,
            "pid": each.pid,
            "uptime_ms": max(now_ms - each.started_at_ms, 0),
            "version": each.version,
            "work": ", ".join(each.work),
            "metrics": each.metrics or None,
        }
        for each in services or ()
    ]
    empty = "No service reports to the metastore." if services is not None else "Callers with a role see the services."
    return Listing("services", "Services", SERVICES, rows, empty)


def list_queues(queues: Sequence[JobQueue]) -> Listing:
    """The waiting jobs by kind. Pure."""
    rows = [dataclasses.asdict(each) | {"_links": {"kind": f"/jobs?kind={each.kind}"}} for each in queues]
    return Listing("queues", "Work for compactors", QUEUES, rows, "No work waits, or none that you may see.")
