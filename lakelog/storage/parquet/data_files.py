"""The data files of one read: each can be opened several times; its footer is fetched and checked once."""

from __future__ import annotations

from typing import Final

import pyarrow.parquet as pq

from lakelog.recently_used import RecentlyUsed
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.read_counts import ReadCounts
from lakelog.storage.parquet.reader import DataFileReader

_MAX_FOOTER_BYTES: Final = 16 << 20
"""Stored size; in memory footers take several times as much."""


class DataFiles:
    """Opens a table's data files and caches footers, the most recently used ones. Threads may share it.

    Merging reads from a file before its rows are read, and a read opens a file again for each portion of its row
    groups: each footer would be one more round trip to an object store, and parsing it takes longer than reading a
    point.

    Args:
        store: Where the table's files are.
        max_footer_bytes: Size limit of the cached footers; 0 caches none.
        counts: Counts row groups that are read as a whole; None: nothing is counted.
    """

    def __init__(
        self, store: ObjectStore, max_footer_bytes: int = _MAX_FOOTER_BYTES, counts: ReadCounts | None = None
    ) -> None:
        self._counts = counts
        self.store: Final = store
        self._footers: RecentlyUsed[str, pq.FileMetaData] = RecentlyUsed(
            max_footer_bytes, lambda footer: footer.serialized_size
        )

    def open(self, file: LiveFile) -> DataFileReader:
        """Opens a file for one thread; the caller closes it.

        Raises:
            DataCorrupted: It is missing, damaged, or differs from the plan.
        """
        known = self._footers.get(file.path)
        reader = DataFileReader(self.store, file, known, self._counts)
        if known is None:
            self._footers.put(file.path, reader.metadata)
        return reader
