"""Time and identity, injected: no other code of lakelog takes them from the operating system."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from typing import Protocol


def show_time(time_ms: int) -> str:
    """A time in milliseconds since the epoch for messages: `2013-01-01T00:00:00.000Z (1356998400000)`. Pure.

    Only the number if the year is not between 1 and 9999.
    """
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} (milliseconds since 1970)"
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z ({time_ms})"


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Blocks for so many seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Blocks for so many seconds."""
        time.sleep(seconds)


class ForwardClock:
    """A clock whose wall-clock time never goes back, for ages that must not seem too young.

    It follows steps forward, and ignores steps back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anchor_ms = clock.now_ms() - clock.monotonic_s() * 1000

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch, or what it would be without the steps back."""
        self._anchor_ms = max(self._anchor_ms, self._clock.now_ms() - self._clock.monotonic_s() * 1000)
        return int(self._anchor_ms + self._clock.monotonic_s() * 1000)


class Ids(Protocol):
    """A source of new identities."""

    def new_id(self) -> str:
        """A new identity: 32 lower-case hexadecimal digits, unique in the world."""
        ...


class RandomIds:
    """Identities from the operating system's random numbers (UUID version 4)."""

    def new_id(self) -> str:
        """A new identity: 32 lower-case hexadecimal digits, unique in the world."""
        return uuid.uuid4().hex
