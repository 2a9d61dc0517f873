"""Reads whole data files in Spark's Python workers, without deleted rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.format.types.schema import TableSchema
from lakelog.spark.connection import open_table_store
from lakelog.spark.executor.write import BatchFunction, Words
from lakelog.spark.task_errors import errors_to_driver
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.writer import plan_file_schema


@dataclass(frozen=True)
class FileRows:
    """The rows of a file. Picklable.

    Args:
        location: The table's location.
        schema: The schema to read with.
        file: The file.
        words: Bits of the deleted rows; None: there are none.
        with_places: Whether the path and the number of each row follow its columns.
    """

    location: str
    schema: TableSchema
    file: LiveFile
    words: Words | None
    with_places: bool = False


def reader_of(output: StructType) -> BatchFunction:
    """A function for `mapInArrow` that reads the pickled `FileRows` of its only column, as Spark wants the rows."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = to_arrow_schema(output, timezone="UTC")
        with errors_to_driver():
            for batch in batches:
                for work in batch.column(0).to_pylist():
                    for rows in read_rows(pickle.loads(work)):
                        columns = [column.cast(field.type) for column, field in zip(rows.columns, target, strict=True)]
                        yield pa.RecordBatch.from_arrays(columns, schema=target)

    return read


def read_rows(work: FileRows) -> Iterator[pa.RecordBatch]:
    """Reads all of the table's columns, in the order of the rows.

    Raises:
        DataCorrupted: The file is damaged or missing; named.
    """
    with DataFileReader(open_table_store(work.location), work.file) as reader:
        # Deletes, which may have a key only, are among the rows that are left out.
        mapping = reader.map_columns(list(plan_file_schema(work.schema, with_row_kind=False)))
        start = 0
        for batch in reader.read_batches(range(reader.metadata.num_row_groups), mapping):
            end = start + batch.num_rows
            if work.with_places:
                path = pa.repeat(pa.scalar(work.file.path), batch.num_rows)
                rows = pa.array(np.arange(start, end, dtype=np.int64))
                batch = pa.RecordBatch.from_arrays([*batch.columns, path, rows], [*batch.schema.names, *_PLACES])
            kept = batch if work.words is None else batch.filter(pa.array(_is_kept(work.words, start, batch.num_rows)))
            start = end
            if kept.num_rows:
                yield kept


_PLACES: Final = ("\x00path", "\x00row")
"""Here columns are known by their places alone."""


def _is_kept(words: Words, start: int, count: int) -> npt.NDArray[np.bool_]:
    first, end = start // 64, -(-(start + count) // 64)
    bits = np.unpackbits(words[first:end].view(np.uint8), bitorder="little")[start - first * 64 :][:count]
    return bits == 0
