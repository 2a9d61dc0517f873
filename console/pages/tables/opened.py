"""The table of a page, and what all pages of a table have: the way to them, tabs, and which table it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from lakelog.format.tables.table import TableInfo
from lakelog.sdk.tables.table import Table

from ..page import Page, PageRequest, table_address

_TABS: Final = (
    ("", "Table"),
    ("history", "Schema history"),
    ("snapshots", "Snapshots"),
    ("files", "Files"),
    ("log", "Log"),
    ("streams", "Streams"),
    ("jobs", "Jobs"),
)

UUID: Final = "of"
"""The parameter with the table that a page showed before: another table can have its name by now."""


@dataclass(frozen=True)
class Opened:
    """The table of a page.

    Args:
        table: The table that has the name now.
        earlier_uuid: The table that the page showed before, if it is another one; else empty.
    """

    table: Table
    earlier_uuid: str = ""


def open_table(request: PageRequest) -> Opened:
    """The table that the address names.

    Raises:
        NotFound: There is none, or the caller may not see it.
        InvalidArgument: No table can have this name.
    """
    table = request.catalog.table(f"{request.path['database']}.{request.path['table']}")
    earlier = request.query.get(UUID, "")
    return Opened(table, earlier if earlier != table.uuid else "")


def load_state(request: PageRequest) -> TableInfo:
    """The table as it is now: it changes with each commit, and with each change of its columns and options.

    Raises:
        NotFound, InvalidArgument: As of `open_table`.
    """
    return open_table(request).table.info


def table_page(
    opened: Opened,
    tab: str,
    template: str,
    parts: Mapping[str, Any],
    *,
    title: str = "",
    is_live: bool = True,
    **extra: Any,
) -> Page:
    """A page of a table.

    Args:
        opened: The table.
        tab: The tab that it belongs to.
        template: The file in `templates/tables/`.
        parts: What it shows.
        title: What comes after the table's name in the title; empty: the title of the tab.
        is_live: Whether an open page updates itself.
        **extra: What only the template needs.
    """
    table = opened.table
    database = table.name.partition(".")[0]
    what = title or ("" if not tab else dict(_TABS)[tab])
    crumbs = [("Tables", "/tables"), (database, f"/tables/{database}")]
    if tab:
        crumbs.append((table.name, table_address(table.name)))
    tabs = [(name or "table", text, table_address(table.name, name)) for name, text in _TABS]
    tabs.append(("grants", "Grants", f"/grants?{urlencode({'scope': table.name})}"))
    return Page(
        f"tables/{template}",
        f"{table.name}: {what[:1].lower()}{what[1:]}" if what else table.name,
        parts,
        crumbs,
        "tables",
        {"table": table, "tabs": tabs, "tab": tab or "table", "earlier_uuid": opened.earlier_uuid, **extra},
        watch=f"{UUID}={table.uuid}",
        is_live=is_live,
    )
