"""Reads the runs of one bucket side by side by key, in memory that does not depend on their size."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import DataCorrupted
from lakelog.format.keys.encoding import encode_key
from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.sections import KeyRange, find_depth
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import BATCH_ROWS

RowIndices = npt.NDArray[np.int64]

DEFAULT_HELD_BYTES: Final = 256 << 20
"""Bytes of the rows of all runs in memory, for callers that read few columns or few runs."""

_LEAST_ROWS: Final = 1024
"""Rows that are read from a run at once with any number of runs, unless they are large: fewer rows would cost repeated
decoding."""

_LEAST_BYTES: Final = 4 << 20
"""The same limit in bytes of Arrow memory: rows of tens of megabytes come one by one."""

_MOST_BYTES: Final = 32 << 20
"""The most bytes that are read of a run at once, as large as an ordinary row group: merging and writing take several
times as much."""

_MOST_REPEATS: Final = 16
"""If a row group comes in more parts, its decoding continues, though its pages stay in memory meanwhile."""


@dataclass(frozen=True)
class RunPart:
    """What to read of a data file.

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
    """Rows of one run, aligned with those of others.

    Args:
        rows: The rows; may be none.
        start: The position of the first row in the file.
    """

    rows: pa.Table
    start: int


class Room:
    """The memory that several runs can take together. Threads may share it."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> bool:
        """Takes a part of the memory; False: there is no room."""
        with self._lock:
            self._left -= size_bytes
            return self._left >= 0


def read_run(data_files: DataFiles, part: RunPart) -> pa.Table:
    """Reads a whole run at once.

    Raises:
        DataCorrupted: The file is damaged or missing; named.
    """
    found = read_run_within(data_files, part, None)
    assert found is not None, "there is no limit"
    return found


def read_run_within(data_files: DataFiles, part: RunPart, room: Room | None) -> pa.Table | None:
    """Reads a whole run, if there is room for it; else None. Raises as `read_run`."""
    with data_files.open(part.file) as reader:
        mapping = reader.map_columns(part.fields)
        groups = range(reader.metadata.num_row_groups) if part.groups is None else part.groups
        batches: list[pa.RecordBatch] = []
        for batch in reader.read_batches(groups, mapping):
            if room is not None and not room.take(batch.nbytes):
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches, mapping.schema)


def read_aligned(
    data_files: DataFiles,
    parts: Sequence[RunPart],
    key: Sequence[str],
    *,
    held_bytes: int = DEFAULT_HELD_BYTES,
    keys_repeat: bool = False,
) -> Iterator[list[AlignedRows]]:
    """Reads runs side by side, a row group of each at a time; a file is opened when its key range begins.

    Args:
        data_files: Opens the files.
        parts: The runs; the columns of each include those of the key.
        key: Names of the key's columns.
        held_bytes: About how many bytes of all runs together can be in memory at once. If whole row groups would take
            more, they are read in parts, and each time the rows before are decoded.
        keys_repeat: Whether a run may have several rows of one key, as changelogs do. A key may have more rows than fit
            into memory, so they may come in several steps: those of earlier runs first.

    Yields:
        The next rows of each run. All rows of one key come in the same step, and the keys of a step are above those of
        the steps before; if keys repeat, above them or equal to the last of them.

    Raises:
        DataCorrupted: A file is damaged, missing or not sorted; named.
    """
    ranges = [KeyRange(part.file.min_key, part.file.max_key) for part in parts]
    share_bytes = held_bytes // find_depth(ranges) if parts else held_bytes
    cursors = [_Cursor(data_files, part, share_bytes) for part in parts]
    # The file with the lowest beginning comes last.
    waiting = sorted(cursors, key=lambda cursor: cursor.part.file.min_key or b"", reverse=True)
    begun: list[_Cursor] = []
    try:
        while True:
            _begin(begun, waiting, key)
            holding = {id(cursor) for cursor in begun if cursor.held.num_rows}
            if not holding:
                return
            begun = [cursor for cursor in cursors if id(cursor) in holding]
            counts = _count_complete(data_files, begun, key, keys_repeat=keys_repeat)
            taken = {id(cursor): cursor.take(count) for cursor, count in zip(begun, counts, strict=True)}
            yield [taken.get(id(cursor)) or cursor.take(0) for cursor in cursors]
    finally:
        for cursor in cursors:
            cursor.close()


def _begin(begun: list[_Cursor], waiting: list[_Cursor], key: Sequence[str]) -> None:
    """Fills the open cursors, and opens those whose files can hold a key of the next step."""
    while True:
        for cursor in begun:
            cursor.fill()
        if not waiting:
            return
        last_keys = [(cursor.has_more, cursor.last_key(key)) for cursor in begun if cursor.held.num_rows]
        # The next step goes up to here; if everything is in memory, to its end.
        limit = min((last for has_more, last in last_keys if has_more), default=None)
        if limit is None:
            limit = max((last for _, last in last_keys), default=None)
        due = [each for each in waiting if limit is not None and (each.part.file.min_key or b"") <= limit]
        if not last_keys:
            due = waiting[-1:]
        if not due:
            return
        del waiting[len(waiting) - len(due) :]
        begun.extend(due)


def _count_complete(
    data_files: DataFiles, cursors: Sequence[_Cursor], key: Sequence[str], *, keys_repeat: bool
) -> list[int]:
    """How many of each cursor's rows in memory come before all rows still to be read: by key, then by cursor."""
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
    open_ends = [own[-1] for cursor, own in zip(cursors, parts, strict=True) if cursor.has_more]
    if not open_ends:
        return [len(own) for own in parts]
    last = min(open_ends)
    # The run that may have more rows of this key; rows of later runs wait for them.
    first = next(place for place, cursor in enumerate(cursors) if cursor.has_more and parts[place][-1] == last)
    return [
        int(np.searchsorted(own, last, side="left" if keys_repeat and place > first else "right"))
        for place, own in enumerate(parts)
    ]


