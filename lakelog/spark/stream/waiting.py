"""Waits for a table's next snapshot, which the metastore reports; Spark itself would poll every 10 ms."""

from __future__ import annotations

import threading
from contextlib import closing

from lakelog.client.metastore.metastore import Metastore, Watch, WatchPosition
from lakelog.errors import LakelogError


class SnapshotWaiter:
    """Knows how far a table is; a thread watches it. One thread waits, any thread may close it.

    It only saves calls: the next call to the metastore finds what it misses.

    Args:
        metastore: Reports snapshots.
        position: The position from which on it watches.
        complete: Report a snapshot only when no changelog up to and including its own is pending.
    """

    def __init__(self, metastore: Metastore, position: WatchPosition, *, complete: bool) -> None:
        self._complete = complete
        self._metastore = metastore
        self._position = position
        self._changed = threading.Condition()
        self._latest = position.after
        self._is_over = False
        self._watch: Watch | None = None
        threading.Thread(target=self._run, name="lakelog-wait", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether it receives nothing any more: it is closed, or the connection broke."""
        return self._is_over

    def wait(self, after: int, timeout_s: float) -> bool:
        """Returns when there is a snapshot after `after`, when it is over, or at the end of the time.

        Returns:
            Whether there is one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._latest > after or self._is_over, timeout_s)
            return self._latest > after

    def close(self) -> None:
        """Ends the watch; idempotent."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._watch is not None:
            self._watch.close()

    def _run(self) -> None:
        try:
            with closing(self._metastore.watch([self._position], complete=self._complete)) as watch:
                self._watch = watch
                for event in watch:
                    with self._changed:
                        if self._is_over or event.dropped:
                            return
                        if event.snapshots:
                            self._latest = event.snapshots[-1].snapshot_id
                        self._changed.notify_all()
        except LakelogError:
            # Whatever the error is, the next call to the metastore raises it where a user sees it.
            return
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
