"""Places that are few, such as statements that run at once, shared so that no caller takes all of them.

The rule is that of dynamic thresholds, by which switches share memory among queues: a caller's further place is refused
once it would have more than twice as many as then stay free. A caller alone gets two thirds, the next one two thirds of
the rest, and so on; people who share a token are no worse off for that while few others are there.
"""

from __future__ import annotations

import threading


class Places:
    """Places and who has them. Thread-safe.

    Args:
        most: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many are taken."""
        return sum(self._taken.copy().values())

    def is_free_for(self, caller: str) -> bool:
        """Whether the caller could take one now.

        Args:
            caller: Names the caller; empty where no one is identified, and everyone may take any place.
        """
        own, free = self._taken.get(caller, 0), self._most - self.count
        return free > 0 and (not caller or is_fair(own, free))

    def take(self, caller: str) -> bool:
        """Takes one, to be given back; False: there is none for this caller."""
        with self._lock:
            if not self.is_free_for(caller):
                return False
            self._taken[caller] = self._taken.get(caller, 0) + 1
            return True

    def give_back(self, caller: str) -> None:
        """Gives one back."""
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]


def is_fair(own: int, free: int) -> bool:
    """Whether a caller gets one of the free places in addition to its own. Pure."""
    return own == 0 or own + 1 <= 2 * (free - 1)
