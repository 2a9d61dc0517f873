"""Reads few row groups at once, in this process: what a condition on the key leaves of a table, if it is little."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import pyarrow as pa

from lakelog.format.tables.predicate import Predicate
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.parquet.row_groups import pick_row_groups
from lakelog.storage.scan.file_scan import FileScan

_FOOTER_THREADS: Final = 4


def read_if_small(scan: FileScan, *, max_files: int, max_read_bytes: int, max_result_bytes: int) -> pa.Table | None:
    """Reads rows if the footers show that few row groups can have them. Blocks on storage; memory is bounded.

    Args:
        scan: What to read. It needs a condition that excludes row groups: for a table with a primary key one on the
            key, since rows that need not be returned may hide others.
        max_files: Footers to read.
        max_read_bytes: Limit of the row groups' uncompressed size, all columns.
        max_result_bytes: Limit of the rows' size in Arrow.

    Returns:
        The rows, or None if a limit would be exceeded.

    Raises:
        DataCorrupted: A file is damaged or missing; named.
    """
    predicate = scan.columns.predicate if scan.policy is None else scan.columns.key_predicate
    if predicate is None or len(scan.files) > max_files:
        return None
    data_files = DataFiles(scan.store)
    if not _is_small(scan, predicate, data_files, max_read_bytes):
        return None
    found: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in scan.read_batches(data_files):
        size_bytes += batch.nbytes
        if size_bytes > max_result_bytes:
            return None
        found.append(batch)
    return pa.Table.from_batches(found, scan.returned_schema)


def _is_small(scan: FileScan, predicate: Predicate, data_files: DataFiles, max_bytes: int) -> bool:
    with ThreadPoolExecutor(_FOOTER_THREADS, thread_name_prefix="lakelog-footer") as pool:
        sizes = look_ahead(pool, partial(_picked_bytes, scan, predicate, data_files), scan.files, _FOOTER_THREADS)
        left = max_bytes
        for size_bytes in sizes:
            left -= size_bytes
            if left < 0:
                sizes.close()  # type: ignore[attr-defined]
                return False
    return True


def _picked_bytes(scan: FileScan, predicate: Predicate, data_files: DataFiles, file: LiveFile) -> int:
    with data_files.open(file) as reader:
        groups = pick_row_groups(reader, scan.schema.arrow, predicate)
        return sum(reader.metadata.row_group(group).total_byte_size for group in groups)
