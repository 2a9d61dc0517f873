"""Writes new files of one bucket."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakelog.format.tables.files import DataFile
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import FILE_COMPRESSION
from lakelog.options.values import TableOptions
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.file_builder import FileBuilder
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.rolling_writer import RollingWriter
from lakelog.storage.parquet.writer import FileEncoding


def start_bucket_writer(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    prefix: str,
    place: DataFile | LiveFile,
    *,
    level: int = 0,
    with_row_kind: bool = True,
    further: Sequence[pa.Field] = (),
) -> RollingWriter:
    """Begins to write rows of a bucket, such as a sorted run or changes; the caller ends it.

    Args:
        store: Where the table's files are.
        schema: The table's schema.
        options: The table's options.
        prefix: Prefix of the paths of the files.
        place: A file of the bucket.
        level: The level of the files.
        with_row_kind: Whether the rows have kinds.
        further: Further columns that are kept for each row.
    """
    target_bytes = options.target_file_size_bytes(bool(schema.primary_key))

    def start_file(number: int, encoding: FileEncoding) -> FileBuilder:
        return FileBuilder(
            store,
            f"{prefix}-{number:03d}-{place.bucket}.parquet",
            schema,
            encoding,
            partition=place.partition,
            bucket=place.bucket,
            with_row_kind=with_row_kind,
            target_size_bytes=target_bytes,
            level=level,
            further=further,
        )

    return RollingWriter(store, start_file, options.get(FILE_COMPRESSION), target_bytes)
