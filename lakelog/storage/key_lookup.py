"""Lookup: the records that decide some keys in one bucket, at one snapshot (DESIGN: Lookup).

Keys are looked for in whole batches, file by file: in a local copy where there is one, else in the data file itself
while that costs less than copying it. Without sequence columns the newest file that has a key decides it (the oldest
where the first row of a key stays), so that files are gone through from there on and only the keys not found yet go
further; with them every file is asked, and merging decides as it does for a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.key_range import find_in_range
from lakelog.format.keys import encode_rows
from lakelog.format.merge import COMMIT_TIMESTAMP_COLUMN, MergeRun, find_superseded
from lakelog.format.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.format.schema import TableSchema
from lakelog.storage.copy_cache import CopyCache
from lakelog.storage.key_probe import KeyProbe
from lakelog.storage.live_file import LiveFile
from lakelog.storage.local_copy import LocalCopy
from lakelog.storage.store import ObjectStore
from lakelog.storage.superseded import MergePolicy

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FoundRecords:
    """Records that decide keys, ordered by key.

    Attributes:
        run: The columns asked for, `_row_kind` (int8 codes) and `_commit_timestamp`.
        files: Which of the files asked each record lies in, by its number among them.
        positions: Each record's position in its file.
    """

    run: MergeRun
    files: Positions
    positions: Positions


class KeyLookup:
    """Looks keys up in data files of one table. For one thread at a time.

    Args:
        store: Where the files are.
        schema: What to read with.
        policy: What decides between rows of one key.
        cache: Local copies.
        fields: The columns of the rows that are found, as files store them (deletes know no more than their key);
            those of the key and of `sequence.field` are among them.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        policy: MergePolicy,
        cache: CopyCache,
        fields: Sequence[pa.Field],
    ) -> None:
        self._policy = policy
        self._fields = list(fields)
        key = [schema.arrow.field(name) for name in policy.key]
        self._source = _Source(store, schema, cache, key, self._fields)

    def find(self, files: Sequence[LiveFile], keys: pa.Table) -> FoundRecords:
        """The record that decides each key, which may be a delete; keys without a record are missing.

        Args:
            files: All live files of one bucket that can hold the keys, in the bucket's order.
            keys: The key's columns; rising, each key once, without NULLs.

        Raises:
            DataCorrupted: A file is damaged or missing; named.
            ResourceExhausted: There is no room for a local copy.
        """
        parts = _slice(files, keys)
        opened = [_OpenFile(self._source, file, part) for file, part in zip(files, parts, strict=True)]
        if self._policy.sequence:
            found = self._find_by_sequence(opened, keys)
        else:
            found = _find_first(opened if self._policy.keep_first else opened[::-1], keys)
        found = [each for each in found if len(each[1])]
        if not found:
            none = np.empty(0, np.int64)
            return FoundRecords(MergeRun(self._empty()), none, none)
        tables = [self._take(file, places, positions) for file, places, positions in found]
        order = np.argsort(np.concatenate([places for _, places, _ in found]), kind="stable")
        numbers = np.repeat([opened.index(file) for file, _, _ in found], [len(places) for _, places, _ in found])
        positions = np.concatenate([positions for _, _, positions in found])
        return FoundRecords(MergeRun(pa.concat_tables(tables).take(pa.array(order))), numbers[order], positions[order])

    def _find_by_sequence(self, opened: Sequence[_OpenFile], keys: pa.Table) -> list[_Found]:
        names = (*self._policy.key, *self._policy.sequence)
        fields = [field for field in self._fields if field.name in names]
        found: list[_Found] = []
        runs: list[MergeRun] = []
        for file in opened:
            places, positions = file.find(keys, np.arange(keys.num_rows))
            if len(places):
                found.append((file, places, positions))
                runs.append(MergeRun(file.take(positions, _with_kind(fields, file.file)), file.file.order_time_ms))
        superseded = find_superseded(
            runs,
            self._policy.key,
            self._policy.sequence,
            sequence_descending=self._policy.sequence_descending,
            delete_retention_ms=self._policy.delete_retention_ms,
            keep_deletes=True,
        )
        kept = [np.delete(np.arange(len(each[1])), gone) for each, gone in zip(found, superseded, strict=True)]
        return [(file, places[own], positions[own]) for (file, places, positions), own in zip(found, kept, strict=True)]

    def _take(self, file: _OpenFile, places: Positions, positions: Positions) -> pa.Table:
        rows = file.take(positions, self._fields)
        if file.file.delete_count == 0:
            kinds = pa.repeat(pa.scalar(RowKind.INSERT, pa.int8()), len(places))
        else:
            kinds = file.take(positions, [_KIND_FIELD]).column(0).combine_chunks().fill_null(RowKind.INSERT)
        times = pa.repeat(pa.scalar(file.file.order_time_ms, pa.int64()), len(places))
        return rows.append_column(_KIND_FIELD, kinds).append_column(_TIME_FIELD, times)

    def _empty(self) -> pa.Table:
        return pa.schema([*(field.remove_metadata() for field in self._fields), _KIND_FIELD, _TIME_FIELD]).empty_table()


