"""What `await` returns and what `async with` closes again: a catalog or a subscription that is still to be opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is open until it is closed."""

    async def close(self) -> None:
        """Ends it; idempotent."""
        ...


C = TypeVar("C", bound=Closable)


class Opening(Generic[C]):
    """Opens something when it is awaited, or for the length of an `async with` block, and nothing before.

    Args:
        open: Opens it.
    """

    def __init__(self, open: Callable[[], Awaitable[C]]) -> None:  # noqa: A002
        self._open = open
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._opened.close()
