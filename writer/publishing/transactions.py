"""Which snapshots share a transaction of the log, and where a large one is cut. Pure.

Several small waiting snapshots share one, so that a backlog is published quickly. Each is completely in one
transaction, so that readers of committed records see all of it or nothing. A snapshot that is too large for that is
published alone in chunks, because a transaction hides its records, and all later ones, from readers until its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

from .reading.snapshot_log import SnapshotLog


@dataclass(frozen=True)
class TransactionLimits:
    """How much one transaction takes.

    Args:
        rows: At most this many rows; a larger snapshot is published in chunks.
        size_bytes: The same for the stored bytes of its files.
        snapshots: At most this many snapshots.
        chunk_records_bytes: A chunk ends once it has this many bytes of keys and values.
        chunk_s: Or once it has taken this long.
    """

    rows: int = 100_000
    size_bytes: int = 32 << 20
    snapshots: int = 1000
    chunk_records_bytes: int = 64 << 20
    chunk_s: float = 5.0

    def is_large(self, log: SnapshotLog) -> bool:
        """Whether a snapshot is published in chunks."""
        return log.row_count > self.rows or log.size_bytes > self.size_bytes


def pick_together(logs: Collection[SnapshotLog], limits: TransactionLimits) -> int:
    """How many of the waiting snapshots the next transaction takes: the first ones, at least one.

    Args:
        logs: The logs of the snapshots in their order, at least one.
        limits: The limits of a transaction.

    Returns:
        Their number. If it is 1 and that one is large, it is to be published in chunks; a large one is never taken
        together with others.
    """
    rows = size_bytes = 0
    for count, log in enumerate(itertools.islice(logs, limits.snapshots)):
        rows += log.row_count
        size_bytes += log.size_bytes
        if count and (rows > limits.rows or size_bytes > limits.size_bytes):
            return count
    return min(len(logs), limits.snapshots)
