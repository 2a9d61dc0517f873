"""One watch for all subscriptions of a catalog: one thread waits for commits, however many tables are read.

The watch only says early what every reader can also list by itself. So it carries no error of one table to the readers
of others: whatever ends it, all readers look themselves, each gets its own error, and the watch begins again.

Invariants:

1. A reader learns that there may be more after the place of its tables in the watch was fixed. So it lists all
   snapshots up to that place, and gets all later ones from the watch.
2. What waits for a reader is bounded: of each table the newest snapshots. Those before are listed again.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.metastore.metastore import Metastore, Watch, WatchEvent, WatchPosition
from lakelog.errors import LakelogError
from lakelog.format.commit.order import MAX_KNOWN

_log = logging.getLogger(__name__)

_WATCHED: Final = 500
"""Tables of one watch; the metastore allows 1,000."""

_GATHER_S: Final = 0.01
"""How long to wait for further tables before the watch is opened again with new ones."""


class SharedWatches:
    """Implements `lakelog.client.metastore.metastore.ReadyWatches`. Threads may share it.

    Args:
        metastore: Reports commits.
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._listeners: list[_Listener] = []
        self._lock = threading.Lock()
        self._closed = False

    def open(self, table_uuids: Sequence[str], *, complete: bool, notify: Callable[[], None]) -> SharedWatch:
        """Opens a watch of tables; starts a thread for the first one, and for each further `_WATCHED` tables."""
        watch = SharedWatch(table_uuids, notify)
        with self._lock:
            if not self._closed:
                self._find_listener(table_uuids, complete).add(watch)
        return watch

    def close(self) -> None:
        """Ends all watches and their threads; idempotent."""
        with self._lock:
            self._closed = True
        for listener in self._listeners:
            listener.close()

    def _find_listener(self, table_uuids: Sequence[str], complete: bool) -> _Listener:
        for listener in self._listeners:
            if listener.complete == complete and listener.has_room(table_uuids):
                return listener
        self._listeners.append(_Listener(self._metastore, complete))
        return self._listeners[-1]


class SharedWatch:
    """Implements `lakelog.client.metastore.metastore.ReadyWatch`.

    Args:
        table_uuids: What is watched.
        notify: Called, from any thread, when something has come.
    """

    def __init__(self, table_uuids: Sequence[str], notify: Callable[[], None]) -> None:
        self.table_uuids: Final = frozenset(table_uuids)
        self.closed: Final = threading.Event()
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: dict[str, WatchEvent] = {}

    def __iter__(self) -> Iterator[WatchEvent | None]:
        """Yields what has come, and None while nothing has; ends when closed."""
        while not self.closed.is_set():
            yield self._take()

    def close(self) -> None:
        """Ends the watch; idempotent."""
        self.closed.set()

    def add(self, event: WatchEvent) -> None:
        """Adds an event of the tables; others are ignored."""
        if event.table_uuid not in self.table_uuids:
            return
        with self._lock:
            before = self._waiting.get(event.table_uuid)
            self._waiting[event.table_uuid] = event if before is None else _join(before, event)
        self._notify()

    def look(self, table_uuids: Collection[str]) -> None:
        """Has the reader list what is new in these of its tables."""
        for table_uuid in table_uuids:
            self.add(WatchEvent(table_uuid, (), more=True))

    def _take(self) -> WatchEvent | None:
        with self._lock:
            if not self._waiting:
                return None
            return self._waiting.pop(next(iter(self._waiting)))


def _join(before: WatchEvent, event: WatchEvent) -> WatchEvent:
    """Two successive events as one. Too many snapshots are left out, which their reader notices by the gap. Pure."""
    snapshots = before.snapshots + event.snapshots
    if before.snapshots and event.snapshots:
        follows = event.snapshots[0].snapshot_id == before.snapshots[-1].snapshot_id + 1
        snapshots = snapshots if follows and len(snapshots) <= MAX_KNOWN else event.snapshots
    return replace(event, snapshots=snapshots, dropped=before.dropped or event.dropped, more=before.more or event.more)


