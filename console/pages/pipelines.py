"""Pipelines and streams to sinks, as they reported last."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from lakelog.errors import NotFound
from lakelog.format.jobs.work import Pipeline
from lakelog.health.processes import is_abandoned

from .page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address

PIPELINES: Final = (
    Column("name", "Pipeline", "code"),
    Column("state", "State", "state"),
    Column("table", "Table", "code"),
    Column("lag", "Records left", "count", "in the source; none: not known"),
    Column("rows", "Rows written", "count"),
    Column("dead_letter_rows", "Dead letters", "count", "records that could not be written"),
    Column("reported_age_ms", "Reported, ago", "age"),
    Column("last_error", "Last error"),
)


def pipelines(request: PageRequest) -> Page:
    """All pipelines."""
    after = request.query.get("after", "")
    found = sorted((each for each in _load(request) if each["name"] > after), key=lambda each: str(each["name"]))
    shown = found[:PAGE_ROWS]
    is_more = len(found) > len(shown)
    listing = Listing(
        "pipelines",
        "Pipelines and streams to sinks",
        PIPELINES,
        shown,
        "No pipeline has reported yet. Start one: lakelog up --pipelines FILE.yaml",
        next_query=request.with_query(after=shown[-1]["name"]) if is_more else None,
    )
    return Page("listings.html", "Pipelines", {"pipelines": listing}, area="pipelines")


def pipeline(request: PageRequest) -> Page:
    """One pipeline."""
    name = request.path["name"]
    found = next((each for each in _load(request) if each["name"] == name), None)
    if found is None:
        raise NotFound(f"There is no pipeline {name!r:.200}, or you may not see it.")
    facts = {key: value for key, value in found.items() if key != "_links"}
    return Page(
        "pipeline.html",
        name,
        {"facts": facts},
        crumbs=(("Pipelines", "/pipelines"),),
        area="pipelines",
        extra={"table_address": table_address(found["table"])},
    )


def _load(request: PageRequest) -> list[dict[str, Any]]:
    return [show_pipeline(each, request.now_ms) for each in request.catalog.metastore.list_pipelines()]


def show_pipeline(found: Pipeline, now_ms: int) -> dict[str, Any]:
    """A row. Pure."""
    return {
        "name": found.name,
        "state": "abandoned" if is_abandoned(found) else found.state,
        "table": found.table,
        "source": found.source,
        "position": found.position or None,
        "lag": found.lag,
        "rows": found.total_rows,
        "dead_letter_rows": found.dead_letter_rows,
        "last_batch_id": found.last_batch_id,
        "last_error": found.last_error or None,
        "reported_ms": found.reported_at_ms,
        "reported_age_ms": max(now_ms - found.reported_at_ms, 0),
        "holder": found.holder or None,
        "_links": {"name": f"/pipelines/{quote(found.name, safe='')}", "table": table_address(found.table)},
    }
