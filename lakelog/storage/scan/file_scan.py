"""Reads many live files as one stream of rows: without superseded rows, filtered, projected, in bounded memory.

The order of the rows is that of the plan: by partition and bucket, then by the files' order. Three kinds of work run
ahead of the reader, each in its own bounded window: deletion vectors of the next bucket, footers of the next files,
row groups.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
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
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache, find_deletion_vectors
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.merging.removed_rows import (
    count_removed,
    find_removed_rows,
    has_removed_rows,
    split_by_vectors,
)
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.parquet.pages.decoding import DECODED_BYTES
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.parquet.schema_mapping import ColumnMapping, make_empty_rows
from lakelog.storage.parquet.writer import ROW_GROUP_BYTES

_BUCKETS_AHEAD: Final = 2
_FOOTERS_AHEAD: Final = 8
_PORTION_ROWS: Final = 131_072
"""Rows that a thread reads at once, in several row groups, unless they are wide: it opens the file each time."""

_LITTLE_BYTES: Final = 256 << 10
"""A single file up to this size is read directly, such as the one that a stream's next commit brought."""

SNAPSHOT_ID_COLUMN: Final = "_snapshot_id"

ROW_POSITION_COLUMN: Final = "\x1frow_position"
"""No column of a table has this name: names hold no control characters."""

