"""The caller of the call that is being served, which servicers pass to the use cases, and the check of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from lakelog.serving.access import Caller, Role

from ..ownership import EVERYONE, Principal
from ..store.grants import Readable

_principal: Final[ContextVar[Principal]] = ContextVar("principal")
"""Without a default: a call that the interceptor did not admit fails, and has no effect."""

caller_lost: Final[ContextVar[asyncio.Event]] = ContextVar("caller_lost")
"""Set when the caller of the present stream is recognized no more."""

ShowError: TypeAlias = Callable[[Exception], Awaitable[Exception]]
"""What the caller may see of an error."""

CheckMessage: TypeAlias = Callable[[Any], Awaitable[ShowError]]
"""Raises PermissionDenied if the caller may not do what a message says; returns what it may see of its error."""

_check: Final[ContextVar[CheckMessage]] = ContextVar("check")
"""Without a default, as above."""


Recheck: TypeAlias = Callable[[], Awaitable[None]]
"""Raises PermissionDenied if the caller has lost the right to the present call."""

_recheck: Final[ContextVar[Recheck]] = ContextVar("recheck")
"""Without a default, as above."""


_readable: Final[ContextVar[Readable | None]] = ContextVar("readable")
"""Without a default, as above."""


_caller: Final[ContextVar[Caller]] = ContextVar("caller")
"""Without a default, as above."""


def admit(caller: Caller, *, identified: bool) -> None:
    """Notes the caller of the present call.

    Args:
        caller: As the server recognized it.
        identified: Whether the server identifies callers at all.
    """
    _caller.set(caller)
    _principal.set(Principal(caller.name, caller.role >= Role.ADMIN) if identified else EVERYONE)


def principal() -> Principal:
    """The caller of the present call."""
    return _principal.get()


def calling() -> Caller:
    """The caller of the present call, as the server recognized it."""
    return _caller.get()


def note_check(check: CheckMessage) -> None:
    """Notes how each message of the present call, which takes a stream of them, is checked."""
    _check.set(check)


def note_recheck(check: Recheck) -> None:
    """Notes how a call that waits checks again whether its caller still has the right."""
    _recheck.set(check)


def recheck() -> Recheck:
    """The check of the right to the present call, for one that waits."""
    return _recheck.get()


def note_readable(found: Readable | None) -> None:
    """Notes which tables the caller of the present call may read; None: all."""
    _readable.set(found)


def readable() -> Readable | None:
    """The tables that the caller of the present call may read; None: all."""
    return _readable.get()


def message_check() -> CheckMessage:
    """The check of each message of the present call."""
    return _check.get()
