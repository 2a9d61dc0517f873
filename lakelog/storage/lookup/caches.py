"""The caches of a process for tables it reads: positions of superseded rows in memory, copies of data files on disk."""

from __future__ import annotations

import threading
from typing import Final

from lakelog.clock import Clock, SystemClock
from lakelog.options.declared.tables import (
    LOOKUP_CACHE_FILE_RETENTION,
    LOOKUP_CACHE_MAX_DISK_SIZE,
    LOOKUP_CACHE_MAX_MEMORY_SIZE,
)
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.copy_cache import CacheLimits, CopyCache, find_cache_folder
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache

_DELETION_VECTOR_BYTES: Final = 128 << 20
"""Positions of some 16 million superseded rows; others are computed again from the key columns."""


class Caches:
    """The caches of one catalog. Threads may share it.

    Args:
        folder: For local copies of data files, made on first use; None: a folder for temporary files.
        clock: For the age of copies.
    """

    def __init__(self, folder: str | None = None, clock: Clock | None = None) -> None:
        self.deletion_vectors: Final = DeletionVectorCache(_DELETION_VECTOR_BYTES)
        self.folder: Final = folder
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._copies: dict[str, tuple[CacheLimits, CopyCache]] = {}

    def find_copies(self, table_uuid: str, options: TableOptions) -> CopyCache:
        """The local copies of a table's data files, within the limits of its options.

        Raises:
            PermissionDenied: The folder for them belongs to another user.
        """
        limits = CacheLimits(
            options.get(LOOKUP_CACHE_MAX_DISK_SIZE),
            options.get(LOOKUP_CACHE_MAX_MEMORY_SIZE),
            options.get(LOOKUP_CACHE_FILE_RETENTION),
        )
        with self._lock:
            known = self._copies.get(table_uuid)
            if known is None or known[0] != limits:
                known = limits, CopyCache(find_cache_folder(self.folder) / table_uuid, limits, self._clock)
                self._copies[table_uuid] = known
            return known[1]
