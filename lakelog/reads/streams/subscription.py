"""Subscriptions: the changes of tables, pushed to whoever iterates, from where it stopped last time.

A thread follows the tables' history and puts batches into a short queue, which the iterating thread empties: a slow
reader stops it, and nothing else. With each batch comes where its reader is when it is done with it, so that a position
never stands inside of a commit.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from types import TracebackType
from typing import Final, Protocol

import pyarrow as pa

from lakelog.client.connection.retry import CLOSED
from lakelog.errors import Fenced, InvalidArgument, LakelogError, NotFound, Unavailable
from lakelog.reads.streams.batch import Position, Progress, SnapshotChanges, StreamBatch
from lakelog.storage.parquet.read_counts import ReadMetrics

_QUEUED: Final = 2
"""Batches that wait for their reader."""

_POLL_S: Final = 0.1
"""How often a thread whose queue is full looks whether it is to end."""

_CLOSE_TIMEOUT_S: Final = 10.0


class Follower(Protocol):
    """A source of changes."""

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far by this process."""
        ...

    def follow(self) -> Iterator[Progress]:
        """Hands out changes as they come; blocks; ends when closed. A generator."""
        ...

    def close(self) -> None:
        """Ends `follow`, from any thread; idempotent."""
        ...


class Subscription:
    """The changes of tables as they come; `Table.subscribe` makes it for one table, `Catalog.subscribe` for several.

    One thread iterates, any may close it.

    Iterating blocks until there is something, and ends when it is closed, or at the end that the options set. The
    position moves when the next batch is asked for: a reader that dies before that gets the same batch again. Without
    `auto_commit` it moves by `commit` only.

    Args:
        name: What is subscribed to, for people.
        follower: Where changes come from.
        positions: Where the reader is now, by table (`database.table`); those where it is nowhere yet are missing.
        keep: Told of each new position, of all tables together in which it moves, to keep it; without any, that the
            reader is there. Raises Fenced where another reader has taken over.
        auto_commit: The position moves by itself.
        keep_every_s: How often `keep` is called while the reader waits: so the reader counts as one that uses its
            consumer, and learns that another has taken over. None: never.
    """

    def __init__(
        self,
        name: str,
        follower: Follower,
        positions: Mapping[str, Position],
        keep: Callable[[Mapping[str, Position]], None],
        *,
        auto_commit: bool,
        keep_every_s: float | None = None,
    ) -> None:
        self._name = name
        self._follower = follower
        self._positions = dict(positions)
        self._auto_commit = auto_commit
        self._queue: queue.Queue[Progress | BaseException | None] = queue.Queue(_QUEUED)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._reached: dict[str, Position] = {}
        self._keeping = _Keeping(keep)
        if keep_every_s is not None:
            threading.Thread(
                target=self._keeping.run,
                args=(keep_every_s, self._closed, self._queue),
                name="lakelog-keep",
                daemon=True,
            ).start()
        self._ended = False
        self._failure: BaseException | None = None
        self._whole = False
        # That it was closed was told to whoever reads: reading on would be told nothing for ever.
        self._over = False
        self._reader: int | None = None

    def __repr__(self) -> str:
        ids = [each.snapshot_id for each in self._positions.values()]
        done = f"snapshot{'s'[: len(ids) - 1]} {', '.join(map(str, ids))} done" if ids else "nothing done yet"
        return f"<subscription to {self._name}: {done}{', closed' if self._closed.is_set() else ''}>"

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        # Another thread that reads is still to be told of the end, as by `close`.
        self._over = self._over or self._reader in (None, threading.get_ident())

    def __del__(self) -> None:
        # Of one that was forgotten the thread shall not go on for ever.
        self._closed.set()
        self._follower.close()

    def __iter__(self) -> Iterator[StreamBatch]:
        return self

    def __next__(self) -> StreamBatch:
        batch = None if self._over else self.read()
        if batch is None:
            raise StopIteration
        return batch

    @property
    def position(self) -> int | None:
        """The last snapshot that is done; 0: none, and the first one comes next. None: not known yet.

        Raises:
            InvalidArgument: There are several tables: `positions` names each.
        """
        if len(self._positions) > 1:
            raise InvalidArgument(
                f"A subscription to several tables ({self._name}) has no single position; `positions` tells of each."
            )
        return next((each.snapshot_id for each in self._positions.values()), None)

    @property
    def positions(self) -> dict[str, int]:
        """The last snapshot that is done, by table (`database.table`); empty: not known yet."""
        return {name: position.snapshot_id for name, position in self._positions.items()}

    @property
    def metrics(self) -> ReadMetrics:
        """What was read so far, and what could be left out.

        Where a reader service reads, it has metrics of its own, and only `snapshots_skipped` is counted here.
        """
        return self._follower.metrics

    def read(self, timeout: float | None = None) -> StreamBatch | None:
        """The next batch.

        Args:
            timeout: Seconds to wait for it; None: for ever.

        Returns:
            None when there was none in time, or when the subscription has ended (`ended` says which). What ended it
            otherwise is raised again each time.

        Raises:
            InvalidArgument: It is closed, as the read before has said by None; or its `with` block was left.
            Fenced: Another reader has taken over the consumer, or it was reset or deleted.
            SnapshotExpired: The next change is no longer kept, and the options do not say what to do then.
            HistoryDiverged: The table's history is no longer the one that was read.
            NotFound: The table was dropped.
        """
        if timeout is not None and not _is_a_wait(timeout):
            raise InvalidArgument(
                f"timeout={timeout!r:.80} is no time to wait: give seconds, 0 or more, or None to wait for ever.",
                metadata={"field": "timeout"},
            )
        if timeout is not None and timeout > threading.TIMEOUT_MAX:
            timeout = None
        if self._over:
            raise self._closed_error("no batch comes any more. Subscribe again")
        self._reader = threading.get_ident()
        batch = self._read(timeout)
        self._over = batch is None and self._closed.is_set()
        return batch

    def _read(self, timeout: float | None) -> StreamBatch | None:
        self._keeping.check()
        if self._failure is not None and not self._closed.is_set():
            # Told again: whoever only looks whether something came would wait for ever.
            raise self._failure
        if self._auto_commit:
            self._move_by_itself()
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
                self._failure = found
                raise found
            self._keeping.check()
            self._reached |= found.done or {}
            if found.batch is not None:
                self._whole = found.done is not None
                return found.batch
            if self._auto_commit:
                self._move_by_itself()
            if left_s == 0.0:
                return None

    def snapshots(self, timeout: float | None = None) -> Iterator[SnapshotChanges]:
        """The snapshots that come, each whole: all buckets of a table together. For readers that keep state.

        A snapshot is held in memory as a whole; iterate the subscription itself where one may be too large. Snapshots
        without rows to show are passed over. Of a commit to several tables each table's part comes by itself. The
        position moves when the snapshot after a whole commit is asked for, or by `commit`.

        Args:
            timeout: How many seconds to wait for each batch; the iteration ends when none comes. None: for ever.

        Raises:
            LakelogError: As `read`.
        """
        parts: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        while (batch := None if self._over else self.read(timeout)) is not None:
            parts.setdefault((batch.table, batch.snapshot_id), []).append(batch.data)
            if self._whole or batch.is_early:
                yield from (SnapshotChanges(table, number, data) for (table, number), data in parts.items())
                parts = {}
        if parts and not self.ended:
            # Its rest is on the way: nothing of it may be left out of what comes next.
            raise Unavailable(
                f"Part of a snapshot of {self._name} came, but not its end within {timeout} s. Subscribe again, with a "
                "longer timeout: it comes again as a whole."
            )

    @property
    def is_whole(self) -> bool:
        """Whether the batch handed out last ends a commit, so that `commit` would move past it."""
        return self._whole

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended or self._closed.is_set() or self._keeping.is_over

    @property
    def closed(self) -> bool:
        """Whether it was closed, so that the position can no longer be moved by `commit`."""
        return self._closed.is_set()

    def commit(self) -> None:
        """Moves the position past the batches handed out so far, as far as they are whole commits.

        Raises:
            Fenced: As `read`.
            InvalidArgument: It is closed; the position stays where it is.
            Unavailable: It could not be kept, or it was closed meanwhile; a later call tries again where it can.
        """
        self._keeping.check()
        if self._closed.is_set():
            raise self._closed_error("its position stays where it is. Commit before you close it, or subscribe again")
        self._move()

    def _move_by_itself(self) -> None:
        try:
            self._move()
        except Unavailable as error:
            # Who reads learns that it is closed by the end, and nothing was promised: the batch comes again.
            if error.reason != CLOSED or not self._closed.is_set():
                raise

    def _move(self) -> None:
        reached = {name: at for name, at in self._reached.items() if at != self._positions.get(name)}
        if reached:
            self._keeping.move(reached)
            self._positions |= reached
        # Not before: where it could not be kept, it is still to be.
        self._reached = {}

    def _closed_error(self, so: str) -> InvalidArgument:
        return InvalidArgument(f"The subscription to {self._name} is closed, so {so}.", reason=CLOSED)

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
    """A reader's positions, kept whenever it moves. Threads may share it.

    Whoever was fenced stays so: what it handed out afterwards would be handled twice.
    """

    def __init__(self, keep: Callable[[Mapping[str, Position]], None]) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._failure: LakelogError | None = None

    @property
    def is_over(self) -> bool:
        """Whether no position can be kept any more."""
        return self._failure is not None

    def check(self) -> None:
        """Raises what ended the keeping: another has taken over, or the table is gone."""
        if self._failure is not None:
            raise self._failure

    def move(self, positions: Mapping[str, Position]) -> None:
        """Keeps new positions of some tables, all or none."""
        with self._lock:
            try:
                self._keep(positions)
            except (Fenced, NotFound) as error:
                self._failure = error
                raise

    def run(
        self, every_s: float, closed: threading.Event, waiting: queue.Queue[Progress | BaseException | None]
    ) -> None:
        """Says that the reader is there, until closed or fenced, which is told to whoever waits for the next batch."""
        while not closed.wait(every_s) and self._failure is None:
            with self._lock, contextlib.suppress(LakelogError):
                try:
                    self._keep({})
                except (Fenced, NotFound) as error:
                    self._failure = error
                    # Where it is full nobody waits: the next call finds out.
                    with contextlib.suppress(queue.Full):
                        waiting.put_nowait(error)


def _is_a_wait(timeout: object) -> bool:
    return isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0


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
            target.put(item, timeout=_POLL_S)
        except queue.Full:
            continue
        return True
    return False
