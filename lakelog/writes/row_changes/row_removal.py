"""Finds the rows of an append table that fulfil a condition, for a commit that removes them by position.

A try that lost a race against a compaction or another removal begins again on the newest snapshot. Files never change:
what was found in one is known, so only files that came since are read, and those that hid other rows. A table that is
appended to without pause never keeps a removal from its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import Filter
from lakelog.format.keys.encoding import decode_partition
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import FIRST_ROW, IGNORE_DELETE, MERGE_ENGINE
from lakelog.options.values import TableOptions
from lakelog.reads.reading import make_parser, plan_files, to_scan_columns
from lakelog.storage.merging.deletion_vectors import RowIndices
from lakelog.storage.merging.removed_rows import find_removed_rows
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.scan.file_scan import ROW_POSITION_COLUMN, FileScan
from lakelog.storage.write.removed_rows import RemovedRowsWriter
from lakelog.writes.table_write import TableWrite

_KNOWN_BYTES: Final = 64 << 20
"""Memory for positions that a further try need not look for."""

_ENTRY_BYTES: Final = 300


class KnownRows:
    """The rows that fulfil one condition, in files that earlier tries have looked through."""

    def __init__(self) -> None:
        self._schema_id = -1
        self._positions: dict[str, tuple[str | None, RowIndices]] = {}
        self._size_bytes = 0

    def begin(self, schema: TableSchema) -> None:
        """Begins a try; with another schema the condition can mean something else."""
        if schema.schema_id != self._schema_id:
            self._positions, self._size_bytes = {}, 0
        self._schema_id = schema.schema_id

    def note(self, file: LiveFile, positions: RowIndices) -> None:
        """Remembers what was found in a file, as long as there is memory for it."""
        _, outdated = self._positions.pop(file.path, (None, None))
        if outdated is not None:
            self._size_bytes -= _ENTRY_BYTES + outdated.nbytes
        size_bytes = _ENTRY_BYTES + positions.nbytes
        if self._size_bytes + size_bytes <= _KNOWN_BYTES:
            self._positions[file.path] = (file.deletion_vector_path, positions)
            self._size_bytes += size_bytes

    def find(self, store: ObjectStore, file: LiveFile) -> RowIndices | None:
        """The matching rows of a file that are not removed by now; None: they must be looked for."""
        known = self._positions.get(file.path)
        if known is None:
            return None
        vector_path, positions = known
        if vector_path == file.deletion_vector_path:
            return positions
        if vector_path is not None:
            # SUBTLE: a rollback may have brought rows back that this vector hid: they were not looked at.
            return None
        (removed,) = find_removed_rows(store, [file])
        return positions if removed is None else np.setdiff1d(positions, removed, assume_unique=True)


def check_takes_deletes(info: TableInfo) -> None:
    """Raises InvalidArgument if a table with a primary key drops or refuses deletes. Pure."""
    options = TableOptions(info.options)
    why = ""
    if options.get(IGNORE_DELETE):
        why = f"'{IGNORE_DELETE.key}' drops all deletes"
    elif options.get(MERGE_ENGINE) == FIRST_ROW:
        why = f"its merge engine, {FIRST_ROW}, keeps the first row of each key for good"
    if why:
        raise InvalidArgument(
            f"No row of {info.name} can be deleted: {why}. Overwrite the table, or partitions of it, without these "
            "rows.",
            metadata={"table": str(info.name)},
        )


def remove_matching(context: Context, write: TableWrite, attempt_id: str, condition: str, known: KnownRows) -> int:
    """Removes the rows of an append table's newest snapshot that fulfil a condition; returns how many. Blocks.

    Args:
        context: The metastore, stores, caches and clock.
        write: The table's part of the transaction.
        attempt_id: The transaction's attempt.
        condition: An SQL condition.
        known: What earlier tries have found.

    Raises:
        InvalidArgument: The condition does not fit the table.
        DataCorrupted: A file is damaged or missing; named.
    """
    plan, parsed = plan_files(context.metastore, write.info, None, make_parser(condition))
    assert parsed is not None, "there is a condition"
    remover = write.open_remover(attempt_id)
    if plan.snapshot is None:
        return 0
    before = remover.row_count
    known.begin(plan.schema)
    with context.leased_reads.reading(plan.table, plan.snapshot.snapshot_id):
        files = _remove_whole_files(plan, parsed, remover)
        unknown = []
        for file in files:
            found = known.find(write.store, file)
            if found is None:
                unknown.append(file)
            elif len(found):
                remover.remove(file, found)
        if unknown:
            _remove_found(context, write, plan, parsed, unknown, remover, known)
        write.finish_remover()
    return remover.row_count - before


def _remove_whole_files(plan: Plan, parsed: Filter, remover: RemovedRowsWriter) -> list[LiveFile]:
    """Removes the files whose partition decides the condition, without reading them; returns the others."""
    files = to_live_files(plan.files)
    schema = plan.schema
    if not schema.partition_by or not set(parsed.columns) <= set(schema.partition_by):
        return files
    for partition, members in itertools.groupby(files, lambda file: file.partition):
        if _is_fulfilled(parsed, schema, partition):
            for file in members:
                remover.remove_file(file)
    return []


def _is_fulfilled(parsed: Filter, schema: TableSchema, partition: bytes) -> bool:
    fields = [schema.arrow.field(name) for name in schema.partition_by]
    values = decode_partition(partition, [field.type for field in fields])
    columns = [pa.array([value.as_py()], field.type) for value, field in zip(values, fields, strict=True)]
    row = pa.Table.from_arrays(columns, names=list(schema.partition_by))
    return row.filter(parsed.to_arrow()).num_rows == 1


def _remove_found(
    context: Context,
    write: TableWrite,
    plan: Plan,
    parsed: Filter,
    files: Sequence[LiveFile],
    remover: RemovedRowsWriter,
    known: KnownRows,
) -> None:
    """Looks for the rows in files, and removes them."""
    columns = to_scan_columns((ROW_POSITION_COLUMN,), plan.schema, parsed)
    scan = FileScan(write.store, files, plan.schema, columns, None, context.caches.deletion_vectors)
    none = np.empty(0, np.int64)
    left = {file.path: file for file in files}
    for file, batches in itertools.groupby(scan.read_located_batches(), lambda each: each[0]):
        positions = np.concatenate([batch.column(0).to_numpy() for _, batch in batches])
        remover.remove(file, positions)
        known.note(left.pop(file.path), positions)
    for file in left.values():
        known.note(file, none)
