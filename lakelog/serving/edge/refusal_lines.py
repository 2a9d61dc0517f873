"""Bounds how many log lines refused calls write: a caller without a token could fill the disk with them.

Objectives, which conflict: the log says who was refused, when and why, so that an administrator finds an attacker; and
refused calls cost nothing that grows with their number. So the first refusals of each caller have lines, and some a
second of all others. Of the rest the log has the numbers: a line a second, with the callers that had most of them.

Invariants:

1. For each reason, in any time t, at most `burst + t * rate` refusals have a line, and as many again that are the first
   ones of a caller, of all reasons together.
2. Each refusal has a line or is counted in one, which comes within a second.
3. The memory is bounded, however many callers and addresses there are.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from lakelog.serving.logging_setup import Logger

LINES_A_SECOND: Final = 5.0
"""For each reason. With the burst this is more than people read, and 200 MB a day at most."""

BURST: Final = 100.0
"""Lines that may come at once, after a time without refusals."""

BURST_OF_FIRSTS: Final = 500.0

FIRST_LINES: Final = 3
"""So many refusals of a caller for one reason are its first ones."""

FIRST_AGAIN_S: Final = 600.0
"""After this time the next refusals of a caller are first ones again: an old attack does not hide a new one."""

REPORT_EVERY_S: Final = 1.0

_MOST_CALLERS: Final = 5000
_MOST_COUNTED: Final = 1000
_MOST_SHOWN: Final = 5


class _Bucket:
    """Tokens that come back at a rate."""

    def __init__(self, burst: float, now_s: float) -> None:
        self._burst = burst
        self._tokens = burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Takes a token, if there is one."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * LINES_A_SECOND)
        self._at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class RefusalLines:
    """Decides which refusals of a process have a line of their own, and logs the numbers of the others.

    Runs on one event loop.

    Args:
        log: Where the numbers go.
        now_s: A monotonic clock.
        call_later: Calls a function after some seconds; by default the running event loop does.
    """

    def __init__(
        self,
        log: Logger,
        now_s: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._log = log
        self._now_s = now_s
        self._call_later = call_later
        self._buckets: dict[str, _Bucket] = {}
        self._firsts = _Bucket(BURST_OF_FIRSTS, now_s())
        # By reason and caller: how many lines since when. The one that had a line last is the last one.
        self._lines: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        self._left_out: Counter[str] = Counter()
        self._left_out_of: Counter[str] = Counter()
        self._is_due = False

    def admit(self, reason: str, caller: str) -> bool:
        """Whether a refusal has a line of its own. If not, it is counted.

        Args:
            reason: Why the call is refused: one of a few names, not a text of the caller.
            caller: The name of the caller or, if it is not known, its address.
        """
        now_s = self._now_s()
        lines, since_s = self._lines.get((reason, caller), (0, now_s))
        if now_s - since_s >= FIRST_AGAIN_S:
            lines, since_s = 0, now_s
        bucket = self._buckets.get(reason)
        if bucket is None:
            bucket = self._buckets[reason] = _Bucket(BURST, now_s)
        if bucket.take(now_s) or (lines < FIRST_LINES and self._firsts.take(now_s)):
            self._note((reason, caller), lines + 1, since_s)
            return True
        self._left_out[reason] += 1
        if caller in self._left_out_of or len(self._left_out_of) < _MOST_COUNTED:
            self._left_out_of[caller] += 1
        if not self._is_due:
            self._is_due = True
            (self._call_later or asyncio.get_running_loop().call_later)(REPORT_EVERY_S, self.report)
        return False

    def report(self) -> None:
        """Logs the numbers since the last time, if there are any; also to be called at the end of the process."""
        self._is_due = False
        if not self._left_out:
            return
        left_out, of = self._left_out, self._left_out_of
        self._left_out, self._left_out_of = Counter(), Counter()
        shown = dict(of.most_common(_MOST_SHOWN))
        self._log.warning(
            "refusals without a line",
            count=left_out.total(),
            reasons=dict(left_out),
            callers=shown,
            of_other_callers=left_out.total() - sum(shown.values()),
        )

    def _note(self, key: tuple[str, str], lines: int, since_s: float) -> None:
        self._lines[key] = (lines, since_s)
        self._lines.move_to_end(key)
        if len(self._lines) > _MOST_CALLERS:
            self._lines.popitem(last=False)


def to_address(peer: str) -> str:
    """The address of a connection, without the port, which each new connection changes. Pure.

    Of IPv6 it is the network of 64 bits, because one machine can have all addresses of it.

    Args:
        peer: As gRPC writes it: `ipv4:10.0.0.7:50712`, `ipv6:%5B2001:db8::1%5D:50712`, `unix:...`.
    """
    kind, _, rest = peer.partition(":")
    host = unquote(rest.rpartition(":")[0]).strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return peer if kind not in ("ipv4", "ipv6") else host or peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
