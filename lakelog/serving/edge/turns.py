"""Takes turns: bounds the work of a key that is done at once, and lets the rest wait in its order of arrival."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .fair_room import FairRoom


class Turns:
    """A limited number of turns at once for each key; further requests of a key wait. Runs on one event loop.

    Args:
        at_once: How many turns a key has at once.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms: dict[str, tuple[FairRoom, list[int]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request has a turn or waits for one."""
        return not self._rooms

    async def take(self, key: str) -> None:
        """Waits for a turn of a key; give it back with `give_back`."""
        room, users = self._rooms.setdefault(key, (FairRoom(self._at_once), [0]))
        users[0] += 1
        try:
            await room.take(key)
        except BaseException:
            self._left(key)
            raise

    def give_back(self, key: str) -> None:
        """Ends a turn."""
        self._rooms[key][0].give_back()
        self._left(key)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Has a turn of a key while the context is open."""
        await self.take(key)
        try:
            yield
        finally:
            self.give_back(key)

    def _left(self, key: str) -> None:
        _, users = self._rooms[key]
        users[0] -= 1
        if not users[0]:
            del self._rooms[key]
