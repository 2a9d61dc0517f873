"""Which files in a table's folder hold rows that fulfil a condition, whatever reads show: the proof of an erasure.

Every Parquet file that is there is read, with the rows that commits have removed: data files of all snapshots and tags,
changelogs, log segments, files of attempts, and what expiry has queued and not deleted yet. Files of positions have no
columns of the table. The answer does not depend on what the metastore knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.context import Context
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.table import TableInfo
from lakelog.reads.reading import to_scan_columns
from lakelog.storage.merging.deletion_vector_file import is_deletion_vector_file
from lakelog.storage.objects.store import ObjectStore, StoredObject
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import PARQUET_LIMITS, translated
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.scan.file_scan import FileScan

_FOUND_SCHEMA: Final = pa.schema([pa.field("path", pa.string(), False), pa.field("rows", pa.int64(), False)])


def find_stored_rows(context: Context, info: TableInfo, condition: str) -> pa.Table:
    """Reads all files of a table; blocks. Memory holds what a scan holds.

    Args:
        context: The metastore, stores, caches and clock.
        info: The table.
        condition: An SQL condition on its columns.

    Returns:
        Columns path and rows, one row for each file with such rows; none: no file holds one.

    Raises:
        InvalidArgument: The condition does not fit the table.
        DataCorrupted: A file is damaged; named.
    """
    schema, store = info.schema, context.open_store(info)
    parsed = parse_filter(condition, schema.arrow)
    # Changelogs may have deletes, which know only their key.
    columns = to_scan_columns((), schema, parsed, plan_file_schema(schema, with_row_kind=False))
    found = []
    for file in _list_files(store):
        rows = FileScan(store, [file], schema, columns).count_rows()
        if rows:
            found.append({"path": file.path, "rows": rows})
    return pa.Table.from_pylist(sorted(found, key=lambda each: str(each["path"])), _FOUND_SCHEMA)


def _list_files(store: ObjectStore) -> Iterator[LiveFile]:
    """All files of the folder that have rows of the table."""
    for each in store.list_objects("data"):
        if each.path.endswith(".parquet"):
            row_count = _count_rows(store, each)
            if row_count is not None:
                yield _to_file(each, row_count)


def _count_rows(store: ObjectStore, file: StoredObject) -> int | None:
    """The number of rows; None: it is a file of positions, or is gone by now."""
    with translated(f"{store.location}{file.path}"), store.open_input(file.path) as source:
        parquet = pq.ParquetFile(source, **PARQUET_LIMITS)
        return None if is_deletion_vector_file(parquet) else int(parquet.metadata.num_rows)


def _to_file(file: StoredObject, row_count: int) -> LiveFile:
    return LiveFile(0, file.path, b"", 0, 0, row_count, 0, file.size_bytes, None, None, 0, 0, 0, 0, 0)