class _Listener:
    """A thread that listens to one watch for many readers. It ends when it is closed.

    Args:
        metastore: Reports commits.
        complete: As of `Metastore.watch`.
    """

    def __init__(self, metastore: Metastore, complete: bool) -> None:
        self.complete: Final = complete
        self._metastore = metastore
        self._policy = RetryPolicy()
        self._changed = threading.Condition()
        self._readers: list[SharedWatch] = []
        # The place of each table in the watch.
        self._places: dict[str, WatchPosition] = {}
        self._watch: Watch | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def has_room(self, table_uuids: Sequence[str]) -> bool:
        """Whether it can watch these tables as well."""
        with self._changed:
            return not self._readers or len(self._list_wanted().union(table_uuids)) <= _WATCHED

    def add(self, reader: SharedWatch) -> None:
        """Adds a reader. The tables of one that is closed leave the watch when it is opened the next time."""
        with self._changed:
            self._readers.append(reader)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lakelog-watch", daemon=True)
                self._thread.start()
            known = reader.table_uuids & self._places.keys()
            if known != reader.table_uuids:
                self._interrupt()
        reader.look(known)

    def close(self) -> None:
        """Ends the thread; idempotent."""
        with self._changed:
            self._closed = True
            self._interrupt()
        if self._thread is not None:
            self._thread.join()

    def _interrupt(self) -> None:
        self._changed.notify_all()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _list_wanted(self) -> set[str]:
        self._readers = [each for each in self._readers if not each.closed.is_set()]
        return set().union(*(each.table_uuids for each in self._readers))

    def _run(self) -> None:
        tries = 0
        new: set[str] = set()
        while not self._closed:
            failed = False
            try:
                new |= self._place()
                watch = self._open()
                if watch is None:
                    continue
                self._look(new)
                new = set()
                for event in watch:
                    tries = 0
                    self._advance(event)
            except LakelogError:
                failed = True
            except Exception:
                # A defect. Its readers would wait for ever: so they look by themselves, every few seconds.
                _log.exception("the shared watch of a catalog failed, and begins again")
                failed = True
            with self._changed:
                if not failed and self._watch is None:
                    # Other tables are wanted.
                    continue
                tries += 1
                self._interrupt()
                self._places.clear()
                wanted = self._list_wanted()
            # If it concerns them, readers find out what it is.
            self._look(wanted)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._policy.come_back_s(tries, random.random()))

    def _place(self) -> set[str]:
        """Waits until tables are wanted, and fixes the places of new ones; returns these."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._list_wanted())
            self._changed.wait_for(lambda: self._closed, _GATHER_S)
            wanted = self._list_wanted()
            self._places = {uuid: place for uuid, place in self._places.items() if uuid in wanted}
            new = wanted - self._places.keys()
        found = {}
        for table_uuid in new:
            page = self._metastore.list_snapshots(table_uuid, limit=1, newest=True)
            after = page.complete_until if self.complete else page.latest_snapshot_id
            found[table_uuid] = WatchPosition(table_uuid, after)
        with self._changed:
            self._places |= found
        return set(found)

    def _open(self) -> Watch | None:
        """Opens the watch; None: others are wanted by now."""
        with self._changed:
            if self._closed or self._list_wanted() != self._places.keys():
                return None
            self._watch = self._metastore.watch(list(self._places.values()), complete=self.complete)
            return self._watch

    def _advance(self, event: WatchEvent) -> None:
        with self._changed:
            if event.snapshots and event.table_uuid in self._places:
                last = event.snapshots[-1]
                self._places[event.table_uuid] = WatchPosition(event.table_uuid, last.snapshot_id, last.snapshot_uuid)
        for reader in self._list_readers():
            reader.add(event)

    def _look(self, table_uuids: set[str]) -> None:
        for reader in self._list_readers():
            reader.look(reader.table_uuids & table_uuids)

    def _list_readers(self) -> list[SharedWatch]:
        with self._changed:
            return list(self._readers)
