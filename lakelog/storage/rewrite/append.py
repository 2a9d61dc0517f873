"""Combines small files of an append table into files of the target size: a compaction without a key."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.tables.files import DataFile
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vectors import RowIndices
from lakelog.storage.merging.removed_rows import find_removed_rows
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.lookahead import look_ahead
from lakelog.storage.rewrite.bucket_writer import start_bucket_writer

_AHEAD: Final = 4
"""How many row groups, or parts of large ones, a thread reads ahead of the writer: encoding takes longer."""

_READ_BYTES: Final = 32 << 20
"""Bytes of memory that are read at once, as large as a row group that we write."""


@dataclass(frozen=True)
class FileRewrite:
    """Files of a bucket of an append table that are combined into few. Picklable.

    Args:
        name: Prefix of the names of the new files; no other rewrite of the attempt has it.
        inputs: The files, in a plan's order: adjacent ones of a table with a `bucket-key` (`check_window`), else any
            files of a partition.
        rest: All other live files of the bucket, if the table has a `bucket-key`.
    """

    name: str
    inputs: tuple[LiveFile, ...]
    rest: tuple[LiveFile, ...] = ()


def rewrite_files(
    store: ObjectStore, schema: TableSchema, options: TableOptions, attempt_id: str, rewrite: FileRewrite
) -> tuple[DataFile, ...]:
    """Writes the rows of some files of an append table into files of the target size. Blocks; runs on executors.

    Args:
        store: Where the table's files are.
        schema: The table's schema; columns that older files lack are NULL in the new ones.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        rewrite: What to do.

    Returns:
        The files; their rows are in the order of the inputs. A failure leaves no file.

    Raises:
        InvalidArgument: The order of a bucket's rows would change.
        DataCorrupted: A data file is damaged or missing; named.
        LakelogError: The store failed.
    """
    assert rewrite.inputs, "there is something to rewrite"
    if options.bucket_count(False) > 0:
        check_window(rewrite.inputs, rewrite.rest)
    data_files = DataFiles(store)
    prefix = f"data/{attempt_id}/{rewrite.name}"
    writer = start_bucket_writer(store, schema, options, prefix, rewrite.inputs[0], with_row_kind=False)
    try:
        tables = _read(store, data_files, schema, rewrite.inputs)
        # The pool ends first, so that no thread works in the generator when it is closed.
        with contextlib.closing(tables), ThreadPoolExecutor(1, thread_name_prefix="lakelog-rewrite") as pool:
            for rows in look_ahead(pool, lambda _: next(tables, None), itertools.count(), _AHEAD):
                if rows is None:
                    break
                writer.write(rows)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def check_window(inputs: Sequence[LiveFile], rest: Sequence[LiveFile]) -> None:
    """Checks that files can be combined in the place of the last one without changing the order of rows. Pure.

    The new files get the latest place of the inputs, and come last within it. The output files of one compaction share
    one place, so only the last ones of these can be inputs.

    Args:
        inputs: Some live files of a bucket.
        rest: All others of it.

    Raises:
        InvalidArgument: Another file lies between them, or after them in the last one's place.
    """
    first, last = (pick(_order_of(file) for file in inputs) for pick in (min, max))
    for other in rest:
        order = _order_of(other)
        if first < order < last or (order > last and order[:2] == last[:2]):
            raise InvalidArgument(
                f"Data file {other.path} is one of those whose rows would come into another order: it lies between the "
                "files of a compaction, or has the place of the last one. Compact neighbouring files, and of those "
                "with one place the last ones.",
                metadata={"path": other.path},
            )


def _order_of(file: LiveFile) -> tuple[int, int, int]:
    return file.order_snapshot, file.order_ordinal, file.file_id


def _read(
    store: ObjectStore, data_files: DataFiles, schema: TableSchema, files: Sequence[LiveFile]
) -> Generator[pa.Table, None, None]:
    """The rows of files in order, a row group at a time, or a part of a large one; without those that were removed."""
    for file in files:
        (removed,) = find_removed_rows(store, [file])
        if removed is not None and len(removed) == file.row_count:
            continue
        with data_files.open(file) as reader:
            mapping = reader.map_columns(list(schema.arrow))
            groups = range(reader.metadata.num_row_groups)
            start = 0
            for batch in reader.read_batches(groups, mapping, _READ_BYTES):
                rows = pa.Table.from_batches([batch], mapping.schema)
                kept = rows if removed is None else _leave_out(rows, removed, start)
                start += rows.num_rows
                if kept.num_rows:
                    yield kept


def _leave_out(rows: pa.Table, removed: RowIndices, start: int) -> pa.Table:
    """Some rows of a file without removed ones; the first row has the position `start`."""
    first, last = np.searchsorted(removed, (start, start + rows.num_rows))
    if first == last:
        return rows
    kept = np.ones(rows.num_rows, np.bool_)
    kept[removed[first:last] - start] = False
    return rows.filter(pa.array(kept))
