"""Runs of one bucket, read side by side in the order of their keys, in memory that does not depend on their size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import DataCorrupted
from lakelog.format.ordering import comparable_keys
from lakelog.storage.live_file import LiveFile
from lakelog.storage.parquet_reader import DataFileReader
from lakelog.storage.store import ObjectStore

Positions = npt.NDArray[np.int64]


def read_run(
    store: ObjectStore, file: LiveFile, fields: Sequence[pa.Field], groups: Sequence[int] | None = None
) -> pa.Table:
    """Reads some columns of a data file.

    Args:
        store: Where it is.
        file: The file.
        fields: The columns.
        groups: Its row groups; None: all.

    Raises:
        DataCorrupted: It is damaged or missing; named.
    """
    with DataFileReader(store, file) as reader:
        mapping = reader.map_columns(fields)
        chosen = range(reader.metadata.num_row_groups) if groups is None else groups
        return pa.Table.from_batches(list(reader.read_batches(chosen, mapping)), mapping.schema)


def read_aligned(
    store: ObjectStore, files: Sequence[LiveFile], fields: Sequence[pa.Field], key: Sequence[str]
) -> Iterator[list[pa.Table]]:
    """Reads runs side by side, a row group of each at a time.

    Args:
        store: Where the files are.
        files: Each sorted by the key.
        fields: The columns to read, those of the key among them.
        key: Names of the key's columns.

    Yields:
        For each file its next rows, which may be none. All rows of one key come in the same step, and the keys of a
        step lie above those of the steps before.

    Raises:
        DataCorrupted: A file is damaged, missing or not sorted; named.
    """
    cursors = [_Cursor(store, file, fields) for file in files]
    while True:
        for cursor in cursors:
            cursor.fill()
        if all(cursor.held.num_rows == 0 for cursor in cursors):
            return
        counts = _count_complete(store, cursors, key)
        yield [cursor.take(count) for cursor, count in zip(cursors, counts, strict=True)]


def _count_complete(store: ObjectStore, cursors: Sequence[_Cursor], key: Sequence[str]) -> list[int]:
    """How many of each cursor's held rows have keys that no row still to be read can have."""
    held = pa.concat_tables([cursor.held.select(list(key)) for cursor in cursors])
    keys = comparable_keys([held.column(name) for name in key])
    ends = np.cumsum([cursor.held.num_rows for cursor in cursors])
    parts = np.split(keys, ends[:-1])
    for cursor, own in zip(cursors, parts, strict=True):
        if (own[1:] < own[:-1]).any():
            raise DataCorrupted(
                f"Data file {store.location}{cursor.file.path} is damaged: its rows are not sorted by "
                f"{', '.join(key)}. Restore it from a backup, or overwrite its partition.",
                metadata={"path": cursor.file.path},
            )
    open_ends = [own[-1] for cursor, own in zip(cursors, parts, strict=True) if cursor.has_more and len(own)]
    if not open_ends:
        return [len(own) for own in parts]
    return [int(np.searchsorted(own, min(open_ends), side="right")) for own in parts]


class _Cursor:
    """A file's columns, read row group by row group; the file is open only meanwhile."""

    def __init__(self, store: ObjectStore, file: LiveFile, fields: Sequence[pa.Field]) -> None:
        self.file = file
        self.held = pa.schema(list(fields)).empty_table()
        self.has_more = file.row_count > 0
        self._store = store
        self._fields = fields
        self._next = 0

    def fill(self) -> None:
        """Reads the next row group if nothing is held."""
        while self.held.num_rows == 0 and self.has_more:
            with DataFileReader(self._store, self.file) as reader:
                mapping = reader.map_columns(self._fields)
                self.held = pa.Table.from_batches(list(reader.read_batches([self._next], mapping)), mapping.schema)
                self._next += 1
                self.has_more = self._next < reader.metadata.num_row_groups

    def take(self, count: int) -> pa.Table:
        """Takes so many rows from the front."""
        taken = self.held.slice(0, count)
        self.held = self.held.slice(count)
        return taken
