"""Every page and its address."""

from __future__ import annotations

from typing import Final

from .http.app import PageRoute
from .pages.grants import grants
from .pages.jobs import jobs
from .pages.overview import overview
from .pages.pipelines import pipeline, pipelines
from .pages.query import query
from .pages.service_settings import service_settings
from .pages.streams import streams
from .table_routes import TABLE_PAGES

PAGES: Final = (
    PageRoute("/", overview),
    *TABLE_PAGES,
    PageRoute("/streams", streams),
    PageRoute("/pipelines", pipelines),
    PageRoute("/pipelines/{name:path}", pipeline),
    PageRoute("/jobs", jobs),
    PageRoute("/grants", grants),
    PageRoute("/query", query, is_live=False),
    PageRoute("/settings", service_settings),
)
