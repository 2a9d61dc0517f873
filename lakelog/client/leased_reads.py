"""Reads that last long hold their snapshot, so that it does not expire under their hands (reliability C7).

Objectives, which pull against each other: no read loses a file that it still needs; a read that is over in a moment
pays nothing for that. So a read only writes itself down in this process; a thread looks now and then for those that
last, and holds their snapshots in the metastore until they end. What is lost all the same says that it has expired.
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
"""A read that lasts longer is held."""

_LEASE_S: Final = 60.0
"""A process that dies keeps its snapshots for so long at most."""


@dataclass
class _Read:
    table_uuid: str
    snapshot_id: int
    due_s: float
    """When it is to be held, again."""
    holder: str = ""
    is_leased: bool = False
    is_over: bool = False


class LeasedReads:
    """The reads of one catalog that are going on in this process. Thread-safe.

    Args:
        metastore: Who holds snapshots.
        long_s: How long a read lasts before it is held.
        lease_s: For how long it is held each time.
        clock: For how long reads have lasted.
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
        """How often is to be looked whether a read lasts."""
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
        """Holds a snapshot, and all behind it, if the block lasts.

        Args:
            table: The table.
            snapshot_id: The earliest snapshot that is read.
            is_range: Changes are read, from that snapshot on, and not its state alone.
            of_changelogs: They are read from changelog files only, which may be kept longer than states.
            at_once: It is known to last: held from its begin on. Blocks on the metastore.

        Raises:
            SnapshotExpired: A file that is missing is so because the snapshot has expired.
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
        """Holds nothing any more; idempotent."""
        self._is_closed = True

    @property
    def is_reading(self) -> bool:
        """Whether anything is being read."""
        return bool(self._reads)

    def _forget(self) -> None:
        self._pid = os.getpid()
        # SUBTLE: an iterator that nobody has closed is closed by the garbage collector, in whatever thread it runs and
        # also inside of this lock.
        self._lock = threading.RLock()
        self._reads: dict[int, _Read] = {}

    def _begin(self, table_uuid: str, snapshot_id: int) -> tuple[int, _Read]:
        if self._pid != os.getpid():
            # SUBTLE: in a forked child these are reads of its parent, nor is it known who holds the lock.
            self._forget()
        number = next(self._numbers)
        read = _Read(table_uuid, snapshot_id, self._clock.monotonic_s() + self._long_s)
        with self._lock:
            self._reads[number] = read
        # SUBTLE: behind the line above, else what looks could find nothing to read and forget us in between.
        _POLLER.add(self)
        return number, read

    def _end(self, number: int, read: _Read) -> None:
        with self._lock:
            self._reads.pop(number, None)
            read.is_over = True
            is_leased = read.is_leased
        if is_leased:
            # It ends by itself otherwise, somewhat later.
            with contextlib.suppress(LakelogError):
                self._metastore.release_snapshot(read.table_uuid, read.holder)

    def look(self) -> None:
        """Holds what lasts; from the thread that looks."""
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
            # Nothing can be held any more; perhaps no file of it is missing yet.
            read.due_s = float("inf")
            return
        except LakelogError:
            # Asked for again at the next look.
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
                # Any bucket will do: whether the snapshot is kept is told before files are looked for.
                self._metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(snapshot_id), buckets=(0,)))
                return
        except SnapshotExpired as expired:
            left = expired.message.partition("; ")[2].rstrip(".") or "later ones can still be read"
        except LakelogError:
            # Not known: then what is known is that a file is missing.
            return
        raise SnapshotExpired(
            f"Snapshot {snapshot_id} of {table.name} expired while it was read, and a file of it is gone; {left}. Read "
            "one of these. Snapshots that are read for long are kept by a tag, or by a longer "
            "'snapshot.time-retained'.",
            metadata={"table": str(table.name), "snapshot_id": str(snapshot_id)},
        ) from error


class _Poller:
    """The one thread of a process that looks at its reads; there is none while nothing is read."""

    _thread: threading.Thread | None
    _active: frozenset[LeasedReads]

    def __init__(self) -> None:
        self._forget()

    def add(self, reads: LeasedReads) -> None:
        """Has the reads of a catalog looked at."""
        if self._pid != os.getpid():
            # SUBTLE: threads do not survive in a forked child, nor is it known who holds the lock.
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
        # SUBTLE: reads that end do not take it: they may do so inside of it.
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
                    # One catalog's fault shall not leave the reads of all others without anybody who looks at them.
                    _log.exception("reads that last could not be held; they go on, for as long as nothing expires")
                    self._remove(reads)


_POLLER: Final = _Poller()
