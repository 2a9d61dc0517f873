"""Snapshots and log records as one stream of events, for the single thread that shows them."""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from typing import Final

from lakelog.client.metastore.metastore import Watch, WatchEvent
from lakelog.reads.streams.log.tail import Arrived, LogTail

_QUEUED: Final = 2
"""Queue length for each kind; a full queue makes its producer wait, so a slow reader stops both."""

_JOIN_S: Final = 2.0


class End(enum.Enum):
    """The watch is over."""

    END = "end"


END: Final = End.END


class UncommittedEvents:
    """Listens to a watch and to the end of a log, each in its own thread, as long as its `with` block lasts.

    Args:
        watch: An open watch of one table; closing it ends the events.
        tail: The end of the table's log.
    """

    def __init__(self, watch: Watch, tail: LogTail) -> None:
        self._watch = watch
        self._tail = tail
        self._changed = threading.Condition()
        self._commits: deque[tuple[WatchEvent, float]] = deque()
        self._arrived: deque[Arrived] = deque()
        self._ended = False
        self._failure: BaseException | None = None
        self._closed = threading.Event()
        self._took_commit = False
        self._threads: list[threading.Thread] = []
        self.positions: dict[int, int] = {}
        """How far the log was read after the last records handed out, by partition."""
        self.received_s = 0.0
        """When the last snapshots that were handed out had been received, on the monotonic clock."""

    def __enter__(self) -> UncommittedEvents:
        for run, name in ((self._listen, "lakelog-watch"), (self._follow, "lakelog-log-tail")):
            thread = threading.Thread(target=run, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._watch.close()
        with self._changed:
            self._commits.clear()
            self._arrived.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def take(self, timeout_s: float | None) -> WatchEvent | Arrived | End | None:
        """Returns the next event; None: none came in time. If there are both kinds, they take turns.

        Raises the error that ended the watch; or the log, if the user requested it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._commits or self._arrived or self._ended or self._failure, timeout_s)
            if self._commits and not (self._arrived and self._took_commit):
                self._took_commit = True
                self._changed.notify_all()
                event, self.received_s = self._commits.popleft()
                return event
            if self._arrived:
                return self._pop_arrived()
            if self._failure is not None:
                raise self._failure
            return END if self._ended else None

    def take_arrived(self, timeout_s: float) -> Arrived | None:
        """Returns the next records of the log, before any snapshot; None: none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._ended or self._failure, timeout_s)
            return self._pop_arrived() if self._arrived else None

    def _pop_arrived(self) -> Arrived:
        self._took_commit = False
        self._changed.notify_all()
        arrived = self._arrived.popleft()
        self.positions = dict(arrived.positions)
        return arrived

    def _listen(self) -> None:
        try:
            for event in self._watch:
                received_s = time.monotonic()
                with self._changed:
                    self._changed.wait_for(lambda: len(self._commits) < _QUEUED or self._closed.is_set())
                    if self._closed.is_set():
                        return
                    self._commits.append((event, received_s))
                    self._changed.notify_all()
        except BaseException as error:
            self._fail(error)
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _follow(self) -> None:
        try:
            self._tail.run(self._put, self._closed)
        except BaseException as error:
            self._fail(error)

    def _put(self, arrived: Arrived) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrived) < _QUEUED or self._closed.is_set())
            if not self._closed.is_set():
                self._arrived.append(arrived)
                self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
