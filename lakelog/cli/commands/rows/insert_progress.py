"""How far `lakelog insert` has come: files, bytes done of all, and rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakelog.progress.tracking import track
from lakelog.progress.work import BYTES, Work


class InsertProgress:
    """Notes what is done; `lakelog.progress` shows it.

    Args:
        total_bytes: Of all files; 0: not known.
        file_count: How many files there are.
    """

    def __init__(self, total_bytes: int, file_count: int) -> None:
        self._total_bytes = total_bytes
        self._file_count = file_count
        self._done_bytes = self._rows = self._files = 0
        self._work: Work | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows it as long as the block lasts, if it lasts long."""
        with track("inserting", BYTES, self._total_bytes or None) as work:
            self._work = work
            yield
        self._work = None

    def end_file(self, size_bytes: int) -> None:
        """Counts a file that is done, or was before."""
        self._done_bytes += size_bytes
        self._files += 1
        self._note(0)

    def add_rows(self, rows: int, bytes_read: int) -> None:
        """Counts rows that were read.

        Args:
            rows: How many.
            bytes_read: How many bytes of their file are read by now.
        """
        self._rows += rows
        self._note(bytes_read)

    def _note(self, bytes_read: int) -> None:
        if self._work is not None:
            self._work.done = self._done_bytes + bytes_read
            number = min(self._files + 1, self._file_count)
            rate = self._rows / max(time.monotonic() - self._work.began_s, 0.001)
            self._work.detail = f"{self._rows:,} rows, {rate:,.0f} rows/s, file {number}/{self._file_count}"
