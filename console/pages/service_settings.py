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
    began_ms = request.now_ms
    health = examine(request.catalog)
    ended_ms = request.now_ms
    found = health.overview or request.catalog.overview()
    settings = request.settings
    counts = Counter((each.kind, each.version) for each in health.services or ())
    versions = [{"kind": kind, "version": version, "count": count} for (kind, version), count in sorted(counts.items())]
    own = request.catalog.grants.list()
    caller = who_is(request.catalog)
    parts: dict[str, Any] = {
        "metastore": {
            "address": settings.target,
            "latency_ms": None if health.latency_ms is None else round(health.latency_ms, 1),
            "clock_ms": found.now_ms or None,
            "clock_differs_ms": compare_clocks(found.now_ms, began_ms, ended_ms) if found.now_ms else None,
            "measured_age_ms": found.work_age_ms if found.work else None,
        },
        "console": {
            "version": lakelog.__version__,
            "actions": settings.actions,
            "max_query_rows": settings.max_query_rows,
            "query_seconds": settings.query_seconds,
        },
        "you": {
            "names": [caller.name] if caller.name else [],
            "role": caller.role.value,
            "reads_everything": has_role(request.catalog),
            "is_admin": is_admin(request.catalog),
            "grants": own.num_rows,
        },
        "versions": Listing("versions", "Versions", VERSIONS, versions, "No service that you may see reports."),
        "services": list_services(health.services, request.now_ms),
    }
    return Page("settings.html", "Health and settings", parts, area="settings")


def compare_clocks(metastore_ms: int, began_ms: int, ended_ms: int) -> int:
    """How far another clock is ahead, or behind if negative; 0: what it said lies within the request. Pure."""
    return max(metastore_ms - ended_ms, 0) or min(metastore_ms - began_ms, 0)
