"""Which actions a page offers: those that the console allows and the caller may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from lakelog.format.tables.table import TableInfo

from ..page import PageRequest, table_address
from ..rights import may_write

_OF_TABLES: Final = (
    ("compact", "Compact …"),
    ("tag", "Tag a snapshot …"),
    ("roll-back", "Roll back …"),
    ("expire", "Expire snapshots …"),
)


@dataclass(frozen=True)
class Offer:
    """A link to the page of an action."""

    title: str
    address: str


def offer_on_table(request: PageRequest, info: TableInfo) -> tuple[Offer, ...]:
    """The actions on a table; none if the console only shows, or the caller may not write there."""
    if not is_offered(request, info):
        return ()
    return tuple(Offer(title, action_address(info, action)) for action, title in _OF_TABLES)


def is_offered(request: PageRequest, info: TableInfo) -> bool:
    """Whether actions on a table are offered to the caller."""
    return request.settings.actions and may_write(request.catalog, info.table_uuid)


def action_address(info: TableInfo, action: str, **values: str | int) -> str:
    """The address of an action's page, with values for its form. Pure."""
    query: Mapping[str, str | int] = values
    return table_address(str(info.name), f"act/{action}") + (f"?{urlencode(query)}" if query else "")
