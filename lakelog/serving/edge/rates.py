"""Bounds how many calls a second each caller can make: a token bucket for each caller.

`shares` bounds the calls that are open at once. That does not bound a client that gives up each call right after
sending it and makes the next one: few of its calls are open, and all of them cost work.

Objectives, which conflict: a caller may send a burst; a caller above its rate costs others little; a caller that is
refused and waits is soon served. So a bucket holds some seconds of the rate, and a refused call takes a part of a
token. A caller that waits after a refusal gets its full rate. One that goes on at a multiple of its rate gets little.

Invariants:

1. In any time t a caller is allowed at most `burst + t * rate` calls.
2. A bucket never owes more than half a second of its rate, so a caller that stops is served again after that time.
3. A bucket that is full again takes no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.client.connection.status import TOO_MANY_CALLS
from lakelog.errors import Unavailable

_BURST_S: Final = 2.0
"""A bucket holds as many tokens as come in this time: a client that starts asks for much at once."""

_REFUSED_COSTS: Final = 0.5
"""Tokens that a refused call takes: it costs less than one that is answered, but it is not free."""

_LONGEST_DEBT_S: Final = 0.5

_SWEEP: Final = 1000
"""Full buckets are removed when there are this many buckets, and at each doubling."""


@dataclass
class _Bucket:
    tokens: float
    at_s: float


class CallRates:
    """The buckets of all callers, for one kind of calls. Runs on one event loop.

    Args:
        kind: The kind of calls, in the plural, for messages.
        setting: The command-line argument that raises the rate, for messages.
        rate: Calls a second of one caller.
        now_s: A monotonic clock.
    """

    def __init__(self, kind: str, setting: str, rate: float, now_s: Callable[[], float]) -> None:
        self._kind = kind
        self._setting = setting
        self._rate = rate
        self._burst = max(1.0, rate * _BURST_S)
        self._now_s = now_s
        self._buckets: dict[str, _Bucket] = {}
        self._sweep_at = _SWEEP

    @property
    def count(self) -> int:
        """How many buckets take memory."""
        return len(self._buckets)

    def take(self, caller: str) -> None:
        """Takes a token of a caller.

        Args:
            caller: The caller's name or, if the server does not identify callers, its connection.

        Raises:
            Unavailable: There is none; the message names the limit and the remedy.
        """
        now_s = self._now_s()
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._sweep(now_s)
            bucket = self._buckets[caller] = _Bucket(self._burst, now_s)
        else:
            bucket.tokens = min(self._burst, bucket.tokens + (now_s - bucket.at_s) * self._rate)
            bucket.at_s = now_s
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return
        bucket.tokens = max(bucket.tokens - _REFUSED_COSTS, -self._rate * _LONGEST_DEBT_S)
        wait_ms = math.ceil((1 - bucket.tokens) / self._rate * 1000)
        raise Unavailable(
            f"{caller} makes more than {self._rate:g} {self._kind} a second, which is the limit of one caller. Nothing "
            f"was done: try again after {wait_ms} ms, make fewer calls, or raise {self._setting}.",
            reason=TOO_MANY_CALLS,
            metadata={"limit": f"{self._rate:g}", "kind_of_call": f"{self._kind} a second", "wait_ms": str(wait_ms)},
        )

    def _sweep(self, now_s: float) -> None:
        if len(self._buckets) < self._sweep_at:
            return
        full = [
            caller
            for caller, bucket in self._buckets.items()
            if bucket.tokens + (now_s - bucket.at_s) * self._rate >= self._burst
        ]
        for caller in full:
            del self._buckets[caller]
        self._sweep_at = max(_SWEEP, 2 * len(self._buckets))
