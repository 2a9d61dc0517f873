"""What reads have cost: files and row groups that were read, and those left out because they hold no match."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadMetrics:
    """What a read, or all reads of a subscription, have done so far.

    Attributes:
        files: Data and changelog files that plans named: the metastore has left out those that surely hold no match.
        files_opened: Of these, those that were opened.
        row_groups_read: Row groups of which rows were decoded.
        row_groups_left_out: Row groups that their footer's statistics left out.
        bytes_read: Of the columns that were read, as stored.
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
        """What was counted so far."""
        return self._counted

    def add(self, more: ReadMetrics) -> None:
        """Counts more."""
        with self._lock:
            both = zip(vars(self._counted).values(), vars(more).values(), strict=True)
            self._counted = ReadMetrics(*(old + new for old, new in both))
