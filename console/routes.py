"""Every page and its address."""

from __future__ import annotations

from typing import Any, Final

from .http.app import PageRoute
from .pages.actions.action import Action
from .pages.actions.on_consumers import DELETE, RESET
from .pages.actions.on_jobs import RETRY
from .pages.actions.on_tables import COMPACT, DELETE_TAG, EXPIRE, ROLL_BACK, TAG
from .pages.grants import grants
from .pages.jobs import jobs
from .pages.overview import overview
from .pages.pipelines import pipeline, pipelines
from .pages.query import query
from .pages.service_settings import service_settings
from .pages.streams_and_logs.streams import streams
from .table_routes import TABLE_PAGES

_TABLE: Final = "/tables/{database}/{table}"


def _act(path: str, action: Action[Any]) -> PageRoute:
    return PageRoute(path, action.show, is_live=False, act=action.act)


_ACTIONS: Final = (
    _act(f"{_TABLE}/act/compact", COMPACT),
    _act(f"{_TABLE}/act/expire", EXPIRE),
    _act(f"{_TABLE}/act/tag", TAG),
    _act(f"{_TABLE}/act/delete-tag", DELETE_TAG),
    _act(f"{_TABLE}/act/roll-back", ROLL_BACK),
    _act(f"{_TABLE}/act/reset-consumer", RESET),
    _act(f"{_TABLE}/act/delete-consumer", DELETE),
    _act("/jobs/{job}/act/retry", RETRY),
)

PAGES: Final = (
    PageRoute("/", overview),
    *TABLE_PAGES,
    PageRoute("/streams", streams),
    PageRoute("/pipelines", pipelines),
    PageRoute("/pipelines/{name:path}", pipeline),
    PageRoute("/jobs", jobs),
    PageRoute("/grants", grants),
    PageRoute("/query", query, is_live=False, is_long=True),
    PageRoute("/settings", service_settings),
    *_ACTIONS,
)
