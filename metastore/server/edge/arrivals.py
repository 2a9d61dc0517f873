"""Counts the calls whose request gRPC receives by itself, by caller.

SUBTLE: gRPC does not report the end of a call whose request never comes. It only forgets the handler that it got, and
    with it the call's `Arrival`. Any thread can run `__del__`, also in the midst of a count, so it only leaves a note.
    The event loop counts the notes before it looks at a count.
"""

from __future__ import annotations

from collections import Counter
from queue import Empty, SimpleQueue


class Arrivals:
    """The requests that are on their way. Runs on one event loop."""

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        # `put` may interrupt itself, which a lock may not.
        self._lost: SimpleQueue[str | None] = SimpleQueue()

    def begin(self, caller: str | None, at_most: int) -> Arrival | None:
        """Counts a request.

        Args:
            caller: The caller; None: its headers do not identify it.
            at_most: How many of this caller can be on their way.

        Returns:
            Its place, which is given back when the place is ended or forgotten; None: there are too many.
        """
        if self.counts[caller] >= at_most:
            return None
        self._counts[caller] += 1
        return Arrival(self, caller)

    @property
    def counts(self) -> Counter[str | None]:
        """How many are on their way, by caller; callers without any are left out."""
        while True:
            try:
                self.end(self._lost.get_nowait())
            except Empty:
                return self._counts

    def end(self, caller: str | None) -> None:
        """A request has arrived."""
        self._counts[caller] -= 1
        if not self._counts[caller]:
            del self._counts[caller]

    def lose(self, caller: str | None) -> None:
        """A request will never arrive. Any thread may call this at any time."""
        self._lost.put(caller)


class Arrival:
    """The place of one request that is on its way."""

    def __init__(self, owner: Arrivals, caller: str | None) -> None:
        self._owner = owner
        self._caller = caller
        self._is_open = True

    def end(self) -> None:
        """The request has arrived, or its call has ended; idempotent."""
        if self._is_open:
            self._is_open = False
            self._owner.end(self._caller)

    def __del__(self) -> None:
        """Its request will never arrive."""
        if self._is_open:
            self._owner.lose(self._caller)
