"""The cost of reads: files and row groups that were read, and those that were skipped because they hold no match."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadMetrics:
    """What a read, or all reads of a subscription, have done so far.

    Attributes:
        files: Data and changelog files of the plans, without those that the metastore has excluded.
        files_opened: Files of these that were opened.
        row_groups_read: Row groups with decoded rows.
        row_groups_left_out: Row groups that were skipped by their footer's statistics.
        bytes_read: Stored size of the columns that were read.
        snapshots_skipped: Snapshots that overwrote rows and of which the changes show nothing (semantics 5.2).
    """

    files: int = 0
    files_opened: int = 0
    row_groups_read: int = 0
    row_groups_left_out: int = 0
    bytes_read: int = 0
    snapshots_skipped: int = 0


class ReadCounts:
    """Counts what reads do. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = ReadMetrics()

    @property
    def metrics(self) -> ReadMetrics:
        """The counts so far."""
        return self._counted

    def add(self, more: ReadMetrics) -> None:
        """Adds counts."""
        with self._lock:
            both = zip(vars(self._counted).values(), vars(more).values(), strict=True)
            self._counted = ReadMetrics(*(old + new for old, new in both))
