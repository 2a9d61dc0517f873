"""Taking turns: bounds what is worked on at once, and lets the rest wait in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Room:
    """Room for so many bytes at once; who finds none waits behind those who came before. Runs on one event loop.

    What is larger than the whole room gets it once nothing else is in it, so nothing waits for ever.

    Args:
        size: How many bytes there is room for.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        """How many bytes are taken."""
        return self._used

    async def take(self, size: int) -> None:
        """Takes room, as soon as there is some and nobody else waits; give it back with `give_back`."""
        if not self._waiting and self._fits(size):
            self._used += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                self._waiting.remove(entry)
                self._admit()
            raise

    def give_back(self, size: int) -> None:
        """Gives room back."""
        self._used -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._size

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._used += size
                turn.set_result(None)


class Turns:
    """So many at once for each of some keys; further ones of a key wait. Runs on one event loop.

    Args:
        at_once: How many.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms: dict[str, tuple[Room, list[int]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nobody has or waits for a turn."""
        return not self._rooms

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Has a turn of a key while the context is open."""
        room, users = self._rooms.setdefault(key, (Room(self._at_once), [0]))
        users[0] += 1
        try:
            await room.take(1)
            try:
                yield
            finally:
                room.give_back(1)
        finally:
            users[0] -= 1
            if not users[0]:
                del self._rooms[key]
