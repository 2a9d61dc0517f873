"""Streams stay open for as long as their callers are recognized: tokens expire, and tokens and roles are taken away.

A call is decided once. A stream can stay open for months, so a stolen token would be of use for as long. Therefore each
caller of a stream is recognized again when its token ends, and whenever the ways in have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import PermissionDenied, Unavailable
from lakelog.serving.access import Caller

CALLER_LOST: Final = "CALLER_LOST"
"""The reason of the end of a stream whose caller is recognized no more."""

_CHECKED_AT_ONCE: Final = 20
"""Five milliseconds, if all of them are signed."""

_LONGEST_TIMER_S: Final = 3600.0
"""Timers follow the monotonic clock and tokens the wall clock, so that a long timer would miss a step of the latter."""


class _Stream:
    """An open stream, with what recognizes its caller again."""

    def __init__(self, caller: Caller, recognize: Callable[[], Caller]) -> None:
        self.caller = caller
        self.recognize = recognize
        self.until_s = caller.until_s
        self.lost = asyncio.Event()


class KnownCallers:
    """The callers of open streams. Runs on one event loop.

    Args:
        clock: Gives the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: set[_Stream] = set()
        self._rechecking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def keep(self, caller: Caller, recognize: Callable[[], Caller]) -> Iterator[asyncio.Event]:
        """While a stream is open; the event is set when its caller is recognized no more, or has a lower role.

        Args:
            caller: Who was recognized.
            recognize: Does that again, from the headers of the call, or raises PermissionDenied.
        """
        stream = _Stream(caller, recognize)
        timers: list[asyncio.TimerHandle] = []

        def rearm() -> None:
            if stream.until_s is None or stream.lost.is_set():
                return
            left_s = stream.until_s - self._clock.now_ms() / 1000
            timers[:] = [asyncio.get_running_loop().call_later(min(max(left_s, 0.01), _LONGEST_TIMER_S), expire)]

        def expire() -> None:
            _check(stream)
            rearm()

        self._streams.add(stream)
        # The caller may have been lost between the start of its call and now, and no change after this is missed.
        _check(stream)
        rearm()
        try:
            yield stream.lost
        finally:
            self._streams.discard(stream)
            for timer in timers:
                timer.cancel()

    def recheck(self) -> None:
        """Begins to recognize all callers again; call it when the ways in have changed."""
        if self._rechecking is not None:
            self._rechecking.cancel()
        self._rechecking = asyncio.get_running_loop().create_task(self._recheck(), name="callers of streams")

    async def _recheck(self) -> None:
        # After a change of keys each token is verified again: thousands at once would delay every call.
        for number, stream in enumerate(list(self._streams)):
            if number % _CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if stream in self._streams:
                _check(stream)


def caller_lost() -> Unavailable:
    """The error that ends a stream. Its client opens it again with its present token; a refusal then says why."""
    return Unavailable(
        "The caller of this stream is recognized no more: its token has expired, or was revoked, or has a lower role "
        "now. Open it again with the present token.",
        reason=CALLER_LOST,
    )


def _check(stream: _Stream) -> None:
    try:
        found = stream.recognize()
    except PermissionDenied:
        stream.lost.set()
        return
    stream.until_s = found.until_s
    if found.name != stream.caller.name or found.role < stream.caller.role:
        stream.lost.set()
