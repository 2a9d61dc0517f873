"""Long reads lease their snapshot, so that it does not expire while they run (reliability C7).

Two objectives conflict: no read loses a file that it still needs, and a short read pays nothing for that. So a read
only registers itself in this process. A thread polls for reads that last, and leases their snapshots from the metastore
until they end. A read that loses its files all the same reports that the snapshot has expired.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock, SystemClock
from lakelog.errors import FILE_MISSING, DataCorrupted, LakelogError, SnapshotExpired
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.table import TableInfo

_log = logging.getLogger(__name__)

_LONG_S: Final = 30.0
"""A read that lasts longer leases its snapshot."""

_LEASE_S: Final = 60.0
"""The longest time that a dead process keeps its snapshots from expiring."""


@dataclass
class _Read:
    table_uuid: str
    snapshot_id: int
    due_s: float
    """When the lease is due, or due again."""
    holder: str = ""
    is_leased: bool = False
    is_over: bool = False


class LeasedReads:
    """The running reads of one catalog in this process. Thread-safe.

    Args:
        metastore: Where snapshots are leased.
        long_s: How long a read lasts before its snapshot is leased.
        lease_s: The duration of each lease.
        clock: Measures how long reads have lasted.
    """

    def __init__(
        self,
        metastore: Metastore,
        *,
        long_s: float = _LONG_S,
        lease_s: float = _LEASE_S,
        clock: Clock | None = None,
    ) -> None:
        self._metastore = metastore
        self._long_s = long_s
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self._numbers = itertools.count()
        self._is_closed = False
        self._forget()

    @property
    def poll_every_s(self) -> float:
        """The time between two polls for reads that last."""
        return self._long_s / 3

    @contextlib.contextmanager
    def reading(
        self,
        table: TableInfo,
        snapshot_id: int,
        *,
        is_range: bool = False,
        of_changelogs: bool = False,
        at_once: bool = False,
    ) -> Iterator[None]:
        """Protects a snapshot, and all later ones, from expiring if the block lasts.

        Args:
            table: The table.
            snapshot_id: The earliest snapshot that is read.
            is_range: The read needs all changes from that snapshot on, not only its state.
            of_changelogs: It reads the changes only from changelog files, which may be retained longer than states.
            at_once: The read is known to last, so it leases the snapshot at once. Blocks on the metastore.

        Raises:
            SnapshotExpired: A file is missing because the snapshot has expired.
        """
        number, read = self._begin(table.table_uuid, snapshot_id)
        if at_once:
            self._lease(read, self._clock.monotonic_s())
        try:
            yield
        except DataCorrupted as error:
            if error.reason == FILE_MISSING:
                self._check_retained(table, snapshot_id, is_range, of_changelogs, error)
            raise
        finally:
            self._end(number, read)

    def close(self) -> None:
        """Ends all leases; idempotent."""
        self._is_closed = True

    @property
    def is_reading(self) -> bool:
        """Whether any read runs."""
        return bool(self._reads)

    def _forget(self) -> None:
        self._pid = os.getpid()
        # SUBTLE: the garbage collector closes an iterator that its reader left open, in whatever thread it runs, so
        # also inside of this lock.
        self._lock = threading.RLock()
        self._reads: dict[int, _Read] = {}

    def _begin(self, table_uuid: str, snapshot_id: int) -> tuple[int, _Read]:
        if self._pid != os.getpid():
            # SUBTLE: in a forked child these are reads of its parent, and the owner of the lock is unknown.
            self._forget()
        number = next(self._numbers)
        read = _Read(table_uuid, snapshot_id, self._clock.monotonic_s() + self._long_s)
        with self._lock:
            self._reads[number] = read
        # SUBTLE: after the line above, else the poller could find nothing to read and forget us in between.
        _POLLER.add(self)
        return number, read

    def _end(self, number: int, read: _Read) -> None:
        with self._lock:
            self._reads.pop(number, None)
            read.is_over = True
            is_leased = read.is_leased
        if is_leased:
            # Otherwise the lease ends by itself, somewhat later.
            with contextlib.suppress(LakelogError):
                self._metastore.release_snapshot(read.table_uuid, read.holder)

    def look(self) -> None:
        """Leases the snapshots of reads that last; the polling thread calls it."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            reads = [] if self._is_closed else list(self._reads.values())
        due = [read for read in reads if read.due_s <= now_s]
        for read in due:
            self._lease(read, now_s)

    def _lease(self, read: _Read, now_s: float) -> None:
        read.due_s = now_s + self._lease_s / 3
        read.holder = read.holder or f"read by {socket.gethostname()[:100]}:{os.getpid()} {uuid.uuid4().hex[:12]}"
        try:
            self._metastore.lease_snapshot(read.table_uuid, read.holder, read.snapshot_id, int(self._lease_s * 1000))
        except SnapshotExpired:
            # No lease is possible any more; perhaps no file of the snapshot is missing yet.
            read.due_s = float("inf")
            return
        except LakelogError:
            # The next poll requests it again.
            return
        with self._lock:
            read.is_leased = True
            is_over = read.is_over
        if is_over:
            with contextlib.suppress(LakelogError):
                self._metastore.release_snapshot(read.table_uuid, read.holder)

    def _check_retained(
        self, table: TableInfo, snapshot_id: int, is_range: bool, of_changelogs: bool, error: DataCorrupted
    ) -> None:
        try:
            if is_range:
                page = self._metastore.list_snapshots(table.table_uuid, limit=1)
                earliest = page.earliest_change_id if of_changelogs else page.earliest_snapshot_id
                if snapshot_id >= earliest:
                    return
                left = f"snapshots {earliest} to {page.latest_snapshot_id} can still be read"
            else:
                # Any bucket will do: the metastore checks whether the snapshot is retained before it looks for files.
                self._metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(snapshot_id), buckets=(0,)))
                return
        except SnapshotExpired as expired:
            left = expired.message.partition("; ")[2].rstrip(".") or "later ones can still be read"
        except LakelogError:
            # Whether it has expired is unknown; only the missing file is certain.
            return
        raise SnapshotExpired(
            f"Snapshot {snapshot_id} of {table.name} expired while it was read, and a file of it is gone; {left}. Read "
            "one of these. Snapshots that are read for long are kept by a tag, or by a longer "
            "'snapshot.time-retained'.",
            metadata={"table": str(table.name), "snapshot_id": str(snapshot_id)},
        ) from error


