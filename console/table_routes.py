"""The pages of databases and tables, and their addresses."""

from __future__ import annotations

from typing import Final

from .http.app import PageRoute
from .pages.tables.files import file, files
from .pages.tables.first import table
from .pages.tables.jobs import jobs
from .pages.tables.names import databases, search, tables
from .pages.tables.past.history import history
from .pages.tables.past.snapshot import snapshot
from .pages.tables.past.snapshots import snapshots
from .pages.tables.streams import streams
from .pages.tables.topic.log import log

_TABLE: Final = "/tables/{database}/{table}"

TABLE_PAGES: Final = (
    PageRoute("/tables", databases),
    # Each table of a list costs requests of its own.
    PageRoute("/tables/{database}", tables, is_live=False),
    PageRoute("/search", search, is_live=False),
    PageRoute(_TABLE, table),
    PageRoute(f"{_TABLE}/history", history),
    PageRoute(f"{_TABLE}/snapshots", snapshots),
    PageRoute(f"{_TABLE}/snapshots/{{snapshot}}", snapshot),
    PageRoute(f"{_TABLE}/files", files),
    PageRoute(f"{_TABLE}/files/one", file),
    PageRoute(f"{_TABLE}/log", log),
    PageRoute(f"{_TABLE}/streams", streams),
    PageRoute(f"{_TABLE}/jobs", jobs),
)
