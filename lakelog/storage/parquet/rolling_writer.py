"""Writes the rows of one bucket, as they come, into successive files of the target size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.file_builder import FileBuilder
from lakelog.storage.parquet.writer import FileEncoding, plan_encoding, row_group_length
from lakelog.storage.parquet.writer_thread import WriterThread

Kinds = npt.NDArray[np.int8]


class RollingWriter:
    """Encodes and writes in a thread beside its caller, which waits when it is two row groups ahead.

    `finish` or `abort` ends it, and `abort` may follow `finish`. For one thread at a time.

    Args:
        store: Where the files are.
        start_file: Begins the file of a number, 0 first, with the given encoding.
        compression: As of the option `file.compression`.
        target_size_bytes: The size from which on a file is full.
    """

    def __init__(
        self,
        store: ObjectStore,
        start_file: Callable[[int, FileEncoding], FileBuilder],
        compression: str,
        target_size_bytes: int,
    ) -> None:
        self._store = store
        self._start_file = start_file
        self._compression: Final = compression
        self._target_bytes: Final = target_size_bytes
        self._encoding: FileEncoding | None = None
        self._writer_thread = WriterThread()
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._has_submitted = False
        self._done: list[DataFile] = []
        self._builder: FileBuilder | None = None
        self._paths: list[str] = []

    def write(self, rows: pa.Table) -> None:
        """Adds rows, as a `FileBuilder` does, with their kinds in `_row_kind` if the files have that column."""
        self._writer_thread.check()
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        length = row_group_length(rows, self._target_bytes)
        if self._waiting_rows >= length:
            self._submit(self._waiting_rows // length * length)

    def finish(self) -> tuple[DataFile, ...]:
        """Writes the waiting rows, makes all files durable and returns them in the order of their rows."""
        if not self._has_submitted:
            # With so few rows, starting the thread would take longer.
            self._writer_thread.stay_here()
        if self._waiting_rows:
            self._submit(self._waiting_rows)
        self._writer_thread.submit(self._close)
        self._writer_thread.close()
        return tuple(self._done)

    def abort(self) -> None:
        """Removes every file that was written; does not raise for files that remain."""
        self._writer_thread.cancel()
        if self._builder is not None:
            self._builder.abort()
        # Files that remain belong to an attempt that is never committed; the orphan collector finds them.
        with contextlib.suppress(LakelogError):
            self._store.delete_many(self._paths)

    def _submit(self, count: int) -> None:
        """Passes this many rows on: whole row groups, as long as more rows may come."""
        waiting = pa.concat_tables(self._waiting)
        if self._encoding is None:
            self._encoding = plan_encoding(waiting, self._compression)
        left = waiting.slice(count)
        self._waiting, self._waiting_rows = [left] if left.num_rows else [], left.num_rows
        self._has_submitted = True
        self._writer_thread.submit(partial(self._write, waiting.slice(0, count)))

    def _write(self, rows: pa.Table) -> None:
        kinds: Kinds | None = None
        if ROW_KIND_COLUMN in rows.schema.names:
            kinds = rows.column(ROW_KIND_COLUMN).to_numpy().astype(np.int8)
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        while rows.num_rows:
            count = rows.num_rows
            if self._builder is not None and self._builder.is_full:
                count = self._builder.count_going_on(rows)
                if count == 0:
                    self._close()
                    count = rows.num_rows
            if self._builder is None:
                assert self._encoding is not None, "there were rows"
                self._builder = self._start_file(len(self._done), self._encoding)
                self._paths.append(self._builder.path)
            taken = self._builder.write_until_full(rows.slice(0, count), None if kinds is None else kinds[:count])
            rows, kinds = rows.slice(taken), None if kinds is None else kinds[taken:]

    def _close(self) -> None:
        if self._builder is not None:
            self._done.append(self._builder.finish())
            self._builder = None
