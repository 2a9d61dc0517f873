"""The caller for which work is done: set where a call arrives, used where callers share something scarce."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

origin: Final[ContextVar[str]] = ContextVar("origin", default="")
"""The caller of the call that is being served or, if callers are not identified, its connection; empty: the service
itself. Tasks inherit it from the task that starts them."""

COMMITS: Final = "commits"
"""The origin of work for commits of several callers together."""
