"""Runs in Spark's Python workers when changes are read: emits the changes of some buckets, or reads some files.

Tasks use only files, never the metastore: the files of the states before were planned with the batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind, encode_kinds
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import to_change_columns
from lakelog.reads.changes import NormalizedChanges
from lakelog.reads.reading import to_scan_columns
from lakelog.spark.connection import open_caches, open_table_store
from lakelog.spark.stream.read_options import COMMIT_TIMESTAMP_COLUMN, METADATA_TYPES
from lakelog.spark.task_errors import errors_to_driver
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN, FileScan


@dataclass(frozen=True)
class PlannedStates:
    """Implements `lakelog.reads.changes.States` with planned files.

    Args:
        planned: The live files of some buckets at some snapshots, in a plan's order.
        added: The files that commits between them added, oldest first.
    """

    planned: Mapping[int, tuple[LiveFile, ...]]
    added: tuple[LiveFile, ...]

    def list_files(self, request: PlanRequest) -> Sequence[LiveFile]:
        """The live files of a state: of the newest planned state, and what was added to it since."""
        assert isinstance(request.at, AtSnapshot), "changes ask for states by their number"
        at = request.at.snapshot_id
        base = max(each for each in self.planned if each <= at)
        return [*self.planned[base], *(file for file in self.added if base < file.added_snapshot <= at)]


@dataclass(frozen=True)
class ChangePart:
    """Keyed changes of successive snapshots in some buckets.

    Args:
        files: The snapshots' files, by commit, then in the order of their buckets.
        states: The states before, to look old rows up; None: the files are changelog files, which contain the changes.
        overwrites: Ids of the snapshots that replaced rows, rising.
        shows_overwrites: Whether to show what these changed.
    """

    files: tuple[LiveFile, ...]
    states: PlannedStates | None = None
    overwrites: tuple[int, ...] = ()
    shows_overwrites: bool = False


@dataclass
class ChangeSplit(InputPartition):
    """What one task reads.

    Args:
        table: The table, with the schema to read with.
        files: The files whose rows are shown: all of some buckets, or some files of a table without buckets.
        times_ms: The commit times of the shown snapshots.
        rows_at: The files are the rows at this snapshot; None: they are what snapshots added, as it was written.
        without_deletes: Leave deletes out of the rows as written.
        parts: Keyed changes in sequence, instead of the rows of files.
    """

    table: TableInfo
    files: tuple[LiveFile, ...]
    times_ms: Mapping[int, int]
    rows_at: int | None = None
    without_deletes: bool = False
    parts: tuple[ChangePart, ...] = ()


def read_split(split: ChangeSplit, target: pa.Schema, condition: str | None) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a task, per bucket in the order of the snapshots. Runs on executors.

    Args:
        split: What to read.
        target: The columns to return, as Spark wants them.
        condition: The condition of the rows to return, in lakelog's meaning; None: all.
    """
    with errors_to_driver():
        yield from read_from_files(split, target, condition)


def read_from_files(split: ChangeSplit, target: pa.Schema, condition: str | None) -> Iterator[pa.RecordBatch]:
    """As `read_split`, with unchanged errors."""
    if split.rows_at is not None:
        batches = _read_rows(split, tuple(name for name in target.names if name not in METADATA_TYPES), condition)
    else:
        batches = _read_changes(split, to_emitted_names(target), condition)
    for batch in batches:
        yield to_target(batch, target, split.times_ms, rows_at=split.rows_at)


def to_emitted_names(target: pa.Schema) -> tuple[str, ...]:
    """The columns to read changes with, given the columns that Spark wants. Pure."""
    own = (name for name in target.names if name not in METADATA_TYPES)
    kind = (ROW_KIND_COLUMN,) if ROW_KIND_COLUMN in target.names else ()
    return (*own, *kind, SNAPSHOT_ID_COLUMN)


def to_target(
    batch: pa.RecordBatch, target: pa.Schema, times_ms: Mapping[int, int], *, rows_at: int | None = None
) -> pa.RecordBatch:
    """Rows as Spark wants them. Pure.

    Args:
        batch: Rows with the columns of the table, and, without `rows_at`, also those of `to_emitted_names`.
        target: The columns to return.
        times_ms: The commit times of the shown snapshots.
        rows_at: They are the rows at this snapshot; None: changes.
    """
    columns = _with_metadata(batch, target.names, times_ms, rows_at)
    if ROW_KIND_COLUMN in target.names:
        place = target.names.index(ROW_KIND_COLUMN)
        if pa.types.is_integer(target.field(place).type):
            columns[place] = encode_kinds(columns[place])
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, target, strict=True)], schema=target
    )


def _read_rows(split: ChangeSplit, names: tuple[str, ...], condition: str | None) -> Iterator[pa.RecordBatch]:
    schema = split.table.schema
    parsed = None if condition is None else parse_filter(condition, schema.arrow)
    policy = to_merge_policy(schema, TableOptions(split.table.options)) if schema.primary_key else None
    store = open_table_store(split.table.location)
    scan = FileScan(store, split.files, schema, to_scan_columns(names, schema, parsed), policy, threads=1)
    return scan.read_batches()


def _read_changes(split: ChangeSplit, names: tuple[str, ...], condition: str | None) -> Iterator[pa.RecordBatch]:
    schema = split.table.schema
    parsed = None if condition is None else parse_filter(condition, schema.arrow)
    store = open_table_store(split.table.location)
    as_written = to_change_columns(names, schema, parsed, split.without_deletes)
    policy = to_merge_policy(schema, TableOptions(split.table.options)) if schema.primary_key else None
    if policy is None or not split.parts:
        policy = None if policy is None else dataclasses.replace(policy, keeps_deletes=True)
        yield from FileScan(store, split.files, schema, as_written, policy, threads=1).read_batches()
        return
    columns = to_scan_columns(names, schema, parsed)
    for part in split.parts:
        if part.states is None:
            # Each row is independent: nothing is merged.
            yield from FileScan(store, part.files, schema, as_written, None, threads=1).read_batches()
            continue
        yield from NormalizedChanges(
            part.states,
            store,
            split.table,
            part.files,
            part.overwrites,
            columns,
            policy,
            open_caches(),
            part.shows_overwrites,
        ).read_batches()


def _with_metadata(
    batch: pa.RecordBatch, names: Sequence[str], times_ms: Mapping[int, int], rows_at: int | None
) -> list[pa.Array]:
    made: dict[str, pa.Array] = {}
    if rows_at is not None:
        made[ROW_KIND_COLUMN] = pa.repeat(pa.scalar(RowKind.INSERT.text), batch.num_rows)
        made[SNAPSHOT_ID_COLUMN] = pa.repeat(pa.scalar(rows_at, pa.int64()), batch.num_rows)
    if COMMIT_TIMESTAMP_COLUMN in names:
        ids = made.get(SNAPSHOT_ID_COLUMN)
        ids = batch.column(SNAPSHOT_ID_COLUMN) if ids is None else ids
        made[COMMIT_TIMESTAMP_COLUMN] = _to_times(ids, times_ms)
    return [made[name] if name in made else batch.column(name) for name in names]


def _to_times(ids: pa.Array, times_ms: Mapping[int, int]) -> pa.Array:
    """The commit times of snapshots, row by row."""
    found = ids.dictionary_encode()
    times = pa.array([times_ms[each] * 1000 for each in found.dictionary.to_pylist()], pa.timestamp("us", tz="UTC"))
    return times.take(found.indices)
