"""What a consumer begins with is held until it has a position, which keeps what comes next (semantics 5.5)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack

from lakelog.client.leased_reads import LeasedReads
from lakelog.format.tables.table import TableInfo
from lakelog.reads.stream_start import StreamStart


class LeasedStart:
    """Holds the snapshots with which a consumer begins, and all behind them, as a read that lasts does. Thread-safe.

    The rows to begin with are held while they are read. But their reader is done with them later than that, and only
    then is its position kept: in between nothing else would keep the changes that follow.

    Args:
        reads: Holds them, once they last.
    """

    def __init__(self, reads: LeasedReads) -> None:
        self._reads = reads
        self._lock = threading.Lock()
        self._leased = ExitStack()

    def begin(self, starts: Iterable[tuple[TableInfo, StreamStart]]) -> None:
        """Holds where a consumer begins, by table."""
        for table, start in starts:
            first = start.full_at or start.after
            if first:
                self._leased.enter_context(self._reads.reading(table, first))

    def end(self) -> None:
        """Holds nothing any more: the consumer has a position, or nobody reads. Idempotent."""
        with self._lock:
            leased = self._leased.pop_all()
        leased.close()
