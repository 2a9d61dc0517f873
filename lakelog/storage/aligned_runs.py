"""Runs of one bucket, read side by side in the order of their keys, in memory that does not depend on their size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import DataCorrupted
from lakelog.format.ordering import comparable_keys
from lakelog.storage.data_files import DataFiles
from lakelog.storage.live_file import LiveFile

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RunPart:
    """What of a data file is read.

    Args:
        file: The file, sorted by the key.
        fields: The columns.
        groups: Its row groups, rising; None: all.
    """

    file: LiveFile
    fields: Sequence[pa.Field]
    groups: Sequence[int] | None = None


@dataclass(frozen=True)
class AlignedRows:
    """Rows of one run that stand side by side with those of others.

    Args:
        rows: They; may be none.
        start: The position of the first one in the file.
    """

    rows: pa.Table
    start: int


def read_run(data_files: DataFiles, part: RunPart) -> pa.Table:
    """Reads it all at once.

    Raises:
        DataCorrupted: The file is damaged or missing; named.
    """
    with data_files.open(part.file) as reader:
        mapping = reader.map_columns(part.fields)
        groups = range(reader.metadata.num_row_groups) if part.groups is None else part.groups
        return pa.Table.from_batches(list(reader.read_batches(groups, mapping)), mapping.schema)


def read_aligned(data_files: DataFiles, parts: Sequence[RunPart], key: Sequence[str]) -> Iterator[list[AlignedRows]]:
    """Reads runs side by side, a row group of each at a time.

    Args:
        data_files: Opens the files.
        parts: The runs; those of the key are among the columns of each.
        key: Names of the key's columns.

    Yields:
        The next rows of each run. All rows of one key come in the same step, and the keys of a step lie above those of
        the steps before.

    Raises:
        DataCorrupted: A file is damaged, missing or not sorted; named.
    """
    cursors = [_Cursor(data_files, part) for part in parts]
    while True:
        for cursor in cursors:
            cursor.fill()
        if all(cursor.held.num_rows == 0 for cursor in cursors):
            return
        counts = _count_complete(data_files, cursors, key)
        yield [cursor.take(count) for cursor, count in zip(cursors, counts, strict=True)]


def _count_complete(data_files: DataFiles, cursors: Sequence[_Cursor], key: Sequence[str]) -> list[int]:
    """How many of each cursor's held rows have keys that no row still to be read can have."""
    held = pa.concat_tables([cursor.held.select(list(key)) for cursor in cursors])
    keys = comparable_keys([held.column(name) for name in key])
    ends = np.cumsum([cursor.held.num_rows for cursor in cursors])
    parts = np.split(keys, ends[:-1])
    for cursor, own in zip(cursors, parts, strict=True):
        if (own[1:] < own[:-1]).any():
            path = cursor.part.file.path
            raise DataCorrupted(
                f"Data file {data_files.store.location}{path} is damaged: its rows are not sorted by "
                f"{', '.join(key)}. Restore it from a backup, or overwrite its partition.",
                metadata={"path": path},
            )
    open_ends = [own[-1] for cursor, own in zip(cursors, parts, strict=True) if cursor.has_more and len(own)]
    if not open_ends:
        return [len(own) for own in parts]
    return [int(np.searchsorted(own, min(open_ends), side="right")) for own in parts]


class _Cursor:
    """A run's rows, read row group by row group; the file is open only meanwhile."""

    def __init__(self, data_files: DataFiles, part: RunPart) -> None:
        self.part = part
        self.held = pa.schema(list(part.fields)).empty_table()
        self.has_more = part.file.row_count > 0 and (part.groups is None or len(part.groups) > 0)
        self._start = 0
        self._data_files = data_files
        self._next = 0

    def fill(self) -> None:
        """Reads the next row group if nothing is held."""
        while self.held.num_rows == 0 and self.has_more:
            with self._data_files.open(self.part.file) as reader:
                groups = range(reader.metadata.num_row_groups) if self.part.groups is None else self.part.groups
                group = groups[self._next]
                mapping = reader.map_columns(self.part.fields)
                self.held = pa.Table.from_batches(list(reader.read_batches([group], mapping)), mapping.schema)
                self._start = int(reader.row_group_starts[group])
                self._next += 1
                self.has_more = self._next < len(groups)

    def take(self, count: int) -> AlignedRows:
        """Takes so many rows from the front."""
        taken = AlignedRows(self.held.slice(0, count), self._start)
        self.held = self.held.slice(count)
        self._start += count
        return taken