class _OpenFile:
    """A data file in one lookup."""

    def __init__(self, source: _Source, file: LiveFile, part: slice) -> None:
        self.file: Final = file
        self._source = source
        self._part = part
        self._opened: LocalCopy | KeyProbe | None = None

    def find(self, keys: pa.Table, left: Positions) -> tuple[Positions, Positions]:
        """Which of the keys, given by their rising places, are in the file, and where."""
        first, last = np.searchsorted(left, (self._part.start, self._part.stop))
        places = left[first:last]
        if len(places) == 0:
            return places, places
        wanted = keys if len(places) == keys.num_rows else keys.take(pa.array(places))
        self._opened = self._source.open(self.file, wanted)
        found = self._opened.find(wanted)
        hit = np.flatnonzero(found >= 0)
        return places[hit], found[hit]

    def take(self, positions: Positions, fields: Sequence[pa.Field]) -> pa.Table:
        """Takes rows by their rising positions."""
        assert self._opened is not None, "positions come from it"
        return self._opened.take(positions, fields)


_Found: TypeAlias = tuple[_OpenFile, Positions, Positions]


@dataclass(frozen=True)
class _Source:
    """Where the rows of data files come from."""

    store: ObjectStore
    schema: TableSchema
    cache: CopyCache
    key: Sequence[pa.Field]
    fields: Sequence[pa.Field]

    def open(self, file: LiveFile, keys: pa.Table) -> LocalCopy | KeyProbe:
        fields = _with_kind(self.fields, file)
        copy = self.cache.find(file, self.schema, [field.name for field in fields])
        if copy is not None:
            return copy
        probe = KeyProbe(self.store, file, self.key, keys)
        if self.cache.reads_direct(file, probe.size_bytes(fields)):
            return probe
        return self.cache.obtain(self.store, file, self.schema, fields, [field.name for field in self.key])


def _slice(files: Sequence[LiveFile], keys: pa.Table) -> list[slice]:
    """Which of the keys can be in each file, by its key range."""
    if all(file.min_key is None and file.max_key is None for file in files) or keys.num_rows == 0:
        return [slice(0, keys.num_rows)] * len(files)
    encoded = encode_rows([column.combine_chunks() for column in keys.columns])
    return [find_in_range(encoded, file.min_key, file.max_key) for file in files]


def _find_first(opened: Sequence[_OpenFile], keys: pa.Table) -> list[_Found]:
    found: list[_Found] = []
    left = np.arange(keys.num_rows)
    for file in opened:
        if len(left) == 0:
            break
        places, positions = file.find(keys, left)
        found.append((file, places, positions))
        left = np.setdiff1d(left, places, assume_unique=True)
    return found


def _with_kind(fields: Sequence[pa.Field], file: LiveFile) -> list[pa.Field]:
    """The columns and, where not all of a file's rows are inserts, their kind."""
    return [*fields, _KIND_FIELD] if file.delete_count else list(fields)


_KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.int8())
_TIME_FIELD: Final = pa.field(COMMIT_TIMESTAMP_COLUMN, pa.int64())
