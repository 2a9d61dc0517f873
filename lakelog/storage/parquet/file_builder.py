"""Builds one data file with its entry in the commit: counts, key bounds, column statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.encoding import DEFAULT_BOUND_LENGTH, encode_key, encode_rows, lower_bound, upper_bound
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.statistics import StatisticsCollector
from lakelog.format.types.rowkind import is_retract
from lakelog.format.types.schema import TableSchema
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.writer import DataFileWriter, FileEncoding, plan_file_schema, row_group_length

Kinds = npt.NDArray[np.int8]


class FileBuilder:
    """Writes rows of one partition's bucket into one file. For one thread at a time.

    Args:
        store: Where the table's files are.
        path: The file's path.
        schema: The table's columns.
        encoding: How the columns are encoded.
        partition: Encoded partition values.
        bucket: The bucket.
        with_row_kind: Whether the file has a row-kind column.
        further: Further columns, which follow the table's in the file and in the rows.
        target_size_bytes: The size from which on the file is full.
        level: The file's level.
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        schema: TableSchema,
        encoding: FileEncoding,
        *,
        partition: bytes,
        bucket: int,
        with_row_kind: bool,
        target_size_bytes: int,
        level: int = 0,
        further: Sequence[pa.Field] = (),
    ) -> None:
        self.path: Final = path
        self._schema = schema
        self._partition = partition
        self._bucket = bucket
        self._target_bytes = target_size_bytes
        self._writer = DataFileWriter(store, path, plan_file_schema(schema, with_row_kind, further), encoding)
        self._level = level
        self._column_count = len(schema.arrow)
        self._with_row_kind = with_row_kind
        self._statistics = StatisticsCollector(schema.field_ids)
        self._delete_count = 0
        self._first_key: bytes | None = None
        self._last_key: bytes | None = None

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its target size."""
        return self._writer.size_bytes >= self._target_bytes

    def count_going_on(self, rows: pa.Table) -> int:
        """How many rows from the front must go into this file though it is full; 0: it may end here.

        Bounds of long keys are truncated, so bounds of adjacent rows can be equal though their keys differ. If the
        files of a level form one sorted run, such rows stay in one file, however large it gets.
        """
        if not self._schema.primary_key or self._last_key is None:
            return 0
        columns = [rows.column(name) for name in self._schema.trimmed_key]
        if _are_apart(self._last_key, encode_key([column[0] for column in columns])):
            return 0
        keys = encode_rows([column.combine_chunks() for column in columns])
        # Only if the rest of the rows would change.
        cut = pc.binary_slice(keys, 0, DEFAULT_BOUND_LENGTH)
        changes = np.flatnonzero(pc.not_equal(cut[1:], cut[:-1]).to_numpy(zero_copy_only=False)) + 1
        ends = (int(place) for place in changes if _are_apart(keys[place - 1].as_py(), keys[place].as_py()))
        return next(ends, rows.num_rows)

    def write_until_full(self, table: pa.Table, kinds: Kinds | None) -> int:
        """Writes rows from the front until none remains or the file is full, at least one row group.

        Args:
            table: Columns of the table, then the further ones; in tables with a key sorted by it, after all rows
                written before.
            kinds: A code for each row, for a file with a row-kind column.

        Returns:
            How many rows were written.
        """
        length = row_group_length(table, self._target_bytes)
        written = 0
        while written < table.num_rows and (written == 0 or not self.is_full):
            rows = table.slice(written, length)
            self._write_row_group(rows, None if kinds is None else kinds[written : written + length])
            written += rows.num_rows
        return written

    def finish(self) -> DataFile:
        """Makes the file durable and returns its entry for the commit."""
        size_bytes = self._writer.finish()
        return DataFile(
            path=self.path,
            partition=self._partition,
            bucket=self._bucket,
            level=self._level,
            row_count=self._writer.row_count,
            delete_count=self._delete_count,
            size_bytes=size_bytes,
            min_key=None if self._first_key is None else lower_bound(self._first_key),
            max_key=None if self._last_key is None else upper_bound(self._last_key),
            schema_id=self._schema.schema_id,
            statistics=self._statistics.finish(),
        )

    def abort(self) -> None:
        """Removes the file if it is not finished; never raises."""
        self._writer.abort()

    def _write_row_group(self, rows: pa.Table, kinds: Kinds | None) -> None:
        columns = list(rows.columns)
        own, further = columns[: self._column_count], columns[self._column_count :]
        self._statistics.update(rows)
        if self._schema.primary_key:
            key = [rows.column(name) for name in self._schema.trimmed_key]
            self._first_key = self._first_key or encode_key([column[0] for column in key])
            self._last_key = encode_key([column[-1] for column in key])
        if self._with_row_kind:
            codes = pa.array(np.zeros(rows.num_rows, np.int8) if kinds is None else kinds)
            self._delete_count += int(is_retract(codes).sum())
            own.append(pa.chunked_array([codes]))
        self._writer.write(pa.Table.from_arrays([*own, *further], schema=self._writer.schema))


def _are_apart(key: bytes, following: bytes) -> bool:
    """Whether the bounds of files that end and begin with these keys do not meet."""
    bound = upper_bound(key)
    return bound is not None and bound < lower_bound(following)
