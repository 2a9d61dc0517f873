"""Lookup: the records that decide some keys in one bucket, at one snapshot.

Keys are looked up in whole batches, file by file: those in the file's range that also pass its Bloom filter. The lookup
uses a local copy if there is one, else the data file itself while that costs less than copying it. Without sequence
columns the newest file with a key decides it (the oldest one if the first row of a key stays): files are processed in
that order, and only keys that are not found yet go on. With sequence columns every file is read, and merging decides as
it does for a read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.keys.encoding import encode_rows
from lakelog.format.keys.ranges import find_in_range
from lakelog.format.merge.runs import MergeRun, find_deleted_rows
from lakelog.format.types.rowkind import RowKind
from lakelog.format.types.schema import TableSchema
from lakelog.storage.lookup.copy_cache import CopyCache
from lakelog.storage.lookup.key_probe import KeyProbe
from lakelog.storage.lookup.local_copy import CopyTooLargeError, LocalCopy
from lakelog.storage.lookup.sought_keys import SoughtKeys
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD, TIME_FIELD, has_times, pick_own_fields

RowIndices = npt.NDArray[np.int64]


_PART_ROWS: Final = 8192
"""Rows that are read from a local copy at once; the copy is at most some times as large as its file."""


class FoundTooMuchError(Exception):
    """The records of some keys take more memory than allowed: look up fewer keys at once."""


@dataclass(frozen=True)
class FoundRecords:
    """Records that decide keys, ordered by key.

    Attributes:
        run: The requested columns, `_row_kind` (int8 codes) and `_commit_timestamp`.
        files: The file of each record, by its index among the given files.
        indices: Each record's position in its file.
    """

    run: MergeRun
    files: RowIndices
    indices: RowIndices


class KeyLookup:
    """Looks keys up in data files of one table. For one thread at a time.

    Args:
        store: Where the files are.
        schema: The schema to read with.
        policy: Decides between rows of one key.
        cache: Local copies; None: keys are looked up in the data files themselves.
        fields: The columns of the rows that are found, as files store them (deletes have only their key), including
            those of the key and of `sequence.field`.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        policy: MergePolicy,
        cache: CopyCache | None,
        fields: Sequence[pa.Field],
    ) -> None:
        self._policy = policy
        self._fields = list(fields)
        key = [schema.arrow.field(name) for name in policy.key]
        self._source = _Source(store, schema, cache, key, self._fields, policy.sequence)

    def find(self, files: Sequence[LiveFile], keys: pa.Table, most_bytes: int | None = None) -> FoundRecords:
        """Returns the record that decides each key, which may be a delete; keys without a record are missing.

        Args:
            files: All live files of one bucket that can hold the keys, in the bucket's order.
            keys: The key's columns; rising, each key once, without NULLs.
            most_bytes: The most bytes of memory for the records of several keys; None: no limit.

        Raises:
            FoundTooMuchError: The records would take more.
            DataCorrupted: A file is damaged or missing; named.
            ResourceExhausted: There is no room for a local copy.
        """
        sought = SoughtKeys(keys)
        parts = _slice(files, keys)
        opened = [_OpenFile(number, self._source, file, parts[number]) for number, file in enumerate(files)]
        if self._policy.sequence:
            found = self._find_by_sequence(opened, sought)
        else:
            found = _find_first(opened if self._policy.keep_first else opened[::-1], sought)
        found = [each for each in found if len(each[1])]
        if not found:
            none = np.empty(0, np.int64)
            return FoundRecords(MergeRun(self._empty()), none, none)
        taken: list[pa.Table] = []
        left = None if most_bytes is None or len(keys) < 2 else most_bytes
        for file, _, indices in found:
            for part in file.take_parts(indices, self._fields):
                taken.append(part)
                if left is not None:
                    left -= part.nbytes
                    if left < 0:
                        raise FoundTooMuchError
        rows = pa.concat_tables(taken)
        counts = [len(places) for _, places, _ in found]
        kinds = np.concatenate([file.take_kinds(indices) for file, _, indices in found])
        times = np.concatenate([file.take_times(indices) for file, _, indices in found])
        rows = rows.append_column(KIND_FIELD, pa.array(kinds)).append_column(TIME_FIELD, pa.array(times))
        order = np.argsort(np.concatenate([places for _, places, _ in found]), kind="stable")
        numbers = np.repeat([file.number for file, _, _ in found], counts)
        indices = np.concatenate([indices for _, _, indices in found])
        return FoundRecords(MergeRun(rows.take(pa.array(order))), numbers[order], indices[order])

    def _find_by_sequence(self, opened: Sequence[_OpenFile], keys: SoughtKeys) -> list[_Found]:
        names = (*self._policy.key, *self._policy.sequence)
        fields = [field for field in self._fields if field.name in names]
        found: list[_Found] = []
        runs: list[MergeRun] = []
        for file in opened:
            places, indices = file.find(keys, np.arange(len(keys)))
            if len(places):
                found.append((file, places, indices))
                own = pick_own_fields(file.file, self._policy.sequence)
                runs.append(MergeRun(file.take(indices, [*fields, *own]), file.file.order_time_ms))
        deleted = find_deleted_rows(
            runs,
            self._policy.key,
            self._policy.sequence,
            sequence_descending=self._policy.sequence_descending,
            delete_retention_ms=self._policy.delete_retention_ms,
            keep_deletes=True,
        )
        kept = [np.delete(np.arange(len(each[1])), gone) for each, gone in zip(found, deleted, strict=True)]
        return [(file, places[own], indices[own]) for (file, places, indices), own in zip(found, kept, strict=True)]

    def _empty(self) -> pa.Table:
        return pa.schema([*(field.remove_metadata() for field in self._fields), KIND_FIELD, TIME_FIELD]).empty_table()


