"""The external log of a table: its topic, how far it is published, and its last records."""

from __future__ import annotations

from typing import Any, Final

from lakelog.errors import LakelogError, NotFound
from lakelog.pictures.path import draw_path, load_path

from ...page import Column, Listing, Page, PageRequest
from ..opened import open_table, table_page
from ..pictures import draw
from ..rows import to_rows
from .last_records import read_last_records

_PARTITIONS: Final = (
    Column("partition", "Partition", "count"),
    Column("offset", "Next offset", "count", "after what is published as a whole"),
)
_OF_ALL: Final = (
    "topic",
    "generation",
    "starts_after",
    "published_snapshot",
    "latest_snapshot",
    "pending_snapshots",
    "pending_rows",
    "behind_ms",
    "reported_at",
    "holder",
    "problem",
)


def log(request: PageRequest) -> Page:
    """The log of a table, or how a table gets one."""
    opened = open_table(request)
    table = opened.table
    rows = to_rows(table.system_table("log").to_arrow())
    is_asked = "records" in request.query
    parts: dict[str, Any] = {}
    problem = ""
    if rows:
        parts["facts"] = {key: rows[0][key] for key in _OF_ALL}
        parts["partitions"] = Listing(
            "partitions", "Positions", _PARTITIONS, [{key: row[key] for key in ("partition", "offset")} for row in rows]
        )
        if is_asked:
            try:
                parts["records"] = read_last_records(request.catalog, table)
            except NotFound as error:
                if error.reason == "TABLE_NOT_FOUND":
                    raise
                problem = error.message
            except LakelogError as error:
                problem = error.message
    picture = draw(lambda: load_path(table), draw_path)
    return table_page(
        opened, "log", "log.html", parts, is_live=not is_asked, picture=picture, problem=problem, is_asked=is_asked
    )
