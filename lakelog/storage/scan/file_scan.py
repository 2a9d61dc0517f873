"""Reads many live files as one stream of rows: without superseded rows, filtered, projected, in bounded memory.

The order of the rows is that of the plan: by partition and bucket, then by the files' order. Three kinds of work run
ahead of the reader, each in its own bounded window: deletion vectors of the next bucket, footers of the next files,
row groups.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog.format.tables.predicate import Predicate
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, decode_kinds
from lakelog.format.types.schema import TableSchema
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache, MergePolicy, find_deletion_vectors
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.parquet.schema_mapping import make_empty_rows
from lakelog.storage.parquet.writer import ROW_GROUP_BYTES

_BUCKETS_AHEAD: Final = 2
_FOOTERS_AHEAD: Final = 8
_PORTION_ROWS: Final = 131_072
"""Rows that a thread reads at once, in several row groups, unless they are wide: it opens the file each time."""

_LITTLE_BYTES: Final = 256 << 10
"""A single file up to this size is read directly, such as the one that a stream's next commit brought."""

SNAPSHOT_ID_COLUMN: Final = "_snapshot_id"

RowIndices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScanColumns:
    """What is read and what is returned.

    Args:
        read: Columns to read, including those of the filter.
        returned: Names of the columns to return, in order; they may include `_row_kind` and `_snapshot_id`.
        filter: Which rows to return; None: all.
        filter_columns: Names of the columns that the filter uses. They are decoded first, the others only for row
            groups in which a row is returned.
        predicate: A weaker condition that excludes row groups.
        key_predicate: A weaker condition on key columns only; rows that do not fulfil it need not be merged.
    """

    read: tuple[pa.Field, ...]
    returned: tuple[str, ...]
    filter: pc.Expression | None = None
    filter_columns: tuple[str, ...] = ()
    predicate: Predicate | None = None
    key_predicate: Predicate | None = None


