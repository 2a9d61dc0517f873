"""Room for some bytes at once, which waiting callers get in turn."""

from __future__ import annotations

import asyncio
from collections import deque


class FairRoom:
    """Room for some bytes; waiting origins are served in turn, so a busy one delays others by one request.

    Runs on one event loop. Within an origin the order is that of the requests. A request that is larger than the whole
    room gets it once the room is empty. As long as the next request does not fit, no other one is admitted, so none
    waits for ever.

    Args:
        size: How many bytes fit in.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        # In the order in which they are served next; none is empty.
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    @property
    def used(self) -> int:
        """How many bytes are taken."""
        return self._used

    async def take(self, origin: str, size: int) -> None:
        """Takes room as soon as there is some and it is the origin's turn; give it back with `give_back`."""
        if not self._waiting and self._fits(size):
            self._used += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(origin, deque()).append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                # It may have been the next one, and those after it may fit.
                turn.cancel()
                self._admit()
            raise

    def give_back(self, size: int) -> None:
        """Gives room back."""
        self._used -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._size

    def _admit(self) -> None:
        while self._waiting:
            origin = next(iter(self._waiting))
            turns = self._waiting[origin]
            size, turn = turns[0]
            is_given_up = turn.done()
            if not is_given_up and not self._fits(size):
                return
            turns.popleft()
            if is_given_up and turns:
                continue
            del self._waiting[origin]
            if turns:
                # It goes after all others.
                self._waiting[origin] = turns
            if not is_given_up:
                self._used += size
                turn.set_result(None)
