"""Pages as HTML and JSON."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import lakelog
from lakelog.cli.output.text import clean_text, format_age, format_bytes, format_count, format_time, plural
from lakelog.errors import NotFound
from lakelog.pictures.svg.style import STYLE

from ..pages.page import Listing, Page

_ROOT: Final = Path(__file__).parents[1]
STATIC: Final = _ROOT / "static"

LONGEST_CELL: Final = 400
"""Characters of a value in a table; the JSON has all of them."""

LONGEST_PROSE: Final = 2000
"""Characters of a description that the project itself has written."""

_LONG_ID: Final = re.compile(r"([0-9a-f]{8})[0-9a-f]{24}")

AREAS: Final = (
    ("overview", "/", "Overview", "o"),
    ("tables", "/tables", "Tables", "t"),
    ("streams", "/streams", "Streams and logs", "s"),
    ("pipelines", "/pipelines", "Pipelines", "p"),
    ("jobs", "/jobs", "Jobs", "j"),
    ("grants", "/grants", "Grants", "g"),
    ("query", "/query", "Query", "q"),
    ("settings", "/settings", "Health and settings", "h"),
)
"""The navigation: name, address, title, and the key that follows `g` on a keyboard."""

_GOOD: Final = frozenset({"running", "done", "present", "serving", "ok", "published", "leased", "read", "served"})
_BAD: Final = frozenset({"failed", "gone", "error", "critical", "not serving", "unreachable", "abandoned", "lost"})
_WARN: Final = frozenset(
    {
        "silent",
        "resting",
        "warning",
        "starting",
        "draining",
        "waiting",
        "late",
        "expired",
        "stopped",
        "given back",
        "too many",
    }
)


class Rendering:
    """Makes HTML of pages.

    Args:
        is_read_only: Whether no page offers an action.
    """

    def __init__(self, *, is_read_only: bool) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_ROOT / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            show=show,
            badge=_badge,
            age=lambda value: "" if value is None else format_age(value),
            bytes=format_bytes,
            count=format_count,
            time=format_time,
            plural=plural,
            shorten=shorten,
            clean=clean_text,
            clean_lines=lambda text: "\n".join(clean_text(line) for line in text.split("\n")),
        )
        self._environment.tests["listing"] = lambda value: isinstance(value, Listing)
        self._environment.globals.update(
            areas=AREAS, version=lakelog.__version__, is_read_only=is_read_only, static=_static_address
        )

    def html(
        self, page: Page, *, caller: bool, message: str, address: str, is_live: bool, caller_name: str = ""
    ) -> str:
        """A page as HTML.

        Args:
            page: The page.
            caller: Whether somebody is signed in.
            message: A sentence about what was done before; empty: none.
            address: Path and query, for its JSON and its live updates.
            is_live: Whether it updates itself.
            caller_name: Who the caller is; empty: it is not known.
        """
        return self._environment.get_template(page.template).render(
            page=page,
            **page.parts,
            **page.extra,
            caller=caller,
            caller_name=caller_name,
            message=message,
            address=address,
            is_live=is_live,
        )

    def again(self, address: str) -> str:
        """A page that leads a browser to an address of this console from the console itself."""
        return self._environment.get_template("again.html").render(address=address)


def to_json(page: Page, part: str | None) -> bytes:
    """The parts of a page as JSON, or the rows or facts of one.

    Raises:
        NotFound: The page has no such part.
    """
    if part is not None:
        if part not in page.parts:
            raise NotFound(f"This page has no part {part[:100]!r}; it has {', '.join(page.parts)}.")
        found: Any = _plain(page.parts[part])
    else:
        found = {name: _plain(value) for name, value in page.parts.items()}
    return json.dumps(found, ensure_ascii=False, indent=2, default=str).encode()


def to_csv(page: Page, part: str | None) -> bytes:
    """The rows of a listing as CSV, with its columns' keys as the first line; values as they are in JSON.

    Raises:
        NotFound: The page has no such listing.
    """
    found = page.parts.get(part or "")
    if not isinstance(found, Listing):
        listings = ", ".join(name for name, each in page.parts.items() if isinstance(each, Listing)) or "none"
        raise NotFound(f"This page has no listing {(part or '')[:100]!r}; it has {listings}.")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.key for column in found.columns])
    writer.writerows([_to_cell(row.get(column.key)) for column in found.columns] for row in found.rows)
    return text.getvalue().encode()


def _to_cell(value: Any) -> Any:
    """NULL is an empty cell, and what has parts is JSON."""
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(_plain(value), ensure_ascii=False, default=str)
    return value


def show(value: Any, kind: str) -> str | Markup:
    """A value as HTML; whatever it is, what it contains is text."""
    if value is None:
        return Markup('<span class="none" title="NULL">–</span>')
    match kind:
        case "count":
            return format_count(int(value))
        case "change":
            return f"{int(value):+,}".replace("-", "−") if value else "none"
        case "bytes":
            return _tag("span", format_bytes(int(value)), title=f"{int(value):,} bytes")
        case "growth":
            sign, size = "+" if int(value) >= 0 else "−", abs(int(value))
            return _tag("span", f"{sign}{format_bytes(size)}", title=f"{sign}{size:,} bytes")
        case "time":
            text = format_time(int(value))
            return _tag("time", text.replace("T", " ")[:19], datetime=text, title=text)
        case "age":
            return format_age(int(value))
        case "flag":
            return "yes" if value else "no"
        case "state":
            return _badge(str(value))
        case "code":
            return _tag("code", shorten(str(value)))
        case "ids":
            text = shorten(str(value))
            return _tag("code", _LONG_ID.sub(r"\1…", text), title=text)
        case "prose":
            # What stands between two accents is code.
            parts = shorten(str(value), LONGEST_PROSE).split("`")
            return Markup("").join(_tag("code", part) if n % 2 else part for n, part in enumerate(parts))
        case "json":
            return _tag("code", shorten(json.dumps(_plain(value), ensure_ascii=False, default=str)))
    return shorten(str(value))


def shorten(text: str, longest: int = LONGEST_CELL) -> str:
    """A text without control characters, cut in the middle if it is long."""
    cleaned = clean_text(text[: 2 * longest])
    return cleaned if len(cleaned) <= longest else f"{cleaned[: longest - 20]} … ({len(text):,} characters)"


def _badge(state: str) -> Markup:
    word = state.lower()
    kind = "good" if word in _GOOD else "bad" if word in _BAD else "warn" if word in _WARN else "plain"
    # A shape beside the colour: not everyone sees colours.
    shape = {"good": "●", "bad": "✕", "warn": "▲", "plain": "○"}[kind]
    return Markup(f'<span class="badge {kind}"><span aria-hidden="true">{shape}</span> {escape(shorten(state))}</span>')


def _tag(name: str, text: str, **attributes: str) -> Markup:
    """An element with a text. `Markup.format` would take half of the time of a page."""
    words = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{words}>{escape(text)}</{name}>")


def _plain(value: Any) -> Any:
    if isinstance(value, Listing):
        return [{key: _plain(each) for key, each in row.items() if key != "_links"} for row in value.rows]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


_digests: dict[str, str] = {}


def read_static(name: str) -> bytes | None:
    """A file that pages use; None: there is none. The style sheet of pictures is a constant of theirs."""
    if name == "pictures.css":
        return STYLE.encode()
    file = STATIC / name
    return file.read_bytes() if file.parent == STATIC and file.is_file() else None


def _static_address(name: str) -> str:
    """The address of a file; it changes with the file, so that browsers may keep it."""
    if name not in _digests:
        content = read_static(name)
        assert content is not None, f"there is no file {name}"
        _digests[name] = hashlib.sha256(content).hexdigest()[:12]
    return f"/static/{name}?{_digests[name]}"