class _Poller:
    """The one thread of a process that polls its reads; it exists only while something is read."""

    _thread: threading.Thread | None
    _active: frozenset[LeasedReads]

    def __init__(self) -> None:
        self._forget()

    def add(self, reads: LeasedReads) -> None:
        """Adds the reads of a catalog to the poll."""
        if self._pid != os.getpid():
            # SUBTLE: threads do not survive in a forked child, and the owner of the lock is unknown.
            self._forget()
        with self._lock:
            self._active |= {reads}
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lakelog-held-reads", daemon=True)
                self._thread.start()
            elif reads.poll_every_s < self._pause_s:
                self._sooner.set()

    def _remove(self, reads: LeasedReads) -> None:
        with self._lock:
            self._active -= {reads}

    def _forget(self) -> None:
        self._pid = os.getpid()
        # SUBTLE: reads that end do not take this lock: they may end inside of it.
        self._lock = threading.Lock()
        self._active = frozenset()
        self._thread = None
        self._pause_s = _LONG_S
        self._sooner = threading.Event()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._pause_s = min((reads.poll_every_s for reads in self._active), default=_LONG_S / 3)
                self._sooner.clear()
            is_sooner = self._sooner.wait(self._pause_s)
            with self._lock:
                self._active = frozenset(reads for reads in self._active if reads.is_reading)
                active = self._active
                if not active and not is_sooner:
                    self._thread = None
                    return
            for reads in active:
                try:
                    reads.look()
                except Exception:
                    # One catalog's fault must not stop the poll for the reads of all others.
                    _log.exception("reads that last could not be held; they go on, for as long as nothing expires")
                    self._remove(reads)


_POLLER: Final = _Poller()
