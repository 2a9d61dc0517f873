"""The first page: is all well, what runs, what waits."""

from __future__ import annotations

import dataclasses

from lakelog.format.jobs.presence import Liveness

from .page import Column, Listing, Page, PageRequest

SERVICES = (
    Column("kind", "Service"),
    Column("state", "State", "state"),
    Column("host", "Host", "code"),
    Column("pid", "Process", "code"),
    Column("uptime_ms", "Runs for", "age"),
    Column("version", "Version", "code"),
    Column("work", "Does"),
)

JOBS = (
    Column("kind", "Kind"),
    Column("due_count", "Due", "count"),
    Column("oldest_due_ms", "Waiting for", "age"),
    Column("leased_count", "Running", "count"),
    Column("resting_count", "Resting", "count", "due after a pause"),
    Column("failed_count", "Failed", "count"),
)


def overview(request: PageRequest) -> Page:
    """The overview."""
    metastore = request.catalog.metastore
    databases = metastore.list_databases()
    services = request.catalog.services()
    facts = {
        "databases": len(databases),
        "tables": sum(each.table_count for each in databases),
        "bytes": sum(each.size_bytes for each in databases),
    }
    rows = [
        {
            "kind": each.kind,
            "state": each.state.value if each.liveness is Liveness.PRESENT else each.liveness.value,
            "host": each.host,
            "pid": each.pid,
            "uptime_ms": request.now_ms - each.started_at_ms,
            "version": each.version,
            "work": ", ".join(each.work),
        }
        for each in services
    ]
    return Page(
        "overview.html",
        "Overview",
        {
            "facts": facts,
            "services": Listing("services", "Services", SERVICES, rows, "No service reports to the metastore."),
            "jobs": Listing(
                "jobs", "Work for compactors", JOBS, [dataclasses.asdict(each) for each in metastore.describe_queue()]
            ),
        },
        area="overview",
    )
