"""Subscriptions: a table's changes, pushed to whoever iterates, from where it stopped last time.

A thread follows the table's history and puts batches into a short queue, which the iterating thread empties: a slow
reader stops it, and nothing else. With each batch comes where its reader is when it is done with it, so that a position
never stands inside of a snapshot.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import TracebackType
from typing import Final, Protocol

from lakelog.errors import Fenced, InvalidArgument, LakelogError
from lakelog.stream_batch import Position, Progress, StreamBatch

_QUEUED: Final = 2
"""Batches that wait for their reader."""

_LOOK_S: Final = 0.1
"""How often a thread whose queue is full looks whether it is to end."""

_CLOSE_TIMEOUT_S: Final = 10.0


class Follower(Protocol):
    """A source of changes."""

    def follow(self) -> Iterator[Progress]:
        """Hands out changes as they come; blocks; ends when closed. A generator."""
        ...

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        ...


class Subscription:
    """A table's changes as they come; `Table.subscribe` makes it. One thread iterates, any may close it.

    Iterating blocks until there is something, and ends when it is closed, or at the end that the options set. The
    position moves when the next batch is asked for: whoever dies before that gets the same batch again. Without
    `auto_commit` it moves by `commit` only.

    Args:
        name: What is subscribed to, for people.
        follower: Where changes come from.
        position: Where the reader is now; None: nowhere yet.
        keep: Told of each new position, to keep it; raises Fenced where another reader has taken over.
        auto_commit: The position moves by itself.
        keep_every_s: How often the position is kept anew though it did not move: so a reader that waits is known to be
            there, and learns of another that has taken over. None: never.
    """

    def __init__(
        self,
        name: str,
        follower: Follower,
        position: Position | None,
        keep: Callable[[Position], None],
        *,
        auto_commit: bool,
        keep_every_s: float | None = None,
    ) -> None:
        self._name = name
        self._follower = follower
        self._position = position
        self._auto_commit = auto_commit
        self._queue: queue.Queue[Progress | BaseException | None] = queue.Queue(_QUEUED)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached: Position | None = None
        self._keeping = _Keeping(keep, position)
        if keep_every_s is not None:
            threading.Thread(
                target=self._keeping.run, args=(keep_every_s, self._closed), name="lakelog-keep", daemon=True
            ).start()
        self._ended = False
        self._whole = False

    def __repr__(self) -> str:
        at = "nothing done yet" if self._position is None else f"snapshot {self._position.snapshot_id} done"
        return f"<subscription to {self._name}: {at}{', closed' if self._closed.is_set() else ''}>"

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Of one that was forgotten the thread shall not go on for ever.
        self._closed.set()
        self._follower.close()

    def __iter__(self) -> Iterator[StreamBatch]:
        return self

    def __next__(self) -> StreamBatch:
        batch = self.read()
        if batch is None:
            raise StopIteration
        return batch

    @property
    def position(self) -> int | None:
        """The last snapshot that is done; 0: none, and the first one comes next. None: not known yet."""
        return None if self._position is None else self._position.snapshot_id

    def read(self, timeout: float | None = None) -> StreamBatch | None:
        """The next batch.

        Args:
            timeout: Seconds to wait for it; None: for ever.

        Returns:
            None when there was none in time, or when the subscription has ended (`ended` tells which).

        Raises:
            Fenced: Another reader has taken over the consumer, or it was reset or deleted.
            SnapshotExpired: The next change is no longer kept, and the options do not say what to do then.
            HistoryDiverged: The table's history is no longer the one that was read.
            NotFound: The table was dropped.
        """
        if timeout is not None and timeout < 0:
            raise InvalidArgument(
                f"timeout={timeout} is no time to wait: give 0 or more.", metadata={"field": "timeout"}
            )
        self._keeping.check()
        if self._auto_commit:
            self.commit()
        if self._ended or self._closed.is_set():
            return None
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(self._follower, self._queue, self._closed), name="lakelog-subscribe", daemon=True
            )
            self._thread.start()
        end_s = None if timeout is None else time.monotonic() + timeout
        while True:
            # Of snapshots that show nothing there may be many, one behind the other.
            left_s = None if end_s is None else max(end_s - time.monotonic(), 0.0)
            try:
                found = self._queue.get(left_s != 0.0, left_s)
            except queue.Empty:
                return None
            if found is None:
                self._ended = True
                return None
            if isinstance(found, BaseException):
                self._ended = True
                raise found
            self._keeping.check()
            self._reached = found.done or self._reached
            if found.batch is not None:
                self._whole = found.done is not None
                return found.batch
            if self._auto_commit:
                self.commit()
            if left_s == 0.0:
                return None

    @property
    def is_whole(self) -> bool:
        """Whether the batch handed out last ends a snapshot, so that `commit` would move behind it."""
        return self._whole

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended or self._closed.is_set()

    def commit(self) -> None:
        """Moves the position behind the batches handed out so far, as far as they are whole snapshots.

        Raises:
            Fenced: As `read`.
        """
        self._keeping.check()
        reached = self._reached
        if reached is not None and reached != self._position:
            self._keeping.move(reached)
            self._position = reached
        # Not before: where it could not be kept, it is still to be.
        self._reached = None

    def close(self) -> None:
        """Ends the subscription; the position stays where it is. Idempotent."""
        self._closed.set()
        self._follower.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_TIMEOUT_S)
        # Whoever waits in another thread wakes up.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)


class _Keeping:
    """A reader's position, kept whenever it moves and now and then. Threads may share it.

    Whoever was fenced stays so: what it handed out afterwards would be handled twice.
    """

    def __init__(self, keep: Callable[[Position], None], position: Position | None) -> None:
        self._keep = keep
        self._position = position
        self._lock = threading.Lock()
        self._fenced: Fenced | None = None

    def check(self) -> None:
        """Raises Fenced where the reader is fenced."""
        if self._fenced is not None:
            raise self._fenced

    def move(self, position: Position) -> None:
        """Keeps a new position."""
        with self._lock:
            try:
                self._keep(position)
            except Fenced as error:
                self._fenced = error
                raise
            self._position = position

    def run(self, every_s: float, closed: threading.Event) -> None:
        """Keeps the position anew, until closed or fenced."""
        while not closed.wait(every_s) and self._fenced is None:
            with self._lock, contextlib.suppress(LakelogError):
                if self._position is not None:
                    try:
                        self._keep(self._position)
                    except Fenced as error:
                        self._fenced = error


def _run(follower: Follower, target: queue.Queue[Progress | BaseException | None], closed: threading.Event) -> None:
    """What the thread does; it holds no reference to the subscription, so that one can be forgotten."""
    end: BaseException | None = None
    try:
        with closing(follower.follow()) as changes:  # type: ignore[type-var]
            for progress in changes:
                if not _put(target, progress, closed):
                    return
    except BaseException as error:
        end = error
    _put(target, end, closed)


def _put(
    target: queue.Queue[Progress | BaseException | None], item: Progress | BaseException | None, closed: threading.Event
) -> bool:
    while not closed.is_set():
        try:
            target.put(item, timeout=_LOOK_S)
        except queue.Full:
            continue
        return True
    return False
