"""A live data file as a plan lists it, one value a file."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.format.tables.files import FILE_SCHEMA


@dataclass(frozen=True)
class LiveFile:
    """One row of a plan (`lakelog.format.tables.files.FILE_SCHEMA`), with the same names. Picklable.

    Args:
        file_id: Unique in the metastore.
        path: Relative to the table's location.
        partition: Encoded partition values.
        bucket: Its bucket.
        level: Its level.
        row_count: All rows.
        delete_count: As `lakelog.format.tables.files.DataFile` has it.
        size_bytes: The file's size.
        min_key: Encoded lower bound of the trimmed key; None: unbounded.
        max_key: Encoded upper bound of the trimmed key; None: unbounded.
        schema_id: The schema it was written with.
        added_snapshot: The snapshot that brought it.
        order_snapshot: Its place in the bucket's order ...
        order_ordinal: ... and within that snapshot.
        order_time_ms: When `order_snapshot` was committed.
        deletion_vector_path: As `lakelog.format.tables.files.DataFile` has it.
        shown_vector_path: For changes of an append table: of the file only rows are shown that this deletion vector
            names, which an overwrite has brought back; None: no such condition. Plans do not have it.
    """

    file_id: int
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
    added_snapshot: int
    order_snapshot: int
    order_ordinal: int
    order_time_ms: int
    deletion_vector_path: str | None = None
    shown_vector_path: str | None = None


def to_live_files(files: pa.Table) -> list[LiveFile]:
    """The entries of a plan, in its order."""
    return [LiveFile(**entry) for entry in files.select(FILE_SCHEMA.names).to_pylist()]
