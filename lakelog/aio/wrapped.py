"""What all objects of the SDK for asyncio have in common: an object of the blocking SDK, and threads to call it in."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from lakelog.aio.workers import Workers

B = TypeVar("B")


class Wrapped(Generic[B]):
    """An object of the blocking SDK whose methods are called in threads.

    Args:
        blocking: The object.
        workers: The threads of its catalog.
    """

    def __init__(self, blocking: B, workers: Workers) -> None:
        self._blocking: Final = blocking
        self._workers: Final = workers

    def __repr__(self) -> str:
        return repr(self._blocking)

    @property
    def blocking(self) -> B:
        """The object of the blocking SDK: for code that runs in threads of its own."""
        return self._blocking
