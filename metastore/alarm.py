"""When a step beside the requests runs next: at once when it is told to, and at the latest when its time has come."""

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
        self._is_told = asyncio.Event()
        self._due_s = clock.monotonic_s()

    @property
    def is_told(self) -> bool:
        """Whether it was told since it was set."""
        return self._is_told.is_set()

    @property
    def is_due(self) -> bool:
        """Whether there is a reason to run the step now."""
        return self.is_told or self._left_s <= 0

    def tell(self) -> None:
        """Makes it due."""
        self._is_told.set()

    def set(self, within_s: float) -> None:
        """Lets it rest from now on, for so long at most. Before the step: what is told meanwhile is a new reason."""
        self._is_told.clear()
        self._due_s = self._clock.monotonic_s() + within_s

    async def wait(self) -> None:
        """Returns once it is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._left_s, 0.0)):
                await self._is_told.wait()

    @property
    def _left_s(self) -> float:
        return self._due_s - self._clock.monotonic_s()
