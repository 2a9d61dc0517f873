"""The pages of databases and tables, and their addresses."""

from __future__ import annotations

from typing import Final

from .http.app import PageFunction, PageRoute
from .pages.tables.files import file, files
from .pages.tables.first import table
from .pages.tables.jobs import jobs
from .pages.tables.log.log import log
from .pages.tables.names import databases, search, tables
from .pages.tables.opened import load_state
from .pages.tables.snapshots.history import history
from .pages.tables.snapshots.snapshot import snapshot
from .pages.tables.snapshots.snapshots import snapshots
from .pages.tables.streams import streams

_TABLE: Final = "/tables/{database}/{table}"


def _page(path: str, show: PageFunction) -> PageRoute:
    return PageRoute(f"{_TABLE}{path}", show, state=load_state)


TABLE_PAGES: Final = (
    PageRoute("/tables", databases),
    # Each table of a list costs requests of its own.
    PageRoute("/tables/{database}", tables, is_live=False),
    PageRoute("/search", search, is_live=False),
    _page("", table),
    _page("/history", history),
    _page("/snapshots", snapshots),
    _page("/snapshots/{snapshot}", snapshot),
    _page("/files", files),
    _page("/files/one", file),
    _page("/log", log),
    _page("/streams", streams),
    _page("/jobs", jobs),
)