RowIndices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScanColumns:
    """What is read and what is returned.

    Args:
        read: Columns to read, including those of the filter.
        returned: Names of the columns to return, in order; they may include `_row_kind`, `_snapshot_id` and
            `ROW_POSITION_COLUMN`, the position of a row in its file.
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
        policy: How rows of one key are merged; None: all rows are returned as they are, except for those of an append
            table that commits have removed.
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

    def read_batches(
        self, data_files: DataFiles | None = None, *, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Reads the rows; memory holds at most about `threads` + 1 portions of 131,072 rows or, if wide, 32 MiB each.

        Of a portion that unpacks to more than 64 MiB only so much is read ahead, in parts (`pages/decoding.py`).

        Args:
            data_files: Has footers that are known already; None: none are.
            limit: How many rows the caller takes; None: all. Few more are read. Without a filter, no more are returned.

        Yields:
            Batches with the columns of `returned_schema`, none of them empty.

        Raises:
            DataCorrupted: A file is damaged or missing, or its rows take too much memory; named.
        """
        for _, batch in self.read_located_batches(data_files, limit=limit):
            yield batch

    def read_located_batches(
        self, data_files: DataFiles | None = None, *, limit: int | None = None
    ) -> Iterator[tuple[LiveFile, pa.RecordBatch]]:
        """As `read_batches`, with the file of each batch; those of one file come one after the other."""
        data_files = data_files or DataFiles(self.store)
        if self.policy is None and len(self.files) == 1 and self.files[0].size_bytes <= _LITTLE_BYTES:
            yield from self._read_little(data_files, self.files[0], limit)
            return
        first = None if limit is None else 1
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakelog-read") as pool:
            try:
                to_read = self._files_to_read(pool, data_files, first)
                opened = look_ahead(pool, partial(self._open, data_files), to_read, _FOOTERS_AHEAD, first)
                portions = self._portions(opened, limit)
                for read in look_ahead(pool, self._read_portion, portions, self.threads + 1, first):
                    for batch in itertools.chain(read.batches, read.rest):
                        yield read.file, batch
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _read_little(
        self, data_files: DataFiles, file: LiveFile, limit: int | None
    ) -> Iterator[tuple[LiveFile, pa.RecordBatch]]:
        """Reads a file that takes less time than starting threads for it and opening it again."""
        ((_, left_out),) = self._leave_out([file])
        with data_files.open(file) as reader:
            for portion in self._portions([self._look_into(reader, file, left_out)], limit):
                for batch in self._read_groups(reader, portion):
                    yield file, batch

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` returns; reads only what merging and the filter need."""
        if self.columns.filter is not None:
            return sum(batch.num_rows for batch in self.read_batches())
        if self.policy is None and not any(file.shown_vector_path for file in self.files):
            return sum(file.row_count - count_removed(file, self.schema) for file in self.files)
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakelog-read") as pool:
            return sum(
                file.row_count - (0 if left_out is None else len(left_out))
                for file, left_out in self._files_to_read(pool, DataFiles(self.store))
            )

    def _files_to_read(
        self, pool: ThreadPoolExecutor, data_files: DataFiles, first: int | None = None
    ) -> Iterator[tuple[LiveFile, RowIndices | None]]:
        if self.policy is None:
            if any(has_removed_rows(file, self.schema) for file in self.files):
                groups = split_by_vectors(self.files)
                for known in look_ahead(pool, self._leave_out, groups, _BUCKETS_AHEAD, first):
                    yield from known
                return
            yield from ((file, None) for file in self.files)
            return
        # Rows as written are merged only within each commit.
        commits = (file.added_snapshot if self.policy.keeps_deletes else 0 for file in self.files)
        keyed = zip(commits, self.files, strict=True)
        by_bucket = itertools.groupby(keyed, lambda each: (each[0], each[1].partition, each[1].bucket))
        buckets = [[file for _, file in group] for _, group in by_bucket]
        for found in look_ahead(pool, partial(self._merge, data_files), buckets, _BUCKETS_AHEAD, first):
            yield from found

    def _leave_out(self, files: list[LiveFile]) -> list[tuple[LiveFile, RowIndices | None]]:
        """Files of one deletion vector with the rows that commits have removed."""
        if not has_removed_rows(files[0], self.schema):
            return [(file, None) for file in files]
        return list(zip(files, find_removed_rows(self.store, files, self.cache), strict=True))

    def _merge(self, data_files: DataFiles, files: list[LiveFile]) -> list[tuple[LiveFile, RowIndices | None]]:
        assert self.policy is not None
        found = find_deletion_vectors(
            data_files, files, self.schema, self.policy, key_predicate=self.columns.key_predicate, cache=self.cache
        )
        return list(zip(files, found, strict=True))

    def _open(self, data_files: DataFiles, item: tuple[LiveFile, RowIndices | None]) -> _OpenedFile:
        file, left_out = item
        if left_out is not None and len(left_out) == file.row_count:
            return _OpenedFile(file, left_out, [], None, np.zeros(1, np.int64))
        with data_files.open(file) as reader:
            return self._look_into(reader, file, left_out)

    def _look_into(self, reader: DataFileReader, file: LiveFile, left_out: RowIndices | None) -> _OpenedFile:
        groups = pick_row_groups(reader, self.schema.arrow, self.columns.predicate)
        if self.counts is not None:
            left = reader.metadata.num_row_groups - len(groups)
            self.counts.add(ReadMetrics(files_opened=1, row_groups_left_out=left))
        return _OpenedFile(file, left_out, _portion(groups, reader), reader.metadata, reader.row_group_starts)

    def _portions(self, opened: Iterable[_OpenedFile], limit: int | None) -> Iterator[_Portion]:
        """The portions to read at once. With a limit, the first row group of each comes alone: it may be enough."""
        left = limit
        for file in opened:
            for groups in file.portions:
                for part in [groups] if left is None else [groups[:1], groups[1:]]:
                    if left == 0 or not part:
                        continue
                    yield _Portion(file, part, left)
                    if left is not None and self.columns.filter is None:
                        left -= min(left, sum(file.kept_rows(group) for group in part))
            if left == 0:
                return

    def _read_portion(self, portion: _Portion) -> _ReadPortion:
        file = portion.file
        # SUBTLE: not from the cache, which may have dropped it: this file's footer is in memory.
        reader = DataFileReader(self.store, file.file, file.metadata)
        batches: list[pa.RecordBatch] = []
        rest = self._read_groups(reader, portion)
        size_bytes = 0
        with contextlib.ExitStack() as stack:
            stack.callback(reader.close)
            for batch in rest:
                batches.append(batch)
                size_bytes += batch.nbytes
                if size_bytes > DECODED_BYTES:
                    stack.pop_all()
                    return _ReadPortion(file.file, batches, _closing(rest, reader))
        return _ReadPortion(file.file, batches, iter(()))

    def _read_groups(self, reader: DataFileReader, portion: _Portion) -> Iterator[pa.RecordBatch]:
        left = portion.limit
        for group in portion.groups:
            for batch in self._read_group(reader, portion.file, group, left):
                yield batch
                if left is not None:
                    left -= batch.num_rows
                    if left <= 0:
                        return

    def _read_group(
        self, reader: DataFileReader, opened: _OpenedFile, group: int, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        if self.counts is not None:
            self.counts.add(ReadMetrics(row_groups_read=1))
        kept = opened.kept(group)
        fields = self.columns.read
        tested: pa.Table | None = None
        if self.columns.filter is not None:
            kept, tested = self._test(reader, group, kept)
            if tested is not None:
                fields = tuple(each for each in fields if each.name not in self.columns.filter_columns)
        if not kept.any():
            return
        # Matching rows are close together if the condition is one on the key, by which the rows are sorted.
        first, last = int(kept.argmax()), len(kept) - int(kept[::-1].argmax())
        if limit is not None:
            last = _end_of(kept, first, last, limit)
        mapping = reader.map_columns(fields)
        rows: Iterable[pa.RecordBatch] = (make_empty_rows(last - first),)
        if mapping.fields:
            rows = self._read_fields(reader, group, mapping, first, last)
        for batch in rows:
            part = kept[first : first + batch.num_rows]
            if tested is not None:
                table = _join(tested.slice(first, batch.num_rows), batch)
            else:
                table = pa.Table.from_batches([batch])
            if ROW_POSITION_COLUMN in self.columns.returned:
                start = int(reader.row_group_starts[group]) + first
                table = table.append_column(ROW_POSITION_COLUMN, pa.array(np.arange(start, start + batch.num_rows)))
            first += batch.num_rows
            if table.num_columns == 0:
                # Other returned columns are not in files.
                yield self._project(make_empty_rows(int(part.sum())), opened.file)
                continue
            if not part.all():
                table = _keep(table, pa.array(part))
            yield from (self._project(each, opened.file) for each in table.to_batches() if each.num_rows)

    def _test(
        self, reader: DataFileReader, group: int, kept: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.bool_], pa.Table | None]:
        """Which of the kept rows of a row group match, and the columns of the filter, unless these are too large."""
        assert self.columns.filter is not None, "there is something to test"
        names = set(self.columns.filter_columns)
        mapping = reader.map_columns([each for each in self.columns.read if each.name in names])
        if not mapping.fields:
            return kept & _matches(pa.table({}), len(kept), self.columns.filter), pa.table({})
        held: list[pa.RecordBatch] | None = []
        start = size_bytes = 0
        for batch in self._read_fields(reader, group, mapping, 0, len(kept)):
            end = start + batch.num_rows
            kept[start:end] &= _matches(pa.Table.from_batches([batch]), batch.num_rows, self.columns.filter)
            start = end
            size_bytes += batch.nbytes
            if held is not None and size_bytes > DECODED_BYTES:
                # These columns are read a second time, with the others.
                held = None
            if held is not None:
                held.append(batch)
        return kept, None if held is None else pa.Table.from_batches(held, mapping.schema)

    def _read_fields(
        self, reader: DataFileReader, group: int, mapping: ColumnMapping, first: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of a row group's rows from `first` to before `end`."""
        if self.counts is not None:
            columns = (reader.metadata.row_group(group).column(place) for place in mapping.leaf_columns)
            self.counts.add(ReadMetrics(bytes_read=sum(column.total_compressed_size for column in columns)))
        whole = reader.row_group_starts[group] + end == reader.row_group_starts[group + 1] and first == 0
        return reader.read_batches([group], mapping) if whole else reader.read_slice(group, first, end, mapping)

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
    ROW_POSITION_COLUMN: pa.field(ROW_POSITION_COLUMN, pa.int64(), nullable=False),
}
"""Columns that lakelog itself adds to each change."""

_PLACE: Final = "\x00place"


def _matches(rows: pa.Table, row_count: int, condition: pc.Expression) -> npt.NDArray[np.bool_]:
    """Which rows fulfil a condition; the table has the condition's columns, perhaps none."""
    matches = np.zeros(row_count, bool)
    numbered = pa.table([pa.array(np.arange(row_count)), *rows.columns], names=[_PLACE, *rows.schema.names])
    matches[numbered.filter(condition).column(_PLACE).to_numpy()] = True
    return matches


def _join(left: pa.Table, right: pa.RecordBatch) -> pa.Table:
    """The columns of two tables of the same rows; either may have none."""
    if right.num_columns == 0:
        return left
    return pa.table([*left.columns, *right.columns], names=[*left.schema.names, *right.schema.names])


def _keep(table: pa.Table, kept: pa.Array) -> pa.Table:
    """Some rows of a table."""
    # Column by column: Arrow's filter of a table turns the mask into indices, which takes twice the time if most rows
    # are kept.
    columns = [column.filter(kept) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _end_of(kept: npt.NDArray[np.bool_], first: int, last: int, limit: int) -> int:
    """The end of the first `limit` kept rows; at most `last`."""
    # It looks twice as far each time, because places take eight times as much memory as the mask.
    span = max(1, limit)
    while first + span < last:
        places = np.flatnonzero(kept[first : first + span])
        if len(places) >= limit:
            return first + int(places[limit - 1]) + 1
        span *= 2
    places = np.flatnonzero(kept[first:last])
    return first + int(places[limit - 1]) + 1 if len(places) > limit else last


def _closing(batches: Iterator[pa.RecordBatch], reader: DataFileReader) -> Iterator[pa.RecordBatch]:
    with reader:
        yield from batches


@dataclass(frozen=True)
class _OpenedFile:
    file: LiveFile
    left_out: RowIndices | None
    portions: list[list[int]]
    metadata: pq.FileMetaData | None
    starts: RowIndices

    def _left_out_of(self, group: int) -> RowIndices:
        start, end = (int(bound) for bound in self.starts[group : group + 2])
        if self.left_out is None:
            return np.empty(0, np.int64)
        first, last = np.searchsorted(self.left_out, (start, end))
        return self.left_out[first:last] - start

    def kept(self, group: int) -> npt.NDArray[np.bool_]:
        """Which rows of a row group are not left out."""
        kept = np.ones(int(self.starts[group + 1] - self.starts[group]), np.bool_)
        kept[self._left_out_of(group)] = False
        return kept

    def kept_rows(self, group: int) -> int:
        """How many rows of a row group are not left out."""
        return int(self.starts[group + 1] - self.starts[group]) - len(self._left_out_of(group))


@dataclass(frozen=True)
class _Portion:
    """Row groups of a file, and how many rows of them are wanted; None: all."""

    file: _OpenedFile
    groups: list[int]
    limit: int | None


@dataclass(frozen=True)
class _ReadPortion:
    """The first rows of a portion, and the others, which are read on demand."""

    file: LiveFile
    batches: list[pa.RecordBatch]
    rest: Iterator[pa.RecordBatch]


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
