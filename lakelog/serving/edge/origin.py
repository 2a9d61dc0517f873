"""On whose behalf something is done: known where a call arrives, used where callers share what there is little of."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

origin: Final[ContextVar[str]] = ContextVar("origin", default="")
"""The caller or, where callers are not told apart, the connection of the call that is being served; empty: the service
itself. Tasks inherit it from who starts them."""

COMMITS: Final = "commits"
"""The origin of what commits of several callers have in common."""
