"""Health and settings: does the metastore answer, what runs in which version, and how this console is set up."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import lakelog
from lakelog.health.health import examine

from .overview import list_services
from .page import Column, Listing, Page, PageRequest
from .rights import has_role, is_admin, who_is

VERSIONS: Final = (
    Column("kind", "Service"),
    Column("version", "Version", "code"),
    Column("count", "Processes", "count"),
)


def service_settings(request: PageRequest) -> Page:
    """Health and settings."""
    health = examine(request.catalog)
    found = health.overview or request.catalog.overview()
    settings = request.settings
    counts = Counter((each.kind, each.version) for each in health.services or ())
    versions = [{"kind": kind, "version": version, "count": count} for (kind, version), count in sorted(counts.items())]
    own = request.catalog.grants.list()
    parts: dict[str, Any] = {
        "metastore": {
            "address": settings.target,
            "latency_ms": None if health.latency_ms is None else round(health.latency_ms, 1),
            "clock_ms": found.now_ms or None,
            "clock_differs_ms": found.now_ms - request.now_ms if found.now_ms else None,
            "measured_age_ms": found.work_age_ms if found.work else None,
        },
        "console": {
            "version": lakelog.__version__,
            "actions": settings.actions,
            "max_query_rows": settings.max_query_rows,
            "query_seconds": settings.query_seconds,
        },
        "you": {
            "names": [name] if (name := who_is(request.catalog).name) else [],
            "reads_everything": has_role(request.catalog),
            "is_admin": is_admin(request.catalog),
            "grants": own.num_rows,
        },
        "versions": Listing("versions", "Versions", VERSIONS, versions, "No service that you may see reports."),
        "services": list_services(health.services, request.now_ms),
    }
    return Page("settings.html", "Health and settings", parts, area="settings")
