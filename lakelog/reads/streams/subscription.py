"""Subscriptions: the changes of tables, pushed to a reader that iterates, from its last position.

A thread follows the tables' history and puts batches into a short queue, which the iterating thread empties: a slow
reader stops only this thread. Where an event loop waits for many subscriptions, the reader follows the history
itself (`lakelog.reads.streams.feeds`). Each batch comes with its reader's position when it is done, so a position is
never inside a commit.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from lakelog.client.connection.retry import CLOSED
from lakelog.errors import Fenced, InvalidArgument, LakelogError, NotFound, Unavailable
from lakelog.reads.streams.batch import Position, SnapshotChanges, StreamBatch
from lakelog.reads.streams.feeds import Feed, Follower, ThreadFeed
from lakelog.storage.parquet.read_counts import ReadMetrics


class Subscription:
    """The changes of tables as they come; `Table.subscribe` makes it for one table, `Catalog.subscribe` for several.

    One thread iterates, any thread may close it.

    Iterating blocks until there is something, and ends when it is closed, or at the end that the options set. The
    position moves when the next batch is requested: a reader that dies before that gets the same batch again. Without
    `auto_commit` it moves only by `commit`.

    Args:
        name: What is subscribed to, for people.
        follower: The source of changes.
        positions: The reader's current positions, by table (`database.table`); tables without one are missing.
        keep: Called to store new positions, those of all tables that move together; called without any, it reports that
            the reader is there. Raises Fenced if another reader has taken over.
        auto_commit: Whether the position moves by itself.
        keep_every_s: How often `keep` is called while the reader waits: this shows that the consumer is used, and finds
            out when another reader has taken over. None: never.
        open_feed: Makes what the changes come from, for a reader that never waits: it calls `read_ready`, and every
            `keep_every_s` `renew`. None: they come from a thread, and a second one renews.
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
        open_feed: Callable[[Follower, threading.Event], Feed] | None = None,
    ) -> None:
        self._name = name
        self._follower = follower
        self._positions = dict(positions)
        self._auto_commit = auto_commit
        self._closed = threading.Event()
        self._feed = (open_feed or ThreadFeed)(follower, self._closed)
        self._reached: dict[str, Position] = {}
        self.keep_every_s: Final = keep_every_s
        self._keeping = _Keeping(keep, self._feed)
        if keep_every_s is not None and open_feed is None:
            threading.Thread(
                target=self._keeping.run, args=(keep_every_s, self._closed), name="lakelog-keep", daemon=True
            ).start()
        self._ended = False
        self._failure: BaseException | None = None
        self._whole = False
        # The reader was informed of the close once; a further read would wait for ever.
        self._over = False
        self._reader: int | None = None

    def __repr__(self) -> str:
        ids = [each.snapshot_id for each in self._positions.values()]
        done = f"snapshot{'s'[: len(ids) - 1]} {', '.join(map(str, ids))} done" if ids else "nothing done yet"
        return f"<subscription to {self._name}: {done}{', closed' if self._closed.is_set() else ''}>"

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        # Another thread that reads must still see the end, as by `close`.
        self._over = self._over or self._reader in (None, threading.get_ident())

    def __del__(self) -> None:
        # The thread of a forgotten subscription must not go on for ever.
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
            InvalidArgument: There are several tables: `positions` has each.
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
        """What was read so far, and what was skipped.

        If a reader service reads, it has its own metrics, and only `snapshots_skipped` is counted here.
        """
        return self._follower.metrics

    def read(self, timeout: float | None = None) -> StreamBatch | None:
        """Returns the next batch.

        Args:
            timeout: Seconds to wait for it; None: for ever.

        Returns:
            None if there was none in time, or if the subscription has ended (`ended` says which). Any other error that
            ended it is raised again each time.

        Raises:
            InvalidArgument: It is closed, and an earlier read returned None for that; or its `with` block was left.
            Fenced: Another reader has taken over the consumer, or it was reset or deleted.
            SnapshotExpired: The next change has expired, and the options do not say what to do then.
            HistoryDiverged: The table's history differs from the one that was read.
            NotFound: The table was dropped.
        """
        check_wait(timeout)
        if timeout is not None and timeout > threading.TIMEOUT_MAX:
            timeout = None
        self._check_open()
        self._reader = threading.get_ident()
        batch = self._read(timeout)
        self._over = batch is None and self._closed.is_set()
        return batch

    def read_ready(self) -> StreamBatch | None:
        """Returns the next batch without waiting for one; only with a feed of its own. Raises as `read`.

        Returns:
            None if nothing has come; `listen` says when something may have. Or if it has ended (`ended`).
        """
        self._check_open()
        self._begin_read()
        with contextlib.suppress(queue.Empty):
            # Many snapshots in sequence may show nothing.
            while not self.ended:
                batch = self._take(0.0)
                if batch is not None:
                    return batch
        self._over = self._closed.is_set()
        return None

    def listen(self, notify: Callable[[], None]) -> None:
        """Has a function called, from any thread, when `read_ready` may find something after it found nothing."""
        self._feed.listen(notify)

    def renew(self) -> None:
        """Reports that the reader is there; if another one has taken over, the next read raises that."""
        self._keeping.renew()

    def _begin_read(self) -> None:
        self._keeping.check()
        if self._failure is not None and not self._closed.is_set():
            # Report it again: a caller that only polls would wait for ever.
            raise self._failure
        if self._auto_commit:
            self._move_by_itself()

    def _read(self, timeout: float | None) -> StreamBatch | None:
        self._begin_read()
        if self._ended or self._closed.is_set():
            return None
        end_s = None if timeout is None else time.monotonic() + timeout
        while True:
            # Many snapshots in sequence may show nothing.
            left_s = None if end_s is None else max(end_s - time.monotonic(), 0.0)
            try:
                batch = self._take(left_s)
            except queue.Empty:
                return None
            if batch is not None or self._ended or left_s == 0.0:
                return batch

    def _take(self, timeout_s: float | None) -> StreamBatch | None:
        """Takes one item: returns its batch, or None for the end and for a position that moves without rows."""
        found = self._feed.take(timeout_s)
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
        elif self._auto_commit:
            self._move_by_itself()
        return found.batch

    def snapshots(self, timeout: float | None = None) -> Iterator[SnapshotChanges]:
        """Yields whole snapshots: all buckets of a table together. For readers that keep state.

        A whole snapshot is held in memory; iterate the subscription itself if one may be too large. Snapshots without
        rows to show are skipped. For a commit to several tables, each table's part comes separately. The position moves
        when the snapshot after a whole commit is requested, or by `commit`.

        Args:
            timeout: How many seconds to wait for each batch; the iteration ends when none comes. None: for ever.

        Raises:
            LakelogError: As `read`.
        """
        parts = SnapshotParts()
        while (batch := None if self._over else self.read(timeout)) is not None:
            yield from parts.add(batch, self._whole)
        if not self.ended:
            parts.check_end(self._name, timeout)

    @property
    def is_whole(self) -> bool:
        """Whether the last batch ends a commit, so that `commit` would move past it."""
        return self._whole

    @property
    def ended(self) -> bool:
        """Whether no more batches will come."""
        return self._ended or self._closed.is_set() or self._keeping.is_over

    @property
    def closed(self) -> bool:
        """Whether it was closed, so that the position can no longer be moved by `commit`."""
        return self._closed.is_set()

    def commit(self) -> None:
        """Moves the position past the batches handed out so far, up to the last whole commit.

        Raises:
            Fenced: As `read`.
            InvalidArgument: It is closed; the position stays where it is.
            Unavailable: It could not be stored, or it was closed meanwhile; a later call tries again if possible.
        """
        self._keeping.check()
        if self._closed.is_set():
            raise self._closed_error("its position stays where it is. Commit before you close it, or subscribe again")
        self._move()

    def _move_by_itself(self) -> None:
        try:
            self._move()
        except Unavailable as error:
            # The reader learns of the close from the end, and nothing was promised: the batch comes again.
            if error.reason != CLOSED or not self._closed.is_set():
                raise

    def _move(self) -> None:
        reached = {name: at for name, at in self._reached.items() if at != self._positions.get(name)}
        if reached:
            self._keeping.move(reached)
            self._positions |= reached
        # Not earlier: a position that could not be stored must still be stored later.
        self._reached = {}

    def _check_open(self) -> None:
        if self._over:
            raise self._closed_error("no batch comes any more. Subscribe again")

    def _closed_error(self, so: str) -> InvalidArgument:
        return InvalidArgument(f"The subscription to {self._name} is closed, so {so}.", reason=CLOSED)

    def close(self) -> None:
        """Ends the subscription; the position stays where it is. Idempotent."""
        self._closed.set()
        self._follower.close()
        self._feed.join()
        # Wakes up a reader that waits in another thread.
        self._feed.interrupt(None)


