"""A clock that a test moves."""

from __future__ import annotations

from lakelog.clock import SystemClock


class MovedClock(SystemClock):
    """Time that also passes when it is told to."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s
