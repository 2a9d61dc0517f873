"""When a step beside the requests runs next: at once when it is notified, and at the latest when its time has come."""

from __future__ import annotations

import asyncio
import contextlib

from lakelog.clock import Clock


class Alarm:
    """Wakes one waiting step; due at first. Runs on one event loop.

    Args:
        clock: For the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_notified = asyncio.Event()
        self._due_s = clock.monotonic_s()

    @property
    def is_notified(self) -> bool:
        """Whether it was notified since it was set."""
        return self._is_notified.is_set()

    @property
    def is_due(self) -> bool:
        """Whether there is a reason to run the step now."""
        return self.is_notified or self._left_s <= 0

    def notify(self) -> None:
        """Makes it due."""
        self._is_notified.set()

    def set(self, within_s: float) -> None:
        """Lets it rest from now on, for so long at most; called before the step, to lose no notice."""
        self._is_notified.clear()
        self._due_s = self._clock.monotonic_s() + within_s

    async def wait(self) -> None:
        """Returns once it is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._left_s, 0.0)):
                await self._is_notified.wait()

    @property
    def _left_s(self) -> float:
        return self._due_s - self._clock.monotonic_s()
