"""Leases the beginning of a consumer until it has a position, which retains what comes next (semantics 5.5)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack

from lakelog.client.leased_reads import LeasedReads
from lakelog.format.tables.table import TableInfo
from lakelog.reads.stream_start import StreamStart


class LeasedStart:
    """Leases the snapshots with which a consumer begins, and all later ones, like a long read. Thread-safe.

    The initial rows are leased while they are read. But their reader finishes later, and only then is its position
    stored: in between nothing else would retain the changes that follow.
    """

    def __init__(self, reads: LeasedReads) -> None:
        self._reads = reads
        self._lock = threading.Lock()
        self._leased = ExitStack()

    def begin(self, starts: Iterable[tuple[TableInfo, StreamStart]]) -> None:
        """Leases the beginning of a consumer, by table."""
        for table, start in starts:
            first = start.full_at or start.after
            if first:
                self._leased.enter_context(self._reads.reading(table, first))

    def end(self) -> None:
        """Releases the leases: the consumer has a position, or its reader is gone. Idempotent."""
        with self._lock:
            leased = self._leased.pop_all()
        leased.close()
