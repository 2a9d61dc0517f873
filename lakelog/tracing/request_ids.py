"""The id of a request: all calls of one operation have it, and so have the errors and lines of logs about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lakelog.clock import RandomIds
from lakelog.errors import InvalidArgument

FORM: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
"""What an id looks like; servers ignore others."""

current: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the present operation, or of the call that a server answers; empty: none."""


@contextmanager
def request_id(given: str = "") -> Iterator[str]:
    """Gives all calls in a `with` block one id, by which logs of services and errors can be found.

    For instance `with lakelog.request_id("nightly-2026-11-27"): orders.append(rows)`.

    Args:
        given: 1 to 64 of `A-Z a-z 0-9 _ . : -`; empty: the id of an outer block or, if there is none, a new one.

    Yields:
        The id.

    Raises:
        InvalidArgument: It is no such text.
    """
    if given and not FORM.fullmatch(given):
        raise InvalidArgument(
            f"{given!r:.80} is no id of a request: give 1 to 64 of A-Z a-z 0-9 _ . : -", metadata={"field": "given"}
        )
    token = current.set(given or current_or_new())
    try:
        yield current.get()
    finally:
        current.reset(token)


def current_or_new() -> str:
    """The id of the present operation; a new one if there is none."""
    return current.get() or RandomIds().new_id()