class _OpenFile:
    """A data file in one lookup.

    Args:
        number: Its index among the given files.
        source: Opens it.
        file: The file.
        part: Which of the keys can be in it, by its range.
    """

    def __init__(self, number: int, source: _Source, file: LiveFile, part: slice) -> None:
        self.number: Final = number
        self.file: Final = file
        self._source = source
        self._part = part
        self._opened: LocalCopy | KeyProbe | None = None

    def find(self, keys: SoughtKeys, left: RowIndices) -> tuple[RowIndices, RowIndices]:
        """Which of the keys, given by rising indices, are in the file, and where."""
        first, last = np.searchsorted(left, (self._part.start, self._part.stop))
        places = left[first:last]
        if len(places) == 0:
            return places, places
        self._opened = self._source.open(self.file, keys, places)
        found = self._opened.find(keys, places)
        hit = np.flatnonzero(found >= 0)
        return places[hit], found[hit]

    def take(self, indices: RowIndices, fields: Sequence[pa.Field]) -> pa.Table:
        """Returns rows by their rising positions."""
        parts = list(self.take_parts(indices, fields))
        if not parts:
            return pa.schema([field.remove_metadata() for field in fields]).empty_table()
        return pa.concat_tables(parts)

    def take_parts(self, indices: RowIndices, fields: Sequence[pa.Field]) -> Iterator[pa.Table]:
        """Returns rows by their rising positions, in parts."""
        assert self._opened is not None, "positions come from it"
        if isinstance(self._opened, KeyProbe):
            yield from self._opened.take(indices, fields)
            return
        for start in range(0, len(indices), _PART_ROWS):
            yield self._opened.take(indices[start : start + _PART_ROWS], fields)

    def take_kinds(self, indices: RowIndices) -> npt.NDArray[np.int8]:
        """Returns the codes of the rows' kinds."""
        if self.file.delete_count == 0:
            return np.full(len(indices), RowKind.INSERT, np.int8)
        kinds = self.take(indices, [KIND_FIELD]).column(0).combine_chunks()
        return np.asarray(kinds.fill_null(RowKind.INSERT).to_numpy(zero_copy_only=False), np.int8)

    def take_times(self, indices: RowIndices) -> RowIndices:
        """The commit times of the rows, in milliseconds."""
        if not has_times(self.file, self._source.sequence):
            return np.full(len(indices), self.file.order_time_ms, np.int64)
        times = self.take(indices, [TIME_FIELD]).column(0).combine_chunks()
        return np.asarray(times.fill_null(self.file.order_time_ms).to_numpy(), np.int64)


_Found: TypeAlias = tuple[_OpenFile, RowIndices, RowIndices]


@dataclass(frozen=True)
class _Source:
    """Where the rows of data files come from."""

    store: ObjectStore
    schema: TableSchema
    cache: CopyCache | None
    key: Sequence[pa.Field]
    fields: Sequence[pa.Field]
    sequence: tuple[str, ...]

    def open(self, file: LiveFile, keys: SoughtKeys, places: RowIndices) -> LocalCopy | KeyProbe:
        if self.cache is None:
            return KeyProbe(self.store, file, self.key, keys, places)
        fields = [*self.fields, *pick_own_fields(file, self.sequence)]
        copy = self.cache.find(file, self.schema, [field.name for field in fields])
        if copy is not None:
            return copy
        probe = KeyProbe(self.store, file, self.key, keys, places)
        if self.cache.reads_direct(file, probe.size_bytes(fields)):
            return probe
        try:
            return self.cache.obtain(self.store, file, self.schema, fields, [field.name for field in self.key])
        except CopyTooLargeError:
            return probe


def _slice(files: Sequence[LiveFile], keys: pa.Table) -> list[slice]:
    """Which of the keys can be in each file, by its key range."""
    if all(file.min_key is None and file.max_key is None for file in files) or keys.num_rows == 0:
        return [slice(0, keys.num_rows)] * len(files)
    encoded = encode_rows([column.combine_chunks() for column in keys.columns])
    return [find_in_range(encoded, file.min_key, file.max_key) for file in files]


def _find_first(opened: Sequence[_OpenFile], keys: SoughtKeys) -> list[_Found]:
    found: list[_Found] = []
    left = np.arange(len(keys))
    for file in opened:
        if len(left) == 0:
            break
        places, indices = file.find(keys, left)
        found.append((file, places, indices))
        # Both arrays rise.
        left = np.delete(left, np.searchsorted(left, places))
    return found