class _Cursor:
    """A run's rows, read by row group or less; the file is open only during reads, or within a huge row group."""

    def __init__(self, data_files: DataFiles, part: RunPart, share_bytes: int) -> None:
        self.part = part
        self._nothing = pa.schema(list(part.fields)).empty_table()
        self.held = self._nothing
        self.has_more = part.file.row_count > 0 and (part.groups is None or len(part.groups) > 0)
        self._start = 0
        self._data_files = data_files
        self._share_bytes = share_bytes
        self._next = 0
        self._row = 0
        self._reading: _Reading | None = None

    def last_key(self, key: Sequence[str]) -> bytes:
        """The encoded key of the last row in memory."""
        return encode_key([self.held.column(name)[-1] for name in key])

    def fill(self) -> None:
        """Reads the next row group, or as much of it as fits, if no rows are in memory."""
        while self.held.num_rows == 0 and self.has_more:
            if self._reading is None:
                self._reading = _Reading(self._data_files, self.part, self._next, self._row, self._share_bytes)
            reading = self._reading
            self._start = reading.first_row + self._row
            rows, is_whole = reading.read()
            # SUBTLE: it is copied, because a slice keeps everything in memory that was decoded for it.
            self.held = rows if is_whole else rows.take(pa.array(np.arange(rows.num_rows)))
            self._row += rows.num_rows
            if self._row == reading.row_count:
                self._next, self._row = self._next + 1, 0
            if self._row == 0 or reading.row_count <= rows.num_rows * _MOST_REPEATS:
                self.close()
            self.has_more = self._next < reading.group_count

    def close(self) -> None:
        """Closes the file, if it is open."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def take(self, count: int) -> AlignedRows:
        """Removes this many rows from the front and returns them."""
        taken = AlignedRows(self.held.slice(0, count), self._start)
        # SUBTLE: a slice without rows keeps all in memory as well.
        self.held = self.held.slice(count) if count < self.held.num_rows else self._nothing
        self._start += count
        return taken


class _Reading:
    """An open file, in the middle of a row group."""

    def __init__(self, data_files: DataFiles, part: RunPart, number: int, row: int, share_bytes: int) -> None:
        self._reader = data_files.open(part.file)
        self._share_bytes = min(max(share_bytes, _LEAST_BYTES), _MOST_BYTES)
        metadata = self._reader.metadata
        groups = range(metadata.num_row_groups) if part.groups is None else part.groups
        group = groups[number]
        self.group_count: Final = len(groups)
        self.first_row: Final = int(self._reader.row_group_starts[group])
        self.row_count: Final = int(metadata.row_group(group).num_rows)
        self._most_rows = self._rows_at_once(metadata.row_group(group))
        self._starts_inside = row > 0
        self._mapping = self._reader.map_columns(part.fields)
        self._batches = self._reader.read_slice(
            group, row, self.row_count, self._mapping, self._share_bytes, min(self._most_rows, BATCH_ROWS)
        )

    def read(self) -> tuple[pa.Table, bool]:
        """The next rows, and whether they are all the rows that were decoded for them."""
        found: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in self._batches:
            found.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            # The next batch is probably as large.
            if rows >= self._most_rows or size_bytes + batch.nbytes > self._share_bytes:
                break
        is_whole, self._starts_inside = not self._starts_inside, False
        return pa.Table.from_batches(found, self._mapping.schema), is_whole

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()

    def _rows_at_once(self, group: pq.RowGroupMetaData) -> int:
        if group.total_byte_size <= self._share_bytes:
            return max(1, int(group.num_rows))
        return max(_LEAST_ROWS, int(group.num_rows * self._share_bytes // group.total_byte_size))