class SnapshotParts:
    """Puts batches together, to whole snapshots."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, int], list[pa.RecordBatch]] = {}

    def add(self, batch: StreamBatch, is_whole: bool) -> list[SnapshotChanges]:
        """Adds the next batch; returns the snapshots of the commit that it ends."""
        self._parts.setdefault((batch.table, batch.snapshot_id), []).append(batch.data)
        if not (is_whole or batch.is_early):
            return []
        parts, self._parts = self._parts, {}
        return [SnapshotChanges(table, number, data) for (table, number), data in parts.items()]

    def check_end(self, name: str, timeout: float | None) -> None:
        """Raises Unavailable if the batches end within a snapshot: its rest must not be left out of the next one."""
        if self._parts:
            raise Unavailable(
                f"Part of a snapshot of {name} came, but not its end within {timeout} s. Subscribe again, with a "
                "longer timeout: it comes again as a whole."
            )


class _Keeping:
    """A reader's positions, stored whenever it moves. Threads may share it.

    A fenced reader stays fenced: what it handed out afterwards would be handled twice.
    """

    def __init__(self, keep: Callable[[Mapping[str, Position]], None], feed: Feed) -> None:
        self._keep = keep
        self._feed = feed
        self._lock = threading.Lock()
        self._failure: LakelogError | None = None

    @property
    def is_over(self) -> bool:
        """Whether no position can be stored any more."""
        return self._failure is not None

    def check(self) -> None:
        """Raises the error that ended the storing: another reader has taken over, or the table is gone."""
        if self._failure is not None:
            raise self._failure

    def move(self, positions: Mapping[str, Position]) -> None:
        """Stores new positions of some tables, all or none."""
        with self._lock:
            try:
                self._keep(positions)
            except (Fenced, NotFound) as error:
                self._failure = error
                raise

    def run(self, every_s: float, closed: threading.Event) -> None:
        """Reports the reader's presence until closed or fenced."""
        while not closed.wait(every_s) and self._failure is None:
            self.renew()

    def renew(self) -> None:
        """Reports the reader's presence; if it was fenced, a reader that waits for a batch gets the error."""
        with self._lock, contextlib.suppress(LakelogError):
            try:
                self._keep({})
            except (Fenced, NotFound) as error:
                self._failure = error
                self._feed.interrupt(error)


def check_wait(timeout: object) -> None:
    """Raises InvalidArgument if it is neither None nor a number of seconds."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0
    if timeout is not None and not is_number:
        raise InvalidArgument(
            f"timeout={timeout!r:.80} is no time to wait: give seconds, 0 or more, or None to wait for ever.",
            metadata={"field": "timeout"},
        )
