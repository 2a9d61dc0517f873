"""Writes one Parquet file: the encoding of its columns, the size of its row groups, when it is full.

Choices, with what they are worth (bench/storage; Q1 rows, one core): zstd level 1; no dictionary where values hardly
repeat (it halves the speed there and saves nothing), so a sample decides; pages are cut by size alone, not by rows;
every page has a checksum, which costs nothing that can be measured and finds damage. Everything is readable by Spark's
vectorised reader: data pages of version 1, plain and dictionary encodings, decimals and timestamps as integers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from lakelog.errors import Unavailable
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.storage.objects.io_errors import translate_io_error
from lakelog.storage.objects.store import ObjectStore

ROW_GROUP_ROWS: Final = 32_768
"""What a range, a lookup or a merge step reads of a column at least; fewer rows would cost full scans and object stores
more (docs/decisions/0005)."""

ROW_GROUP_BYTES: Final = 32 << 20
"""Size in Arrow memory: bounds a reader's memory if rows are wide."""

PATH_KEY: Final = "lakelog.path"
"""A key of the footer's metadata: the file's path in its table, which names its attempt and is unique to the file."""

_SAMPLE_ROWS: Final = 2048
_TOO_FEW_ROWS: Final = 512
"""Below this a dictionary saves nothing that zstd does not, and checking takes longer than encoding."""

_DICTIONARY_MAX_DISTINCT: Final = 0.5
"""Share of distinct values in the sample up to which a dictionary also makes a column smaller after zstd."""

_COMPRESSION_LEVELS: Final = {"zstd": 1}


@dataclass(frozen=True)
class FileEncoding:
    """How the files of one write are encoded.

    Args:
        compression: Value of the option `file.compression`.
        dictionary_columns: Parquet paths of the columns with a dictionary.
    """

    compression: str
    dictionary_columns: tuple[str, ...] = ()


def plan_file_schema(schema: TableSchema, with_row_kind: bool, further: Sequence[pa.Field] = ()) -> pa.Schema:
    """Returns the columns of a data file. Pure.

    In tables with a primary key every column except the key's is optional in the file, even if the table requires it: a
    delete has only its key (semantics 1.5). Readers restore the table's own nullability.

    Args:
        schema: The table's columns.
        with_row_kind: Whether a column `_row_kind` (int8, required) follows, as in files with rows other than +I.
        further: Further columns, which compactions keep for rows.
    """
    fields = list(schema.arrow)
    if schema.primary_key:
        fields = [field if field.name in schema.primary_key else field.with_nullable(True) for field in fields]
    if with_row_kind:
        fields.append(pa.field(ROW_KIND_COLUMN, pa.int8(), nullable=False))
    return pa.schema([*fields, *further])


def plan_encoding(sample: pa.Table, compression: str) -> FileEncoding:
    """Decides how to encode columns like those of `sample`. Pure; reads at most some thousand rows."""
    if sample.num_rows < _TOO_FEW_ROWS:
        return FileEncoding(compression)
    if sample.num_rows > _SAMPLE_ROWS:
        # Spread over the table, since adjacent values in sorted columns are more alike than all values are.
        sample = sample.take(pa.array(np.linspace(0, sample.num_rows - 1, _SAMPLE_ROWS).astype(np.int64)))
    columns = [
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        for path, leaf in _leaves(field.name, column.combine_chunks())
        if _pays_as_dictionary(leaf)
    ]
    return FileEncoding(compression, tuple(columns))


def row_group_length(table: pa.Table, target_size_bytes: int) -> int:
    """Returns how many rows a row group of rows like these has, at least 1. Pure.

    Args:
        table: Rows as they will be written.
        target_size_bytes: The intended size of a file; a row group never exceeds it by much.
    """
    bytes_per_row = max(1.0, table.nbytes / max(1, table.num_rows))
    return max(1, min(ROW_GROUP_ROWS, int(min(ROW_GROUP_BYTES, target_size_bytes) / bytes_per_row)))


