"""Takes turns: bounds the work that is done at once, and lets the rest wait in its order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Room:
    """Room for some bytes at once; a request that finds none waits after earlier ones. Runs on one event loop.

    A request that is larger than the whole room gets it once the room is empty, so none waits for ever.

    Args:
        size: How many bytes fit in.
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
        """Takes room as soon as there is some and no earlier request waits; give it back with `give_back`."""
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
                # It is missing if `_admit` has passed over it meanwhile.
                with suppress(ValueError):
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
    """A limited number of turns at once for each key; further requests of a key wait. Runs on one event loop.

    Args:
        at_once: How many turns a key has at once.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms: dict[str, tuple[Room, list[int]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request has a turn or waits for one."""
        return not self._rooms

    async def take(self, key: str) -> None:
        """Waits for a turn of a key; give it back with `give_back`."""
        room, users = self._rooms.setdefault(key, (Room(self._at_once), [0]))
        users[0] += 1
        try:
            await room.take(1)
        except BaseException:
            self._left(key)
            raise

    def give_back(self, key: str) -> None:
        """Ends a turn."""
        self._rooms[key][0].give_back(1)
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


class FairTurns:
    """A limited number of turns at once; waiting origins are served in turn, so a busy one delays others by one turn.

    Runs on one event loop. Within an origin the order is that of the requests.

    Args:
        at_once: How many turns there are at once.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        # In the order in which they are served next; none is empty.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def acquire(self, origin: str) -> None:
        """Takes a turn as soon as there is one; give it back with `release`."""
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(origin, deque()).append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Gives a turn back."""
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._free and self._waiting:
            origin = next(iter(self._waiting))
            turns = self._waiting.pop(origin)
            turn = turns.popleft()
            if turns:
                # It goes after all others.
                self._waiting[origin] = turns
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
