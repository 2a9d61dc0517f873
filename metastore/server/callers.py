"""The caller of the call that is being served, which servicers pass to the use cases."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

from lakelog.serving.access import Caller, Role

from ..ownership import EVERYONE, Principal

_principal: Final[ContextVar[Principal]] = ContextVar("principal")
"""Without a default: a call that the interceptor did not admit fails, and has no effect."""

caller_lost: Final[ContextVar[asyncio.Event]] = ContextVar("caller_lost")
"""Set when the caller of the present stream is recognized no more."""


def admit(caller: Caller, *, identified: bool) -> None:
    """Notes the caller of the present call.

    Args:
        caller: As the server recognized it.
        identified: Whether the server identifies callers at all.
    """
    _principal.set(Principal(caller.name, caller.role >= Role.ADMIN) if identified else EVERYONE)


def principal() -> Principal:
    """The caller of the present call."""
    return _principal.get()
