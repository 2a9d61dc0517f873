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
"""Of up to 1000 snapshots each; then the metastore is not read from until some are taken."""


class SnapshotFeed(Protocol):
    """Tells of each snapshot behind a position, none left out. One thread takes."""

    def take(self, wait_s: float) -> Sequence[Snapshot]:
        """The next ones, rising; none when nothing has come within the wait.

        Raises:
            NotFound: The table was dropped.
            HistoryDiverged: The next snapshot does not follow the position.
            LakelogError: What ended the watch.
        """
        ...

    def close(self) -> None:
        """Ends it; idempotent, from any thread."""
        ...


class WatchFeed:
    """Implements `SnapshotFeed` by a watch that a thread of its own reads.

    Args:
        metastore: Who tells.
        position: Behind which it begins.
        complete: Tell of a snapshot only once its changelog is there.
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
        # No more than wait at a time: of a long backlog others come as fast as these are taken.
        for _ in range(_EVENTS):
            try:
                event = self._events.get(timeout=wait_s) if not found and wait_s > 0 else self._events.get_nowait()
            except queue.Empty:
                break
            if isinstance(event, LakelogError):
                # What came before it counts; whoever asks again is told.
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
            # It ends by itself only then; who has closed it is told nothing.
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
            # Nobody looks at what this thread raises: the table would wait for snapshots for ever.
            self._put(InternalError(f"The watch has failed: {type(defect).__name__}: {defect}"))

    def _put(self, event: Sequence[Snapshot] | LakelogError) -> None:
        while not self._closed.is_set():
            try:
                self._events.put(event, timeout=0.5)
            except queue.Full:
                continue
            return
