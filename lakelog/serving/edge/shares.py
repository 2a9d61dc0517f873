"""Bounds the calls that are open: in all, of one caller, and over one connection, with a reserve for commits.

Objectives, which conflict: a single caller can use much of a quiet service; no caller can shut out another one or stop
a commit, whatever it opens. So each limit holds by itself, and the last part of each is only for commits.

Invariants:

1. No scope (all together, a caller, a connection) ever has more open than its limit.
2. Only a commit takes the last `reserve` of a scope.
3. Each place is given back once, and a scope without open calls takes no memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.client.connection.status import TOO_MANY_CALLS
from lakelog.errors import Unavailable


@dataclass(frozen=True)
class ShareLimits:
    """How many calls of one kind can be open at once.

    Args:
        kind: The kind of calls, in the plural, for messages.
        setting: The command-line argument that raises the total, for messages.
        total: The limit of all together.
        caller: The limit of one caller.
        connection: The limit of one connection.
        reserve: The part of each of these, from 0 to 1, that only commits can take.
    """

    kind: str
    setting: str
    total: int
    caller: int
    connection: int
    reserve: float = 0.1

    def without_reserve(self, limit: int) -> int:
        """How many places of a limit are for calls that are no commits; at least one."""
        return max(1, limit - int(limit * self.reserve))


class Shares:
    """Counts the open calls. Runs on one event loop.

    Args:
        limits: How many can be open.
    """

    def __init__(self, limits: ShareLimits) -> None:
        self._limits = limits
        self._total = 0
        self._of_caller: Counter[str] = Counter()
        self._of_connection: Counter[str] = Counter()

    @property
    def open_count(self) -> int:
        """How many are open in all."""
        return self._total

    def take(self, caller: str | None, connection: str, *, is_commit: bool = False) -> Callable[[], None]:
        """Takes a place.

        Args:
            caller: The caller; None: the server does not identify callers, or this call is open to everyone.
            connection: The peer's address.
            is_commit: Whether it can take the reserve.

        Returns:
            A function that gives the place back; to be called once.

        Raises:
            Unavailable: A limit is reached; the message names it and the remedy.
        """
        limits = self._limits
        self._check(f"The connection {connection} has", self._of_connection[connection], limits.connection, is_commit)
        if caller is not None:
            self._check(f"The caller {caller} has", self._of_caller[caller], limits.caller, is_commit)
        self._check("The service has", self._total, limits.total, is_commit)
        self._total += 1
        self._of_connection[connection] += 1
        if caller is not None:
            self._of_caller[caller] += 1

        def give_back() -> None:
            self._total -= 1
            _decrease(self._of_connection, connection)
            if caller is not None:
                _decrease(self._of_caller, caller)

        return give_back

    def _check(self, who: str, count: int, limit: int, is_commit: bool) -> None:
        limits = self._limits
        allowed = limit if is_commit else limits.without_reserve(limit)
        if count < allowed:
            return
        kept = "" if allowed == limit else f" The rest up to {limit} is kept for commits."
        raise Unavailable(
            f"{who} {count} {limits.kind} open, and {allowed} is the limit.{kept} Nothing was done: try again after a "
            f"moment, close those that are not needed, or raise {limits.setting}.",
            reason=TOO_MANY_CALLS,
            metadata={"limit": str(allowed), "kind_of_call": limits.kind},
        )


def _decrease(counts: Counter[str], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
