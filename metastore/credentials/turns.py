"""Turns for requests to the token service: few at once, and of one caller fewer still, so that none waits for a flood.

A caller's requests wait for each other first. So each caller has at most its share in the common line.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar
from weakref import WeakValueDictionary

Result = TypeVar("Result")


class Turns:
    """Runs on one event loop.

    Args:
        most: Requests at once.
        share: Requests of one caller at once. A caller without a name may take all: then there are no others.
    """

    def __init__(self, most: int, share: int) -> None:
        self._all: Final = asyncio.Semaphore(most)
        self._most: Final = most
        self._share: Final = share
        # Those that wait or run hold theirs; the others are forgotten.
        self._callers: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """Waits for a turn, and gives it back at the end."""
        own = self._callers.get(caller)
        if own is None:
            own = self._callers[caller] = asyncio.Semaphore(self._share if caller else self._most)
        async with own, self._all:
            yield


async def run_beside(work: Callable[[], Result], name: str) -> Result:
    """Runs a blocking call in a thread of its own, which does not keep the process alive.

    A thread costs some 0.1 ms, and each call waits for another machine. A call that is cancelled runs on.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]  # None only if it is the result.
        else:
            answer.set_exception(error)

    def run() -> None:
        result, problem = None, None
        try:
            result = work()
        except BaseException as error:
            problem = error
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer
