"""Deletion vectors: which rows of a primary-key bucket's live files a read leaves out (docs/decisions/0017).

Objectives, which conflict: what needs no merging is not touched; keys are read once, and only keys, sequence columns
and kinds; memory is bounded for any bucket; the answer depends only on files that never change, so it can be cached and
computed anywhere.

A bucket's files are split into sections whose key ranges do not meet. A section of one file without deletes costs
nothing; one of a single file with deletes needs only its kinds. If all commits after the oldest file looked their old
rows up, their positions are committed and only read, file by file (`deletion_vector_file.py`). Other sections are
merged at once if their keys fit into the given memory, else step by step: memory holds a row group of each file; all
rows up to the lowest of the files' last keys in memory are complete and are merged; then the exhausted files are read
further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.merge.runs import MergeRun, find_deleted_rows
from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.predicate import Predicate
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.format.types.schema import TableSchema
from lakelog.format.types.widths import row_bytes
from lakelog.recently_used import RecentlyUsed
from lakelog.storage.merging.aligned_runs import Room, RunPart, read_aligned, read_run_within
from lakelog.storage.merging.deletion_vector_file import read_deletion_vectors
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.parquet.own_columns import KIND_FIELD, pick_own_fields
from lakelog.storage.parquet.row_groups import pick_row_groups

DEFAULT_MERGE_MEMORY_BYTES: Final = 256 << 20
"""Size of key columns in memory at once; merging them takes about three times as much for a moment."""

_FEW_KEYS: Final = 8
"""If a condition leaves one row in this many, merging their keys is cheaper than reading all committed positions."""

_POSITION_BYTES: Final = 8
_READ_THREADS: Final = 2

RowIndices = npt.NDArray[np.int64]


class DeletionVectorCache(RecentlyUsed[object, tuple[RowIndices | None, ...]]):
    """Computed positions, by file set.

    Args:
        max_bytes: The limit of the positions' size; 0 stores nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, _size_bytes)


def find_deletion_vectors(
    store: ObjectStore | DataFiles,
    files: Sequence[LiveFile],
    schema: TableSchema,
    policy: MergePolicy,
    *,
    key_predicate: Predicate | None = None,
    memory_bytes: int = DEFAULT_MERGE_MEMORY_BYTES,
    cache: DeletionVectorCache | None = None,
) -> tuple[RowIndices | None, ...]:
    """Finds the rows of one bucket's live files that a read leaves out. Runs on executors; blocks on storage.

    Args:
        store: Where the table's files are; or the files of the read that needs this, which shares its footers.
        files: All live files of one bucket (or all whose keys can meet the keys to read), in the order of
            `order_snapshot` and `order_ordinal`.
        schema: The schema to read with.
        policy: Decides between rows of one key.
        key_predicate: A condition on key columns that all relevant rows fulfil. The answer may then lack other rows,
            and only row groups with such keys are read.
        memory_bytes: Bytes of key columns in memory at once; some thousand keys of each overlapping file in any case.
        cache: Where to look first and to store the answer.

    Returns:
        For each file the rising positions to leave out; None: the whole file is read as it is.

    Raises:
        DataCorrupted: A file is damaged; named.
    """
    if len(files) < 2 and (policy.keeps_deletes or all(file.delete_count == 0 for file in files)):
        return (None,) * len(files)
    data_files = store if isinstance(store, DataFiles) else DataFiles(store)
    cache_key = (data_files.store.location, tuple(file.path for file in files), policy)
    if cache is not None and (known := cache.get(cache_key)) is not None:
        return known
    found: list[RowIndices | None] = [None] * len(files)
    for section in split_sections([KeyRange(file.min_key, file.max_key) for file in files]):
        merge = _Section(data_files, [files[place] for place in section], schema, policy, key_predicate)
        for place, indices in zip(section, merge.find(memory_bytes), strict=True):
            found[place] = indices if indices is not None and len(indices) else None
    result = tuple(found)
    if cache is not None and key_predicate is None:
        cache.put(cache_key, result)
    return result


def are_committed(files: Sequence[LiveFile]) -> bool:
    """Whether the superseded rows of some files of one section, oldest first, are committed. Pure.

    The writer of a file knew what it supersedes in all that was there. The oldest file has nothing below it, and only
    its own deletes must be known. A file that a compaction put below another one afterwards was not there, though it
    has the same rows: the positions belong to the files that it replaced.
    """
    first, *later = files
    if first.deletion_vector_path is None and first.delete_count:
        return False
    newest = first.added_snapshot
    for file in later:
        if file.deletion_vector_path is None or file.added_snapshot < newest:
            return False
        newest = file.added_snapshot
    return True


def merge_bytes(files: Sequence[LiveFile], schema: TableSchema, policy: MergePolicy) -> int:
    """About how many bytes it takes to find which rows of a section's files are superseded. Pure."""
    if are_committed(files):
        # A mask for each file, and the answer, which has a superseded row once for each later one that supersedes it.
        return sum(file.row_count for file in files) + sum(file.row_count for file in files[1:]) * _POSITION_BYTES
    return key_bytes(files, schema, policy)


def key_bytes(files: Sequence[LiveFile], schema: TableSchema, policy: MergePolicy, rows: int | None = None) -> int:
    """About how many bytes the columns take that decide the merge of files. Pure.

    Args:
        files: Files of one section.
        schema: The schema to read with.
        policy: Names these columns.
        rows: The number of rows in the merge; None: all.
    """
    count = sum(file.row_count for file in files) if rows is None else rows
    return count * row_bytes(schema.arrow, (*policy.key, *policy.sequence))


class _Section:
    """Files whose key ranges meet."""

    def __init__(
        self,
        data_files: DataFiles,
        files: Sequence[LiveFile],
        schema: TableSchema,
        policy: MergePolicy,
        key_predicate: Predicate | None,
    ) -> None:
        self._data_files = data_files
        self._files = files
        self._schema = schema
        self._policy = policy
        self._predicate = key_predicate
        self._fields = [schema.arrow.field(name) for name in (*policy.key, *policy.sequence)]

    def find(self, memory_bytes: int) -> list[RowIndices | None]:
        if len(self._files) == 1:
            return [self._find_deletes(self._files[0])]
        committed = not self._policy.keeps_deletes and are_committed(self._files)
        if committed and self._predicate is None and (known := self._read_committed()) is not None:
            return known
        with ThreadPoolExecutor(_READ_THREADS) as pool:
            picked = list(pool.map(self._pick, self._files))
            rows = sum(each.row_count for each in picked)
            if committed and self._predicate is not None:
                is_dear = rows > sum(file.row_count for file in self._files) // _FEW_KEYS
                if is_dear and (known := self._read_committed()) is not None:
                    return known
            if key_bytes(self._files, self._schema, self._policy, rows) > memory_bytes:
                return [*self._merge_by_steps(picked, memory_bytes)]
            room = Room(memory_bytes)
            tables = list(pool.map(lambda each: read_run_within(self._data_files, each.part, room), picked))
        held = [table for table in tables if table is not None]
        if len(held) < len(tables):
            # Texts are longer than assumed.
            del tables, held
            return [*self._merge_by_steps(picked, memory_bytes)]
        found = self._find_in(held)
        return [each.to_file_indices(indices) for each, indices in zip(picked, found, strict=True)]

    def _read_committed(self) -> list[RowIndices | None] | None:
        """The committed positions; None if they depend on files that are no longer there."""
        store = self._data_files.store
        masks = _Masks(self._files)
        here = {file.path: file.row_count for file in self._files}
        paths = list(dict.fromkeys(file.deletion_vector_path for file in self._files if file.deletion_vector_path))
        with ThreadPoolExecutor(_READ_THREADS) as pool:
            for found in look_ahead(pool, lambda path: read_deletion_vectors(store, path, here), paths, _READ_THREADS):
                if not found.hold_for(here):
                    return None
                masks.add(found.by_path)
        return masks.to_positions()

    def _pick(self, file: LiveFile) -> _PickedFile:
        # Without their kinds, deletes are like other rows.
        own = [] if self._policy.keeps_deletes else pick_own_fields(file, self._policy.sequence)
        fields = [*self._fields, *own]
        if self._predicate is None:
            # The whole file, which need not be opened for that.
            return _PickedFile(RunPart(file, fields), file.row_count, None)
        with self._data_files.open(file) as reader:
            groups = pick_row_groups(reader, self._schema.arrow, self._predicate)
            starts = reader.row_group_starts
            rows = sum(int(starts[group + 1] - starts[group]) for group in groups)
            return _PickedFile(RunPart(file, fields, groups), rows, starts)

    def _find_deletes(self, file: LiveFile) -> RowIndices | None:
        if file.delete_count == 0 or self._policy.keeps_deletes:
            return None
        found: list[RowIndices] = [np.empty(0, np.int64)]
        start = 0
        with self._data_files.open(file) as reader:
            groups = range(reader.metadata.num_row_groups)
            for batch in reader.read_batches(groups, reader.map_columns([KIND_FIELD])):
                found.append(start + np.flatnonzero(is_retract(batch.column(ROW_KIND_COLUMN))))
                start += batch.num_rows
        return np.concatenate(found)

    def _merge_by_steps(self, picked: Sequence[_PickedFile], memory_bytes: int) -> list[RowIndices]:
        found: list[list[RowIndices]] = [[np.empty(0, np.int64)] for _ in picked]
        parts = [each.part for each in picked]
        for step in read_aligned(self._data_files, parts, self._policy.key, held_bytes=memory_bytes):
            for place, indices in enumerate(self._find_in([each.rows for each in step])):
                found[place].append(indices + step[place].start)
        return [np.concatenate(indices) for indices in found]

    def _find_in(self, tables: Sequence[pa.Table]) -> list[RowIndices]:
        runs = [
            MergeRun(table, commit_time_ms=file.order_time_ms) for table, file in zip(tables, self._files, strict=True)
        ]
        return find_deleted_rows(
            runs,
            self._policy.key,
            self._policy.sequence,
            sequence_descending=self._policy.sequence_descending,
            delete_retention_ms=self._policy.delete_retention_ms,
            keep_first=self._policy.keep_first,
        )


@dataclass(frozen=True)
class _PickedFile:
    """The part of a file in a merge, the number of its rows, and where its row groups start."""

    part: RunPart
    row_count: int
    starts: RowIndices | None

    def to_file_indices(self, indices: RowIndices) -> RowIndices:
        """Turns positions among the picked rows into positions in the file."""
        if self.part.groups is None or self.starts is None or len(indices) == 0:
            return indices
        lengths = np.diff(self.starts)[self.part.groups]
        firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        place = np.searchsorted(firsts, indices, side="right") - 1
        return indices - firsts[place] + self.starts[self.part.groups][place]


class _Masks:
    """The rows of some files that commits have named: a byte for each row of a file with any such row."""

    def __init__(self, files: Sequence[LiveFile]) -> None:
        self._files = files
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}

    def add(self, found: Mapping[str, RowIndices]) -> None:
        """Adds the positions of one commit, by the file's path."""
        for file in self._files:
            indices = found.get(file.path)
            if indices is None:
                continue
            if file.path not in self._masks:
                self._masks[file.path] = np.zeros(file.row_count, np.bool_)
            self._masks[file.path][indices] = True

    def to_positions(self) -> list[RowIndices | None]:
        """For each file the rising positions, each once; empties itself, so that memory holds a file's rows once."""
        masks = (self._masks.pop(file.path, None) for file in self._files)
        return [None if mask is None else np.flatnonzero(mask) for mask in masks]


def _size_bytes(found: tuple[RowIndices | None, ...]) -> int:
    return 128 * (1 + len(found)) + sum(indices.nbytes for indices in found if indices is not None)
