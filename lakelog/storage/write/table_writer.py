"""Writes a table's rows into the data files of one attempt, in bounded memory.

Objectives, which conflict: as few and as large files as the target size allows; memory bounded for any input; both
cores busy; the same rows in the same calls make the same files. So:

1. Rows of primary-key tables are collected up to `write-buffer-size`. Then the rows of each bucket become one sorted
   run with one row per key, and the next buffer makes further runs, which come later in the commit's order.
2. Rows of append tables are collected by partition and bucket and written a row group at a time, in the order of
   arrival. If more rows wait than the buffer holds, the largest groups are written first; if too many files are open,
   the least recently used one is finished.
3. Two writer threads encode and write, each in order; a bucket belongs to one thread, so its order survives. The caller
   waits when a thread is two row groups behind. The caller itself does work that is so little that starting the threads
   would take longer.
4. The next call raises an error of a writer thread; `abort` then removes all files.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.format.commit.log_content import to_log_file
from lakelog.format.merge.runs import merge_batch
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import concat_kinds
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import FILE_COMPRESSION, WRITE_BUFFER_SIZE
from lakelog.options.values import TableOptions
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.file_builder import FileBuilder
from lakelog.storage.parquet.writer import ROW_GROUP_BYTES, FileEncoding, plan_encoding, plan_file_schema
from lakelog.storage.parquet.writer_thread import WriterThread
from lakelog.storage.write.input_copies import InputCopies, find_copied, plan_copy_encoding
from lakelog.storage.write.routing import RoutedRows, order_by_key, route_rows, to_routing

LANES: Final = 2
_MAX_OPEN_FILES: Final = 64
_WORTH_A_THREAD_BYTES: Final = 256 << 10
"""Arrow memory that takes about 1 ms to encode; starting and ending two threads takes half of that."""

_WORTH_A_THREAD_FILES: Final = 8
"""Files of any size: making a file durable waits for the disk, and two can wait at once."""

_KEPT_BYTES: Final = 64 << 20
"""Size of rows that are kept for a lookup; more are read back, since memory must not grow with what is written."""

_PENDING_ROWS: Final = 131_072
"""Rows of an append table that are passed to a file at once, some row groups: fewer would cost more calls."""

_ROWS_BEFORE_SECOND_FILE: Final = 4 * _PENDING_ROWS
"""Up to here, rows without an order fill only one file; more are worth a second file that is written beside it."""

Kinds = npt.NDArray[np.int8]
GroupKey = tuple[bytes, int, int]
"""Encoded partition, bucket, and the number of the file beside others of the same bucket."""


@dataclass
class _Pending:
    """Rows of one bucket of an append table that wait until they are worth a write."""

    number: int
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0
    files: list[DataFile] = field(default_factory=list)
    open_file: FileBuilder | None = None


class TableWriter:
    """Writes rows into new files of a table. For one thread at a time; blocks on storage.

    Exactly one of `finish` and `abort` ends it.

    Args:
        store: Where the table's files are.
        schema: The schema to write with.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        name_prefix: Prefix of each file's name; tasks that write for one attempt must have different ones.
        copies: Which records are also written as they arrived: for the producer `input`, or for the external log.
        keeps_runs: Keep the rows of small files for lookups of their old rows (`runs`).
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        options: TableOptions,
        attempt_id: str,
        *,
        name_prefix: str = "",
        copies: InputCopies = InputCopies.NONE,
        keeps_runs: bool = False,
    ) -> None:
        has_key = bool(schema.primary_key)
        self._store = store
        self._schema = schema
        self._routing = to_routing(schema, options)
        self._policy = to_merge_policy(schema, options) if has_key else None
        self._compression: str = options.get(FILE_COMPRESSION)
        self._buffer_bytes: int = options.get(WRITE_BUFFER_SIZE)
        self._target_bytes = options.target_file_size_bytes(has_key)
        self._attempt_id = attempt_id
        self._name_prefix = name_prefix
        self._writer_threads = [WriterThread() for _ in range(LANES)]
        self._encoding: FileEncoding | None = None
        self._builders: list[FileBuilder] = []
        self._runs: list[list[DataFile]] = []
        self._copies = copies
        self._inputs: list[list[DataFile]] = []
        self._kept: dict[str, pa.Table] | None = {} if keeps_runs else None
        self._kept_bytes = 0
        self._keeping = threading.Lock()
        self._buffer: list[tuple[pa.Table, Kinds | None]] = []
        self._buffered_bytes = 0
        self._pending: dict[GroupKey, _Pending] = {}
        self._pending_bytes = 0
        self._is_unordered = self._routing.bucket_count <= 0 and not schema.partition_by
        self._beside = 0
        self._rows = 0
        # The groups whose files may be open, the least recently used first; only the caller's thread uses it.
        self._open: dict[GroupKey, None] = {}

    @property
    def row_count(self) -> int:
        """The number of rows so far."""
        return self._rows

    @property
    def copies(self) -> tuple[DataFile, ...]:
        """The files with records as they arrived, after `finish`; some may be data files, without statistics."""
        return tuple(file for files in self._inputs for file in files)

    @property
    def runs(self) -> Mapping[str, pa.Table]:
        """Rows of primary-key files by path, as a read of the file returns them; only as many as take little memory."""
        return self._kept or {}

    def write(self, table: pa.Table, kinds: Kinds | None = None) -> None:
        """Adds rows, in the order that decides between rows of one key.

        Args:
            table: The table's columns in their types; in deletes, columns outside the key may be NULL.
            kinds: A code for each row; None: all are +I, as always in append tables.
        """
        for thread in self._writer_threads:
            thread.check()
        self._rows += table.num_rows
        # Slices, which copy nothing: a table larger than the buffer passes through it in parts.
        length = max(1, table.num_rows * self._buffer_bytes // max(1, table.nbytes))
        for start in range(0, table.num_rows, length):
            part = table.slice(start, length)
            if self._policy is None:
                self._write_append(part)
            else:
                self._buffer_run(part, None if kinds is None else kinds[start : start + length])

    def finish(self) -> tuple[DataFile, ...]:
        """Writes the waiting rows, makes all files durable and returns them in the order for the commit."""
        is_little = self._pending_bytes + self._buffered_bytes < _WORTH_A_THREAD_BYTES
        if self._buffer:
            self._flush_runs(is_little)
        if is_little:
            self._spare_threads(len(self._pending))
        for key, pending in self._pending.items():
            self._submit_pending(key, pending)
            self._thread_of(key).submit(partial(_close, pending))
            self._open.pop(key, None)
        for thread in self._writer_threads:
            thread.close()
        runs = [file for run in self._runs for file in run]
        return (*runs, *(file for pending in self._pending.values() for file in pending.files))

    def abort(self) -> None:
        """Removes every file that was written; does not raise for files that remain."""
        for thread in self._writer_threads:
            thread.cancel()
        for builder in self._builders:
            builder.abort()
        written = [builder.path for builder in self._builders]
        try:
            self._store.delete_many(written)
        except LakelogError:
            # Files that remain belong to an attempt that is never committed; the orphan collector finds them.
            return

    # Primary-key tables: sorted runs

    def _buffer_run(self, table: pa.Table, kinds: Kinds | None) -> None:
        self._buffer.append((table, kinds))
        self._buffered_bytes += table.nbytes
        if self._buffered_bytes >= self._buffer_bytes:
            self._flush_runs()

    def _flush_runs(self, is_little: bool = False) -> None:
        tables = [table for table, _ in self._buffer]
        table = pa.concat_tables(tables).combine_chunks()
        kinds = concat_kinds(self._buffer)
        self._buffer, self._buffered_bytes = [], 0
        encoding = self._plan_encoding(table)
        places = route_rows(table, self._routing)
        if is_little:
            self._spare_threads(len(places))
        for routed in places:
            run: list[DataFile] = []
            self._runs.append(run)
            self._inputs.append([])
            thread = self._writer_threads[len(self._runs) % LANES]
            thread.submit(partial(self._write_run, len(self._runs), table, kinds, routed, encoding, run))
        # The buffer's memory must be free before the next one is filled.
        for thread in self._writer_threads:
            thread.wait()

    def _write_run(
        self,
        number: int,
        table: pa.Table,
        kinds: Kinds | None,
        routed: RoutedRows,
        encoding: FileEncoding,
        run: list[DataFile],
    ) -> None:
        """Writes one bucket's rows as one sorted run, in as many files as the target size requires."""
        assert self._policy is not None, "only tables with a key have runs"
        rows, inputs = self._merge(table, routed), self._inputs[number - 1]
        copied = find_copied(self._copies, self._policy, routed, rows, kinds)
        if copied is not None:
            records = order_by_key(table, copied, self._policy.key)
            codes = np.zeros(len(records), np.int8) if kinds is None else kinds[records]
            ordered = table.take(pa.array(records))
            name, copying = f"changelog-{number:05d}", plan_copy_encoding(self._copies, encoding)
            self._write_sorted(name, ordered, codes, routed, copying, inputs, keeps=False)
        run_kinds = None
        if rows is not None:
            table = table.take(pa.array(rows))
        if kinds is not None:
            run_kinds = kinds if rows is None else kinds[rows]
            run_kinds = run_kinds if run_kinds.any() else None
        self._write_sorted(f"{number:05d}", table, run_kinds, routed, encoding, run, keeps=self._kept is not None)
        if self._copies is InputCopies.MERGED and copied is not routed:
            inputs += map(to_log_file, run)

    def _write_sorted(
        self,
        name: str,
        table: pa.Table,
        kinds: Kinds | None,
        routed: RoutedRows,
        encoding: FileEncoding,
        files: list[DataFile],
        *,
        keeps: bool,
    ) -> None:
        while table.num_rows:
            numbered = f"{name}-{len(files):03d}"
            builder = self._start_file(numbered, routed.partition, routed.bucket, encoding, kinds is not None)
            taken = builder.write_until_full(table, kinds)
            files.append(builder.finish())
            if keeps:
                self._keep(files[-1], table.slice(0, taken), None if kinds is None else kinds[:taken])
            table = table.slice(taken)
            kinds = None if kinds is None else kinds[taken:]

    def _keep(self, file: DataFile, table: pa.Table, kinds: Kinds | None) -> None:
        with self._keeping:
            if self._kept is None or self._kept_bytes + table.nbytes > _KEPT_BYTES:
                return
            self._kept_bytes += table.nbytes
        stored = plan_file_schema(self._schema, with_row_kind=kinds is not None and file.delete_count > 0)
        columns = [*table.columns, *([pa.chunked_array([pa.array(kinds)])] if len(stored) > table.num_columns else [])]
        self._kept[file.path] = pa.Table.from_arrays(columns, schema=stored)

    def _merge(self, table: pa.Table, routed: RoutedRows) -> npt.NDArray[np.int64] | None:
        """The positions of the kept rows of a bucket, in the order of the key; None: all rows as they are."""
        assert self._policy is not None
        narrow = table.select([*self._policy.key, *self._policy.sequence])
        indices = np.arange(table.num_rows) if routed.indices is None else routed.indices
        if routed.indices is not None:
            narrow = narrow.take(pa.array(indices))
        numbered = narrow.append_column(_POSITION_COLUMN, pa.array(indices))
        merged = merge_batch(
            numbered,
            self._policy.key,
            self._policy.sequence,
            sequence_descending=self._policy.sequence_descending,
            keep_first=self._policy.keep_first,
        )
        if merged is numbered and routed.indices is None:
            return None
        kept: npt.NDArray[np.int64] = merged.column(_POSITION_COLUMN).to_numpy()
        return kept

    # Append tables: rows in the order of arrival

    def _write_append(self, table: pa.Table) -> None:
        for routed in route_rows(table, self._routing):
            rows = table if routed.indices is None else table.take(pa.array(routed.indices))
            for start in range(0, rows.num_rows, _PENDING_ROWS):
                self._add_pending(routed, rows.slice(start, _PENDING_ROWS))

    def _add_pending(self, routed: RoutedRows, rows: pa.Table) -> None:
        key = (routed.partition, routed.bucket, self._beside)
        pending = self._pending.setdefault(key, _Pending(len(self._pending) + 1))
        pending.tables.append(rows)
        pending.rows += rows.num_rows
        pending.size_bytes += rows.nbytes
        self._pending_bytes += rows.nbytes
        if pending.rows >= _PENDING_ROWS or pending.size_bytes >= min(ROW_GROUP_BYTES, self._target_bytes):
            self._submit_pending(key, pending)
            if self._is_unordered and self._rows > _ROWS_BEFORE_SECOND_FILE:
                self._beside = (self._beside + 1) % LANES
        while self._pending_bytes > self._buffer_bytes:
            largest = max(self._pending, key=lambda each: self._pending[each].size_bytes)
            self._submit_pending(largest, self._pending[largest])

    def _submit_pending(self, key: GroupKey, pending: _Pending) -> None:
        if not pending.tables:
            return
        table = pa.concat_tables(pending.tables)
        self._pending_bytes -= pending.size_bytes
        pending.tables, pending.rows, pending.size_bytes = [], 0, 0
        encoding = self._plan_encoding(table)
        self._thread_of(key).submit(partial(self._append_to_file, key, pending, table, encoding))
        self._close_unused(key)

    def _append_to_file(self, key: GroupKey, pending: _Pending, table: pa.Table, encoding: FileEncoding) -> None:
        while table.num_rows:
            if pending.open_file is None:
                name = f"{pending.number:05d}-{len(pending.files):03d}"
                pending.open_file = self._start_file(name, key[0], key[1], encoding, with_row_kind=False)
            taken = pending.open_file.write_until_full(table, None)
            table = table.slice(taken)
            if pending.open_file.is_full:
                _close(pending)

    def _close_unused(self, key: GroupKey) -> None:
        self._open.pop(key, None)
        self._open[key] = None
        if len(self._open) > _MAX_OPEN_FILES:
            oldest = next(iter(self._open))
            del self._open[oldest]
            # Does nothing if the file was full and is closed already.
            self._thread_of(oldest).submit(partial(_close, self._pending[oldest]))

    def _thread_of(self, key: GroupKey) -> WriterThread:
        return self._writer_threads[(key[1] + key[2] + sum(key[0])) % LANES]

    # Both

    def _spare_threads(self, files: int) -> None:
        """Lets the caller do all work, unless there are so many files that most of it is waiting for the disk."""
        if files <= _WORTH_A_THREAD_FILES:
            for thread in self._writer_threads:
                thread.stay_here()

    def _start_file(
        self, name: str, partition: bytes, bucket: int, encoding: FileEncoding, with_row_kind: bool
    ) -> FileBuilder:
        # Named by its place among the runs, not by order of completion: the threads race.
        builder = FileBuilder(
            self._store,
            f"data/{self._attempt_id}/{self._name_prefix}{name}-{bucket}.parquet",
            self._schema,
            encoding,
            partition=partition,
            bucket=bucket,
            with_row_kind=with_row_kind,
            target_size_bytes=self._target_bytes,
        )
        self._builders.append(builder)
        return builder

    def _plan_encoding(self, table: pa.Table) -> FileEncoding:
        """The first rows decide for all files, so their order of arrival in the threads does not matter."""
        if self._encoding is None:
            self._encoding = plan_encoding(table, self._compression)
        return self._encoding


_POSITION_COLUMN: Final = "\x00position"


def _close(pending: _Pending) -> None:
    if pending.open_file is not None:
        pending.files.append(pending.open_file.finish())
        pending.open_file = None
