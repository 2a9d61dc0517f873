"""Data files: a commit's entry for each file it adds, and the columns in which a plan lists the live ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa


@dataclass(frozen=True)
class ColumnStatistics:
    """The statistics of one column of one file.

    Args:
        field_id: The column.
        null_count: How many values are NULL.
        min_value: Encoded (`lakelog.format.keys.encoding`); every value that is not NULL is at least this; None:
            unbounded or no value.
        max_value: Every value that is not NULL is at most this, NaN being above all numbers; None: unbounded or no
            value.
    """

    field_id: int
    null_count: int
    min_value: bytes | None
    max_value: bytes | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a commit adds.

    Args:
        path: Relative to the table's location: `data/<attempt id>/<name>.parquet`.
        partition: Encoded partition values (`lakelog.format.keys.encoding.encode_partition`); empty without partitions.
        bucket: From 0; 0 in a table without buckets.
        level: 0 for files of writers.
        row_count: All rows.
        delete_count: Rows of kind -U or -D. In an append table: rows that its deletion vector leaves out; 0 for files
            that a commit adds.
        size_bytes: The file's size.
        min_key: Encoded lower bound of the trimmed primary key; None: unbounded.
        max_key: Encoded upper bound; None: unbounded.
        schema_id: The schema it was written with.
        statistics: Statistics of single columns, for excluding the file from plans.
        deletion_vector_path: The file with the positions of all rows of the bucket that its commit's rows supersede,
            and of its own rows that no read shows; empty: there are none; None: not known, so readers find them. In an
            append table: the file with the positions of this file's own rows that no read shows; None: there are none.
    """

    path: str
    partition: bytes
    bucket: int
    level: int
    row_count: int
    delete_count: int
    size_bytes: int
    min_key: bytes | None
    max_key: bytes | None
    schema_id: int
    statistics: Sequence[ColumnStatistics] = ()
    deletion_vector_path: str | None = None


FILE_SCHEMA: Final = pa.schema(
    [
        # 0 for changelog files, which are identified by their paths alone.
        pa.field("file_id", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition", pa.binary(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("delete_count", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
        pa.field("schema_id", pa.int32(), nullable=False),
        pa.field("added_snapshot", pa.int64(), nullable=False),
        # A file's place in the order of its bucket; a compaction's output inherits it from its inputs.
        pa.field("order_snapshot", pa.int64(), nullable=False),
        pa.field("order_ordinal", pa.int32(), nullable=False),
        # When `order_snapshot` was committed: `sequence.delete-retention` counts from it.
        pa.field("order_time_ms", pa.int64(), nullable=False),
        pa.field("deletion_vector_path", pa.string()),
    ]
)
"""The columns of a plan: one row per live file, or one per changelog file of its snapshot (`added_snapshot`)."""

STATISTICS_FIELD: Final = pa.field("statistics", pa.binary())
"""A file's column statistics, as `lakelog.format.tables.packed_statistics` encodes them; NULL: it has none."""
