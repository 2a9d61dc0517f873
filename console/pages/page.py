"""What a page is: a title, a template, and its parts, which are also its JSON.

A part is a `Listing`, facts by name, or a text. Templates show parts; `?as=json` returns them all, `?as=json&part=NAME`
one of them, and `?as=csv&part=NAME` the rows of a listing.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

from lakelog.clock import Clock
from lakelog.sdk.catalog import Catalog

Kind: TypeAlias = Literal[
    "text",
    "code",
    "ids",
    "prose",
    "number",
    "count",
    "change",
    "bytes",
    "growth",
    "time",
    "age",
    "state",
    "flag",
    "json",
]
"""How a value is shown. `ids` is code whose long ids are cut, `prose` has code between accents; `change` is a number,
and `growth` bytes, with its sign. `time` and `age` are milliseconds, since 1970 and of a span; `state` gets a badge."""

PAGE_ROWS: Final = 100
"""Rows of a listing on one page."""


FORM_TOKEN: Final = "form_token"
"""The field of a form that tells a second click on its button from another form."""


@dataclass(frozen=True)
class Column:
    """A column of a listing.

    Args:
        key: The row's key, also in JSON.
        title: What people read.
        kind: How values are shown.
        hint: What it means, if the title does not say it.
    """

    key: str
    title: str
    kind: Kind = "text"
    hint: str = ""


@dataclass(frozen=True)
class Listing:
    """A table of a page.

    Args:
        name: The part's name in JSON and in the fragment of its address.
        title: Its heading.
        columns: What is shown, the most important first.
        rows: Values that JSON knows, by key; `_links` may have addresses by key.
        empty: The sentence in place of a table without rows.
        next_query: The query of the page with the rows after these; None: there are none.
        note: A sentence about the rows, for instance that some were left out.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    empty: str = "There are none."
    next_query: str | None = None
    note: str = ""


@dataclass(frozen=True)
class PageRequest:
    """What a page gets.

    Args:
        catalog: The caller's.
        path: The parts of the address that the route names.
        query: The parameters of the address.
        clock: Gives the time.
        settings: What pages have to know of the service.
        form: The fields of a form that was sent.
        left: Set when no one waits for the page any more; pages that take long look at it.
    """

    catalog: Catalog
    path: Mapping[str, str]
    query: Mapping[str, str]
    clock: Clock
    settings: PageSettings
    form: Mapping[str, str] = field(default_factory=dict)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.clock.now_ms()

    def with_query(self, **changes: str | int | None) -> str:
        """The query of this address with other values; None takes one out."""
        merged: dict[str, Any] = {**self.query, **changes}
        return urlencode(
            {key: value for key, value in merged.items() if value is not None and key not in ("as", "part")}
        )


@dataclass(frozen=True)
class PageSettings:
    """What pages have to know of the service.

    Args:
        target: The metastore's address.
        actions: Whether actions are offered.
        max_query_rows: Rows that the query page shows.
        query_seconds: How long a query may take.
    """

    target: str
    actions: bool
    max_query_rows: int
    query_seconds: float


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Args:
        template: The file in `templates/`.
        title: Its heading, and the title of the window.
        parts: What it shows, by name; the JSON of the page.
        crumbs: The way to it: titles and addresses.
        area: The entry of the navigation that it belongs to.
        extra: What only the template needs.
        watch: A part of a query that an open page adds when it updates itself: it names what the page shows, so that
            the page can say that another thing has its name by then.
        is_live: Whether an open page updates itself, if its route allows that.
        status: The status of the answer.
    """

    template: str
    title: str
    parts: Mapping[str, Any]
    crumbs: Sequence[tuple[str, str]] = ()
    area: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    watch: str = ""
    is_live: bool = True
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True)
class Redirect:
    """Another page follows, with a sentence about what was done.

    Args:
        address: Its address.
        message: The sentence; empty: none.
    """

    address: str
    message: str = ""


def table_address(name: str, page: str = "") -> str:
    """The address of a table's page. Pure.

    Args:
        name: `database.table`.
        page: One of its pages, as `files`; empty: the first one.
    """
    database, _, table = name.partition(".")
    return f"/tables/{quote(database, safe='')}/{quote(table, safe='')}" + (f"/{page}" if page else "")


def to_ms(value: datetime.datetime | None) -> int | None:
    """Milliseconds since 1970 of a time in a system table. Pure."""
    return None if value is None else round(value.timestamp() * 1000)
