"""Lookups of keys in a data file itself, if few of its row groups can hold them and a local copy would not pay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.keys.encoding import encode_values
from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.keys.ranges import find_in_range
from lakelog.storage.lookup.sought_keys import SoughtKeys
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.row_groups import read_column_bounds

RowIndices = npt.NDArray[np.int64]


class KeyProbe:
    """The part of a data file, sorted by key, that can hold some keys. For one thread.

    Args:
        store: Where the file is.
        file: The file; it is open only during reads.
        key: The key's columns.
        keys: The keys to look up.
        places: Which of them; they rise by key.
    """

    def __init__(
        self, store: ObjectStore, file: LiveFile, key: Sequence[pa.Field], keys: SoughtKeys, places: RowIndices
    ) -> None:
        self._store = store
        self._file = file
        self._key = key
        with DataFileReader(store, file) as reader:
            self._metadata = reader.metadata
            self._starts = reader.row_group_starts
            self._groups = _pick_groups(reader, key[0], keys.take(places))

    def size_bytes(self, fields: Sequence[pa.Field]) -> int:
        """How many bytes of the file some columns of the rows that can hold the keys take."""
        with self._open() as reader:
            leaves = reader.map_columns(fields).leaf_columns
        groups = (self._metadata.row_group(group) for group in self._groups)
        return sum(group.column(leaf).total_compressed_size for group in groups for leaf in leaves)

    def find(self, keys: SoughtKeys, places: RowIndices) -> RowIndices:
        """For each of the given keys, the position of its row in the file; -1: none."""
        found = np.full(len(places), -1, np.int64)
        sought = keys.take(places)
        for group in self._groups:
            start = int(self._starts[group])
            for rows in self._read(group, self._key, 0, int(self._starts[group + 1]) - start):
                both = pa.concat_tables([rows, sought.cast(rows.schema)])
                codes = comparable_keys([both.column(field.name) for field in self._key])
                own, wanted = codes[: rows.num_rows], codes[rows.num_rows :]
                at = np.searchsorted(own, wanted)
                hit = np.flatnonzero(own[np.minimum(at, len(own) - 1)] == wanted)
                found[hit] = start + at[hit]
                start += rows.num_rows
        return found

    def take(self, positions: RowIndices, fields: Sequence[pa.Field]) -> Iterator[pa.Table]:
        """Returns some rows, in parts.

        Args:
            positions: Positions in the file, rising.
            fields: The columns to return.
        """
        ends = np.searchsorted(positions, self._starts)
        for group in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
            own = positions[ends[group] : ends[group + 1]] - self._starts[group]
            start, done = int(own[0]), 0
            for rows in self._read(group, fields, start, int(own[-1]) + 1):
                last = int(np.searchsorted(own, start + rows.num_rows))
                if last > done:
                    yield rows.take(pa.array(own[done:last] - start))
                start, done = start + rows.num_rows, last

    def _read(self, group: int, fields: Sequence[pa.Field], start: int, end: int) -> Iterator[pa.Table]:
        """Adjacent rows of a row group in parts, none of them empty."""
        schema = pa.schema([field.remove_metadata() for field in fields])
        with self._open() as reader:
            for batch in reader.read_slice(group, start, end, reader.map_columns(fields)):
                yield pa.Table.from_batches([pa.RecordBatch.from_arrays(batch.columns, schema=schema)])

    def _open(self) -> DataFileReader:
        return DataFileReader(self._store, self._file, self._metadata)


def _pick_groups(reader: DataFileReader, first: pa.Field, keys: pa.Table) -> list[int]:
    """The row groups whose range of the key's first column has one of the keys."""
    groups = [group for group in range(reader.metadata.num_row_groups) if reader.metadata.row_group(group).num_rows]
    if keys.num_rows == 0 or not groups:
        return []
    bounds = read_column_bounds(reader, first)
    if bounds is None:
        return groups
    wanted = encode_values(keys.column(0).combine_chunks())
    held = [find_in_range(wanted, bounds.min_value[group].as_py(), bounds.max_value[group].as_py()) for group in groups]
    return [group for group, part in zip(groups, held, strict=True) if part.start < part.stop]
