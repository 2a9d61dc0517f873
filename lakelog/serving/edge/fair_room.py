"""Room for some work at once, in bytes or in pieces, which waiting callers get in turn."""

from __future__ import annotations

import asyncio


class FairRoom:
    """Room for some units of work; waiting origins are served in turn, so a busy one delays others by one request.

    Runs on one event loop. Within an origin the order is that of the requests. A request that is larger than the whole
    room gets it once the room is empty. As long as the next request does not fit, no other one is admitted, so none
    waits for ever. A request that is given up takes no memory.

    Args:
        size: How many units fit in: bytes, or 1 for each request.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        # In the order in which they are served next; none is empty.
        self._waiting: dict[str, dict[asyncio.Future[None], int]] = {}

    @property
    def used(self) -> int:
        """How many units are taken."""
        return self._used

    @property
    def waiting_count(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    async def take(self, origin: str, size: int = 1) -> None:
        """Takes room as soon as there is some and it is the origin's turn; give it back with `give_back`."""
        if not self._waiting and self._fits(size):
            self._used += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(origin, {})[turn] = size
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                self._give_up(origin, turn)
            raise

    def give_back(self, size: int = 1) -> None:
        """Gives room back."""
        self._used -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._size

    def _give_up(self, origin: str, turn: asyncio.Future[None]) -> None:
        # It is missing if `_admit` has passed over it meanwhile.
        turns = self._waiting.get(origin, {})
        if turns.pop(turn, None) is not None and not turns:
            del self._waiting[origin]
        # It may have been the next one, and those after it may fit.
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            origin, turns = next(iter(self._waiting.items()))
            turn, size = next(iter(turns.items()))
            is_given_up = turn.done()
            if not is_given_up and not self._fits(size):
                return
            del turns[turn]
            if is_given_up and turns:
                continue
            del self._waiting[origin]
            if turns:
                # It goes after all others.
                self._waiting[origin] = turns
            if not is_given_up:
                self._used += size
                turn.set_result(None)
