"""What a subscription takes its items from: a thread that follows the tables, or the thread that reads itself."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, Protocol, TypeAlias

from lakelog.reads.streams.batch import IDLE, Progress
from lakelog.storage.parquet.read_counts import ReadMetrics

Item: TypeAlias = Progress | BaseException | None
"""Changes; or the error that ended them; None: the end."""

_QUEUED: Final = 2
"""Batches that wait for their reader."""

_POLL_S: Final = 0.1
"""How often a thread with a full queue checks whether it should end."""

_CLOSE_TIMEOUT_S: Final = 10.0


class Follower(Protocol):
    """A source of changes."""

    @property
    def metrics(self) -> ReadMetrics:
        """What this process has read so far."""
        ...

    def follow(self) -> Iterator[Progress]:
        """Yields changes as they come; blocks, or yields `IDLE`; ends when closed. A generator."""
        ...

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        ...


class SteppedFollower(Follower, Protocol):
    """A source of changes that does not wait: it yields `IDLE` while nothing comes."""

    notify: Callable[[], None]
    """Called, from any thread, when something has come after `IDLE`."""


class Feed(Protocol):
    """Where a subscription takes its items from. One thread takes, any may do the rest."""

    def take(self, timeout_s: float | None) -> Item:
        """Returns the next item.

        Args:
            timeout_s: How long to wait at most; None: for ever.

        Raises:
            queue.Empty: None has come in time.
        """
        ...

    def interrupt(self, item: BaseException | None) -> None:
        """Hands an item to a reader that waits; without one it may be lost."""
        ...

    def listen(self, notify: Callable[[], None]) -> None:
        """Has a function called, from any thread, when there may be an item after `take` found none."""
        ...

    def join(self) -> None:
        """Waits until a follower that was closed has ended."""
        ...


class ThreadFeed:
    """Follows in a thread of its own, which a slow reader stops: it is at most `_QUEUED` items ahead.

    Args:
        follower: The source of changes.
        closed: Is set when the subscription is closed.
    """

    def __init__(self, follower: Follower, closed: threading.Event) -> None:
        self._follower = follower
        self._box = _Box(closed)
        self._thread: threading.Thread | None = None

    def take(self, timeout_s: float | None) -> Item:
        """Implements `Feed`; the first call starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(self._follower, self._box), name="lakelog-subscribe", daemon=True
            )
            self._thread.start()
        return self._box.items.get(timeout_s != 0.0, timeout_s)

    def interrupt(self, item: BaseException | None) -> None:
        """Implements `Feed`: if the queue is full, no reader waits, and the next call finds out."""
        with contextlib.suppress(queue.Full):
            self._box.items.put_nowait(item)
        self._box.notify()

    def listen(self, notify: Callable[[], None]) -> None:
        """Implements `Feed`."""
        self._box.notify = notify

    def join(self) -> None:
        """Implements `Feed`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_TIMEOUT_S)


class SteppedFeed:
    """Follows in the thread that takes, and never waits, however long it may.

    Args:
        follower: The source of changes; it does not wait.
    """

    def __init__(self, follower: SteppedFollower) -> None:
        self._follower = follower
        self._changes: Iterator[Progress] | None = None
        self._interrupted: Item = IDLE
        # A generator can be closed only between its steps.
        self._stepping = threading.Lock()

    def take(self, timeout_s: float | None) -> Item:
        """Implements `Feed`."""
        item, self._interrupted = self._interrupted, IDLE
        with self._stepping:
            if item is IDLE:
                item = self._step()
        if item is IDLE:
            raise queue.Empty
        return item

    def _step(self) -> Item:
        try:
            if self._changes is None:
                self._changes = self._follower.follow()
            return next(self._changes, None)
        except BaseException as error:
            return error

    def interrupt(self, item: BaseException | None) -> None:
        """Implements `Feed`."""
        self._interrupted = item
        self._follower.notify()

    def listen(self, notify: Callable[[], None]) -> None:
        """Implements `Feed`."""
        self._follower.notify = notify

    def join(self) -> None:
        """Implements `Feed`: what the follower holds is released."""
        with self._stepping:
            if self._changes is not None:
                self._changes.close()  # type: ignore[attr-defined]


class _Box:
    """What the thread and the reader share; it has no reference to the subscription, so that one can be forgotten."""

    def __init__(self, closed: threading.Event) -> None:
        self.closed = closed
        self.items: queue.Queue[Item] = queue.Queue(_QUEUED)
        self.notify: Callable[[], None] = lambda: None

    def put(self, item: Item) -> bool:
        """Waits until there is room; False: it was closed meanwhile."""
        while not self.closed.is_set():
            try:
                self.items.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            self.notify()
            return True
        return False


def _run(follower: Follower, box: _Box) -> None:
    end: BaseException | None = None
    try:
        with closing(follower.follow()) as changes:  # type: ignore[type-var]
            for progress in changes:
                if not box.put(progress):
                    return
    except BaseException as error:
        end = error
    box.put(end)
