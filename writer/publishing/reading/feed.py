"""Snapshots as they are committed, pushed by the metastore."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from lakelog.client.metastore.metastore import Metastore, Watch, WatchPosition
from lakelog.errors import InternalError, LakelogError, NotFound
from lakelog.format.tables.snapshot import Snapshot

_EVENTS: Final = 4
"""Of up to 1000 snapshots each; while as many wait, nothing is read from the metastore."""


class SnapshotFeed(Protocol):
    """Returns each snapshot after a position, without gaps. One thread takes."""

    def take(self, wait_s: float) -> Sequence[Snapshot]:
        """The next snapshots, rising; none if no snapshot has come within the wait.

        Raises:
            NotFound: The table was dropped.
            HistoryDiverged: The next snapshot does not follow the position.
            LakelogError: The error that ended the watch.
        """
        ...

    def close(self) -> None:
        """Ends it; idempotent, from any thread."""
        ...


class WatchFeed:
    """Implements `SnapshotFeed` with a watch that its own thread reads.

    Args:
        metastore: Sends the snapshots.
        position: The position after which it begins.
        complete: Return a snapshot only once its changelog is there.
    """

    def __init__(self, metastore: Metastore, position: WatchPosition, *, complete: bool) -> None:
        self._table_uuid: Final = position.table_uuid
        self._watch: Watch = metastore.watch([position], complete=complete)
        self._closed = threading.Event()
        self._events: queue.Queue[Sequence[Snapshot] | LakelogError] = queue.Queue(_EVENTS)
        self._thread = threading.Thread(target=self._read, name="publisher-watch", daemon=True)
        self._thread.start()

    def take(self, wait_s: float) -> Sequence[Snapshot]:
        """Implements `SnapshotFeed.take`."""
        found: list[Snapshot] = []
        # No more than those that wait: in a long backlog the next ones come as fast as these are taken.
        for _ in range(_EVENTS):
            try:
                event = self._events.get(timeout=wait_s) if not found and wait_s > 0 else self._events.get_nowait()
            except queue.Empty:
                break
            if isinstance(event, LakelogError):
                # Earlier snapshots count; the next call raises the error.
                self._put(event)
                if found:
                    break
                raise event
            found += event
        return found

    def close(self) -> None:
        """Implements `SnapshotFeed.close`."""
        self._closed.set()
        self._watch.close()

    def _read(self) -> None:
        try:
            for event in self._watch:
                if event.snapshots:
                    self._put(event.snapshots)
                if event.dropped:
                    break
            # It ends by itself only then; after `close` no one needs the error.
            self._put(
                NotFound(
                    f"Table {self._table_uuid} was dropped, so that nothing more is published.",
                    reason="TABLE_NOT_FOUND",
                    metadata={"table_uuid": self._table_uuid},
                )
            )
        except LakelogError as error:
            self._put(error)
        except Exception as defect:
            # No one sees an exception of this thread: the table would wait for snapshots forever.
            self._put(InternalError(f"The watch has failed: {type(defect).__name__}: {defect}"))

    def _put(self, event: Sequence[Snapshot] | LakelogError) -> None:
        while not self._closed.is_set():
            try:
                self._events.put(event, timeout=0.5)
            except queue.Full:
                continue
            return
