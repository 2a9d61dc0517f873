"""The options that only Spark's streams out of a table have; the limits have Spark's names."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option, Scope
from lakelog.options.value_types import ColumnNames, MemorySize, Whole

METADATA_COLUMNS: Final = Option[tuple[str, ...]](
    "metadata-columns",
    ColumnNames(),
    (),
    "Further columns: `_snapshot_id`, the snapshot that a row comes from; `_commit_timestamp`, when it was committed; "
    "`_row_kind`, which is the last column of a table with a primary key anyway.",
    Scope.SPARK_STREAM,
)
MAX_FILES_PER_TRIGGER: Final = Option[int | None](
    "maxFilesPerTrigger",
    Whole(1, 10**12),
    None,
    "Take no further snapshot into a batch that would read more files than this: changelog files of snapshots that "
    "have a changelog, else data files. A snapshot is never split: one with more files is a batch by itself. The rows "
    "at a stream's start are split between files; in a table with a primary key, between files that share no keys.",
    Scope.SPARK_STREAM,
)
MAX_BYTES_PER_TRIGGER: Final = Option[int | None](
    "maxBytesPerTrigger",
    MemorySize(),
    None,
    "As `maxFilesPerTrigger`, for the size of these files.",
    Scope.SPARK_STREAM,
)
MAX_ROWS_PER_TRIGGER: Final = Option[int | None](
    "maxRowsPerTrigger",
    Whole(1, 10**18 - 1),
    None,
    "As `maxFilesPerTrigger`, for the rows in them, before they are filtered.",
    Scope.SPARK_STREAM,
)