@dataclass(frozen=True)
class FileScan:
    """A read of some live files. Immutable except for the cache; can be iterated several times.

    Args:
        store: Where they are.
        files: The files in a plan's order.
        schema: The schema to read with.
        columns: What to read and return.
        policy: How rows of one key are merged; None: all rows are returned as they are.
        cache: The cache of deletion vectors.
        threads: The number of threads that read at once.
        counts: Counts what is read; None: nothing is counted.
    """

    store: ObjectStore
    files: Sequence[LiveFile]
    schema: TableSchema
    columns: ScanColumns
    policy: MergePolicy | None = None
    cache: DeletionVectorCache | None = None
    threads: int = field(default_factory=pa.cpu_count)
    counts: ReadCounts | None = field(default=None, compare=False)

    @property
    def returned_schema(self) -> pa.Schema:
        """The returned columns."""
        by_name = {each.name: each for each in self.columns.read} | OWN_FIELDS
        return pa.schema([by_name[name].remove_metadata() for name in self.columns.returned])

    def with_caches(self, caches: Caches | None) -> FileScan:
        """A copy with the caches of a process, or without caches, to be sent to another process."""
        return dataclasses.replace(self, cache=None if caches is None else caches.deletion_vectors, counts=None)

    def counted_by(self, counts: ReadCounts) -> FileScan:
        """A copy that counts what it reads."""
        counts.add(ReadMetrics(files=len(self.files)))
        return dataclasses.replace(self, counts=counts)

    def read_batches(self, data_files: DataFiles | None = None) -> Iterator[pa.RecordBatch]:
        """Reads the rows; memory holds at most about `threads` + 1 portions of 131,072 rows or, if wide, 32 MiB each.

        Args:
            data_files: Has footers that are known already; None: none are.

        Yields:
            Batches with the columns of `returned_schema`, none of them empty.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
        """
        data_files = data_files or DataFiles(self.store)
        if self.policy is None and len(self.files) == 1 and self.files[0].size_bytes <= _LITTLE_BYTES:
            yield from self._read_little(data_files, self.files[0])
            return
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakelog-read") as pool:
            try:
                to_read = self._files_to_read(pool, data_files)
                opened = look_ahead(pool, partial(self._open, data_files), to_read, _FOOTERS_AHEAD)
                portions = ((file, groups) for file in opened for groups in file.portions)
                for batches in look_ahead(pool, self._read_portion, portions, self.threads + 1):
                    yield from batches
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _read_little(self, data_files: DataFiles, file: LiveFile) -> Iterator[pa.RecordBatch]:
        """Reads a file that takes less time than starting threads for it and opening it again."""
        with data_files.open(file) as reader:
            opened = self._look_into(reader, file, None)
            for groups in opened.portions:
                for group in groups:
                    yield from self._read_group(reader, opened, group)

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` returns; reads only what merging and the filter need."""
        if self.columns.filter is not None:
            return sum(batch.num_rows for batch in self.read_batches())
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakelog-read") as pool:
            return sum(
                file.row_count - (0 if left_out is None else len(left_out))
                for file, left_out in self._files_to_read(pool, DataFiles(self.store))
            )

    def _files_to_read(
        self, pool: ThreadPoolExecutor, data_files: DataFiles
    ) -> Iterator[tuple[LiveFile, RowIndices | None]]:
        if self.policy is None:
            yield from ((file, None) for file in self.files)
            return
        # Rows as written are merged only within each commit.
        commits = (file.added_snapshot if self.policy.keeps_deletes else 0 for file in self.files)
        keyed = zip(commits, self.files, strict=True)
        groups = itertools.groupby(keyed, lambda each: (each[0], each[1].partition, each[1].bucket))
        buckets = [[file for _, file in group] for _, group in groups]
        for found in look_ahead(pool, partial(self._merge, data_files), buckets, _BUCKETS_AHEAD):
            yield from found

    def _merge(self, data_files: DataFiles, files: list[LiveFile]) -> list[tuple[LiveFile, RowIndices | None]]:
        assert self.policy is not None
        found = find_deletion_vectors(
            data_files, files, self.schema, self.policy, key_predicate=self.columns.key_predicate, cache=self.cache
        )
        return list(zip(files, found, strict=True))

    def _open(self, data_files: DataFiles, item: tuple[LiveFile, RowIndices | None]) -> _OpenedFile:
        file, left_out = item
        if left_out is not None and len(left_out) == file.row_count:
            return _OpenedFile(file, left_out, [], None)
        with data_files.open(file) as reader:
            return self._look_into(reader, file, left_out)

    def _look_into(self, reader: DataFileReader, file: LiveFile, left_out: RowIndices | None) -> _OpenedFile:
        groups = pick_row_groups(reader, self.schema.arrow, self.columns.predicate)
        if self.counts is not None:
            left = reader.metadata.num_row_groups - len(groups)
            self.counts.add(ReadMetrics(files_opened=1, row_groups_left_out=left))
        return _OpenedFile(file, left_out, _portion(groups, reader), reader.metadata)

    def _read_portion(self, item: tuple[_OpenedFile, list[int]]) -> list[pa.RecordBatch]:
        opened, groups = item
        # SUBTLE: not from the cache, which may have dropped it: this file's footer is in memory.
        with DataFileReader(self.store, opened.file, opened.metadata) as reader:
            return [batch for group in groups for batch in self._read_group(reader, opened, group)]

    def _read_group(self, reader: DataFileReader, opened: _OpenedFile, group: int) -> list[pa.RecordBatch]:
        if self.counts is not None:
            self.counts.add(ReadMetrics(row_groups_read=1))
        start, end = (int(bound) for bound in reader.row_group_starts[group : group + 2])
        kept = np.ones(end - start, bool)
        if opened.left_out is not None:
            first, last = np.searchsorted(opened.left_out, (start, end))
            kept[opened.left_out[first:last] - start] = False
        fields = self.columns.read
        if self.columns.filter is not None:
            fields = tuple(each for each in fields if each.name not in self.columns.filter_columns)
            tested = self._read_fields(reader, group, set(self.columns.filter_columns), 0, len(kept))
            kept &= _matches(tested, len(kept), self.columns.filter)
        places = np.flatnonzero(kept)
        if len(places) == 0:
            return []
        # Matching rows are close together if the condition is one on the key, by which the rows are sorted.
        first, last = int(places[0]), int(places[-1]) + 1
        rows = self._read_fields(reader, group, {each.name for each in fields}, first, last)
        if self.columns.filter is not None:
            rows = _join(tested.slice(first, last - first), rows)
        if rows.num_columns == 0:
            # Other returned columns are not in files.
            return [self._project(make_empty_rows(len(places)), opened.file)]
        if len(places) < last - first:
            rows = rows.filter(pa.array(kept[first:last]))
        return [self._project(batch, opened.file) for batch in rows.to_batches() if batch.num_rows]

    def _read_fields(self, reader: DataFileReader, group: int, names: set[str], first: int, end: int) -> pa.Table:
        """Some columns of a row group's rows from `first` to before `end`."""
        mapping = reader.map_columns([each for each in self.columns.read if each.name in names])
        if not mapping.fields:
            return pa.table({})
        if self.counts is not None:
            columns = (reader.metadata.row_group(group).column(place) for place in mapping.leaf_columns)
            self.counts.add(ReadMetrics(bytes_read=sum(column.total_compressed_size for column in columns)))
        whole = reader.row_group_starts[group] + end == reader.row_group_starts[group + 1] and first == 0
        batches = reader.read_batches([group], mapping) if whole else reader.read_slice(group, first, end, mapping)
        return pa.Table.from_batches(list(batches), mapping.schema)

    def _project(self, batch: pa.RecordBatch, file: LiveFile) -> pa.RecordBatch:
        schema = self.returned_schema
        if len(schema) == 0:
            return batch.select([])
        return pa.RecordBatch.from_arrays([self._column(batch, name, file) for name in schema.names], schema=schema)

    def _column(self, batch: pa.RecordBatch, name: str, file: LiveFile) -> pa.Array:
        if name == ROW_KIND_COLUMN:
            # Files with only +I rows have no such column.
            return decode_kinds(batch.column(name).fill_null(0))
        if name == SNAPSHOT_ID_COLUMN:
            return pa.repeat(pa.scalar(file.added_snapshot, pa.int64()), batch.num_rows)
        return batch.column(name)


OWN_FIELDS: Final = {
    ROW_KIND_COLUMN: pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False),
    SNAPSHOT_ID_COLUMN: pa.field(SNAPSHOT_ID_COLUMN, pa.int64(), nullable=False),
}
"""Columns that lakelog itself adds to each change."""

_PLACE: Final = "\x00place"


def _matches(rows: pa.Table, row_count: int, condition: pc.Expression) -> npt.NDArray[np.bool_]:
    """Which rows fulfil a condition; the table has the condition's columns, perhaps none."""
    matches = np.zeros(row_count, bool)
    numbered = pa.table([pa.array(np.arange(row_count)), *rows.columns], names=[_PLACE, *rows.schema.names])
    matches[numbered.filter(condition).column(_PLACE).to_numpy()] = True
    return matches


def _join(left: pa.Table, right: pa.Table) -> pa.Table:
    """The columns of two tables of the same rows; either may have none."""
    return pa.table([*left.columns, *right.columns], names=[*left.schema.names, *right.schema.names])


@dataclass(frozen=True)
class _OpenedFile:
    file: LiveFile
    left_out: RowIndices | None
    portions: list[list[int]]
    metadata: pq.FileMetaData | None


def _portion(groups: list[int], reader: DataFileReader) -> list[list[int]]:
    """Splits row groups into what is read at once: adjacent ones, as many as make a portion, at least one."""
    portions: list[list[int]] = []
    rows = size_bytes = 0
    for group in groups:
        metadata = reader.metadata.row_group(group)
        rows += metadata.num_rows
        size_bytes += metadata.total_byte_size
        if not portions or rows > _PORTION_ROWS or size_bytes > ROW_GROUP_BYTES:
            portions.append([])
            rows, size_bytes = metadata.num_rows, metadata.total_byte_size
        portions[-1].append(group)
    return portions