class DataFileWriter:
    """A Parquet file during its write; exactly one of `finish` and `abort` ends it. For one thread at a time.

    Args:
        store: Where the table's files are.
        path: The file's path in the store.
        schema: The columns, as of `plan_file_schema`.
        encoding: How the columns are encoded.

    Raises:
        AlreadyExists: There is such a file.
        ResourceExhausted: The disk is full; like all other errors of the store, also during the write.
    """

    def __init__(self, store: ObjectStore, path: str, schema: pa.Schema, encoding: FileEncoding) -> None:
        self.path: Final = path
        self.schema: Final = schema
        self.row_count = 0
        self._stored, paths_with_statistics = _plan_storage(schema.serialize().to_pybytes())
        self._name = f"{store.location}{path}"
        self._object = store.create(path)
        self._size_bytes: int | None = None
        try:
            with self._translated():
                self._parquet: pq.ParquetWriter | None = pq.ParquetWriter(
                    self._object.sink,
                    self._stored,
                    compression=encoding.compression,
                    compression_level=_COMPRESSION_LEVELS.get(encoding.compression),
                    use_dictionary=list(encoding.dictionary_columns),
                    write_statistics=paths_with_statistics,
                    version="2.6",
                    data_page_version="1.0",
                    # Pages are cut by size; a row limit of 20,000, the default, costs a fifth of the speed.
                    max_rows_per_page=ROW_GROUP_ROWS,
                    write_page_checksum=True,
                    store_decimal_as_integer=True,
                    # The types are canonical, so Parquet's own schema is enough; 5000 columns would make a footer of 1
                    # MB.
                    store_schema=False,
                )
        except BaseException:
            self._object.abort()
            raise

    @property
    def size_bytes(self) -> int:
        """The size so far; exact, since row groups are written whole."""
        return int(self._object.sink.tell()) if self._size_bytes is None else self._size_bytes

    def write(self, table: pa.Table) -> None:
        """Writes rows as one row group, or several if there are more than `ROW_GROUP_ROWS`; without rows nothing."""
        assert self._parquet is not None, "it is finished"
        if table.num_rows:
            if self._stored != self.schema:
                table = table.cast(self._stored)
            with self._translated():
                self._parquet.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self.row_count += table.num_rows

    def finish(self) -> int:
        """Makes the file durable, blocking until it is, and returns its size in bytes."""
        assert self._parquet is not None, "it is finished"
        with self._translated():
            # The file contains its own path, so a file that was moved to another's place is detected.
            self._parquet.add_key_value_metadata({PATH_KEY: self.path})
            self._parquet.close()
            self._size_bytes = self._object.commit()
        # A write has as many of these as files; pyarrow's footers would be most of its memory.
        self._parquet = None
        return self._size_bytes

    def abort(self) -> None:
        """Removes the file; never raises, does nothing after `finish`."""
        if self._parquet is not None:
            # SUBTLE: pyarrow's writer writes a footer when it is collected, into a sink that is closed by then.
            self._parquet.is_open = False
        self._object.abort()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translate_io_error(error, self._name) or Unavailable(
                f"File {self._name} cannot be written: {str(error)[:300]}. Nothing of it is visible; write again.",
                metadata={"path": self._name},
            ) from error


def _with_optional_fields(data_type: pa.DataType) -> pa.DataType:
    """A type as it is stored: fields of structs are optional, even if the table requires them.

    pyarrow accepts no NULL in a required field, not even below a NULL struct. Readers restore the table's own
    nullability.
    """
    if pt.is_struct(data_type):
        fields = [data_type.field(place) for place in range(data_type.num_fields)]
        return pa.struct([each.with_type(_with_optional_fields(each.type)).with_nullable(True) for each in fields])
    if pt.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_with_optional_fields(data_type.value_type)))
    if pt.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(key.with_type(_with_optional_fields(key.type)), item.with_type(_with_optional_fields(item.type)))
    return data_type


@lru_cache(maxsize=64)
def _plan_storage(ipc: bytes) -> tuple[pa.Schema, list[str]]:
    """A file's columns as they are stored, and the Parquet paths of those with statistics.

    Args:
        ipc: The schema in IPC format. SUBTLE: schemas that differ only in their ids are equal to pyarrow.
    """
    schema = pa.ipc.read_schema(pa.py_buffer(ipc))
    stored = pa.schema([field.with_type(_with_optional_fields(field.type)) for field in schema])
    return stored, _paths_with_statistics(schema)


def _paths_with_statistics(schema: pa.Schema) -> list[str]:
    """All columns except floats, for which Parquet's statistics ignore NaN.

    A reader that prunes by them, such as Arrow's and Spark's, would skip a row group of {5.0, NaN} for `x > 6`,
    though NaN is above all numbers here. The metastore's own statistics include NaN.
    """
    empty = schema.empty_table()
    return [
        path
        for field, column in zip(schema, empty.columns, strict=True)
        for path, leaf in _leaves(field.name, column.combine_chunks())
        if not pt.is_floating(leaf.type)
    ]


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The single-valued columns that a column is stored as, each with its path in Parquet."""
    if pt.is_struct(values.type):
        for position in range(values.type.num_fields):
            yield from _leaves(f"{path}.{values.type.field(position).name}", values.field(position))
    elif pt.is_map(values.type):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pt.is_list(values.type):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _pays_as_dictionary(values: pa.Array) -> bool:
    if pt.is_boolean(values.type) or len(values) == values.null_count:
        return False
    return bool(pc.count_distinct(values).as_py() <= _DICTIONARY_MAX_DISTINCT * (len(values) - values.null_count))
