"""Bounds how many wrong signed tokens of one address are verified: each costs the event loop up to some milliseconds.

A caller without a name has no rate of calls, so a flood of wrong tokens would delay the calls of all others. A token
that was verified before is not concerned, whatever its address sends.

Invariants:

1. In any time t at most `BURST + t * RATE` failed checks of one address are made.
2. The memory is bounded, however many addresses there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from lakelog.client.connection.status import TOO_MANY_CALLS
from lakelog.errors import Unavailable

RATE: Final = 50.0
"""Failed checks a second of one address: a tenth of the time of the event loop, with usual keys."""

BURST: Final = 100.0

MOST_ADDRESSES: Final = 10_000
"""Addresses with failures that are remembered; of more, the one that failed longest ago is forgotten."""


class FailedChecks:
    """The failures of each address. Runs on one event loop.

    Args:
        now_s: A clock. A step back of it lets no one in; tokens come again from then on.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        # How many more may fail, and when that was so.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def count(self) -> int:
        """How many addresses take memory."""
        return len(self._left)

    def check(self, address: str) -> None:
        """Whether a token of an address may be verified.

        Raises:
            Unavailable: Too many have failed.
        """
        if address in self._left and self._left_of(address) < 1:
            raise Unavailable(
                f"{address} sends more than {RATE:g} wrong signed tokens a second, so this one was not checked. "
                "Nothing was done; try again in a second. An operator finds in the log who sends them.",
                reason=TOO_MANY_CALLS,
                metadata={"limit": f"{RATE:g}", "kind_of_call": "wrong tokens a second", "wait_ms": "1000"},
            )

    def note(self, address: str) -> None:
        """A token of an address was wrong."""
        self._left[address] = (self._left_of(address) - 1, self._now_s())
        self._left.move_to_end(address)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)

    def _left_of(self, address: str) -> float:
        now_s = self._now_s()
        left, at_s = self._left.get(address, (BURST, now_s))
        return min(BURST, left + max(0.0, now_s - at_s) * RATE)
