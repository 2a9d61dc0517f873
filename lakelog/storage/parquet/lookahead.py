"""Computes the next items while the results of the first ones are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def look_ahead(
    executor: Executor, work: Callable[[Item], Result], items: Iterable[Item], window: int, first: int | None = None
) -> Iterator[Result]:
    """Applies `work` to the items in the threads of an executor, at most `window` of them ahead of the reader.

    Args:
        executor: Its threads do the work; the work itself must not wait for other work in it.
        work: Applied to each item.
        items: Read on demand, in the reader's thread.
        window: How many results may be running or waiting, at least 1; it bounds their memory.
        first: The window at the beginning, for a reader that may soon have enough: it doubles with each result. None:
            `window`.

    Yields:
        The results in the order of the items. An error is raised in its place. If the reader stops early, work that has
        not started is dropped.
    """
    ahead: deque[Future[Result]] = deque()
    source = iter(items)
    most = window if first is None else first
    try:
        for item in source:
            ahead.append(executor.submit(work, item))
            if len(ahead) >= most:
                yield ahead.popleft().result()
                most = min(window, 2 * most)
        while ahead:
            yield ahead.popleft().result()
    finally:
        for waiting in ahead:
            waiting.cancel()
