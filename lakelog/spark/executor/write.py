"""Runs in Spark's Python workers on executors: deletion vectors, casts, data files, changelogs.

Tasks use files, and for tables with `log.consistency` = `eventual` the log; never the metastore. They can run twice, at
once, or after their driver died. So file names contain the task attempt, a task's result names its files, and a task
that fails deletes its own files.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lakelog.clock import SystemClock
from lakelog.errors import InternalError, LakelogError
from lakelog.format.tables.files import DataFile
from lakelog.format.types.cast import cast_batch
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.spark.connection import open_caches, open_table_store
from lakelog.spark.executor.uncommitted import UncommittedTask, begin_uncommitted
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.spark.task_errors import errors_to_driver
from lakelog.storage.lookup.bucket_changelog import BucketChangelogs, BucketLookup, EmittedBucket, to_added, to_lookups
from lakelog.storage.merging.deletion_vectors import find_deletion_vectors
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.merging.removed_rows import find_removed_rows
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.rewrite.commit_merge import CommitMerger, MergeTask, merge_commit_files
from lakelog.storage.write.input_copies import InputCopies
from lakelog.storage.write.row_normalizer import KindSource, RowNormalizer
from lakelog.storage.write.table_writer import TableWriter
from lakelog.writes.log_rows import LogRows
from lakelog.writes.overwrite import StaticPartition

Words = npt.NDArray[np.int64]
"""A bit for each row of a file, set if the row is superseded: position p is bit p % 64 of word p // 64."""

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

WRITTEN_SCHEMA = "task int, written binary"
"""What a write task returns: its partition's number, and a pickled `WrittenFiles`."""


@dataclass(frozen=True)
class Section:
    """Files of one bucket whose keys overlap, oldest first, or one file that holds deletes.

    In an append table: files with removed rows, which have the same deletion vector.

    Args:
        location: The table's location.
        files: Files with the columns of the plan.
        schema: The schema to read with.
        policy: Decides between rows of one key; None: an append table.
    """

    location: str
    files: tuple[LiveFile, ...]
    schema: TableSchema
    policy: MergePolicy | None


def find_deletion_words(section: Section) -> list[Words | None]:
    """Finds the rows of a section that a read leaves out, for each file; None: none."""
    store = open_table_store(section.location)
    if section.policy is None:
        found = find_removed_rows(store, section.files)
    else:
        found = find_deletion_vectors(store, section.files, section.schema, section.policy)
    return [
        None if indices is None else pack_indices(indices, file.row_count)
        for indices, file in zip(found, section.files, strict=True)
    ]


def find_deletion_vectors_in_task(section: Section) -> list[Words | None]:
    """As `find_deletion_words`. Runs on executors."""
    with errors_to_driver():
        return find_deletion_words(section)


def pack_indices(indices: npt.NDArray[np.int64], row_count: int) -> Words:
    """Packs row positions into words. Pure."""
    marks = np.zeros(-(-row_count // 64) * 64, np.bool_)
    marks[indices] = True
    return np.packbits(marks, bitorder="little").view(np.int64)


@dataclass(frozen=True)
class RowConversion:
    """How rows of any types are converted to rows of the table before they are shuffled.

    Args:
        schema: The columns to make, with canonical types.
        static: A partition that must contain all rows; columns that the rows lack are filled in. None: any.
        names: The names of the rows' columns, which arrive under other names.
    """

    schema: pa.Schema
    static: StaticPartition | None
    names: tuple[str, ...]


def convert_rows(conversion: RowConversion, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Converts rows to the table's columns, under the names `c0`, `c1` and so on; a `_row_kind` column comes last.

    Raises:
        InvalidArgument: A value does not fit its column.
    """
    for batch in batches:
        batch = batch.rename_columns(list(conversion.names))
        kinds = batch.column(ROW_KIND_COLUMN) if ROW_KIND_COLUMN in batch.schema.names else None
        rows = batch if kinds is None else batch.drop_columns([ROW_KIND_COLUMN])
        if conversion.static is not None:
            rows = conversion.static.fill_in(rows)
        columns = list(cast_batch(rows, conversion.schema, fill_missing=True).columns)
        columns += [] if kinds is None else [kinds]
        yield pa.RecordBatch.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])


def converter(conversion: RowConversion) -> BatchFunction:
    """A function for `mapInArrow` that converts rows as `convert_rows`."""

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_to_driver():
            yield from convert_rows(conversion, batches)

    return convert


@dataclass(frozen=True)
class LookupTask:
    """What a task needs to look old rows up and write changelogs.

    Args:
        table_uuid: The table, whose local copies the processes of a host share.
        location: The table's location.
        schema: The schema to read and write with.
        options: The table's options.
        attempt_id: The attempt that owns the files.
    """

    table_uuid: str
    location: str
    schema: TableSchema
    options: TableOptions
    attempt_id: str

    def open(self, runs: Mapping[str, pa.Table] | None = None) -> BucketChangelogs:
        """Opens the lookup in this process; `runs` are rows of files that are in memory."""
        copies = open_caches().find_copies(self.table_uuid, self.options)
        store = open_table_store(self.location)
        return BucketChangelogs(store, self.schema, self.options, self.attempt_id, copies, runs)


@dataclass(frozen=True)
class LookupBase:
    """The state in which the tasks of a write look old rows up, from one plan.

    Args:
        snapshot_id: The snapshot; 0: none.
        snapshot_uuid: Its uuid; empty: there is none.
        committed_at_ms: Its commit time.
        files: Its live files, in the plan's order: an Arrow stream, compressed, since every task gets it.
    """

    snapshot_id: int
    snapshot_uuid: str
    committed_at_ms: int
    files: bytes

    def list_files(self, bucket: int) -> list[LiveFile]:
        """The live files of one bucket in all partitions, in the plan's order."""
        planned = pa.ipc.open_stream(self.files).read_all()
        return to_live_files(planned.filter(pc.field("bucket") == bucket))


@dataclass(frozen=True)
class WriteTask:
    """What a task needs to write rows into a table.

    Args:
        table_name: The table's name, for messages.
        location: The table's location.
        schema: The schema to write with.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        source: The source of the rows' kinds.
        by_bucket: Whether the number of a task's partition is the bucket of all of its rows.
        static: A partition that must contain all rows; None: any.
        names: The names of the rows' columns if they arrive under other names; None: unchanged.
        copies: Which records are also written as they arrived: for the producer `input`, or for the external log.
        log_rows: The check that rows fit into the log; None: no check.
        lookup: Makes a changelog of old rows, with `base`; None: the task makes none.
        base: The state in which old rows are looked up; only if all rows of a bucket come to one task.
        uncommitted: How rows are sent to the external log before the commit; None: they are not.
        fill_missing: Whether nullable columns that the rows leave out become NULL.
    """

    table_name: str
    location: str
    schema: TableSchema
    options: TableOptions
    attempt_id: str
    source: KindSource
    by_bucket: bool
    static: StaticPartition | None = None
    names: tuple[str, ...] | None = None
    copies: InputCopies = InputCopies.NONE
    log_rows: LogRows | None = None
    lookup: LookupTask | None = None
    base: LookupBase | None = None
    uncommitted: UncommittedTask | None = None
    fill_missing: bool = False


def write_rows(task: WriteTask, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
    """Writes the rows of one task, as `write_part`. Runs on executors."""
    context = TaskContext.get()
    if context is None:
        raise InternalError("Rows can be written inside Spark's tasks only.")
    return write_part(task, batches, context.partitionId(), context.taskAttemptId())


def write_part(
    task: WriteTask, batches: Iterator[pa.RecordBatch], partition_id: int, task_attempt_id: int
) -> WrittenFiles:
    """Writes the rows of one partition; bounded memory; on failure its files are deleted.

    Args:
        task: What to write.
        batches: The rows.
        partition_id: The number of the partition.
        task_attempt_id: Differs between all that write for one attempt.

    Raises:
        InvalidArgument: Rows do not fit the table.
        InternalError: A row came to a task of another bucket.
    """
    # The task attempt is part of the names, so a doubled or repeated task never meets files of the same name.
    prefix = f"{partition_id:05d}-{task_attempt_id}-"
    row_normalizer = RowNormalizer(task.table_name, task.schema, task.options)
    store = open_table_store(task.location)
    writer = TableWriter(
        store,
        task.schema,
        task.options,
        task.attempt_id,
        name_prefix=prefix,
        copies=task.copies,
        keeps_runs=task.lookup is not None and task.base is not None,
    )
    uncommitted = begin_uncommitted(task.uncommitted, task.attempt_id, partition_id, task_attempt_id)
    merged: list[DataFile] = []
    try:
        for batch in batches:
            rows = batch if task.names is None else batch.rename_columns(list(task.names))
            rows = rows if task.static is None else task.static.fill_in(rows)
            table, kinds = row_normalizer.take(rows, task.source, fill_missing=task.fill_missing)
            if task.log_rows is not None:
                task.log_rows.check(table)
            if uncommitted is not None:
                uncommitted.send(table, kinds)
            if table.num_rows:
                writer.write(table, kinds)
        files, inputs = writer.finish(), writer.copies
        if task.by_bucket:
            # No other task writes to this bucket, and the places of its rows must be final before they are looked up.
            merger = CommitMerger(task.schema, task.options, task.attempt_id)
            files, inputs = merge_commit_files(
                merger, store, files, inputs, name_prefix=prefix, merge=CommitMerger.merge_all
            )
            merged += (*files, *inputs)
        _check_buckets(task, partition_id, files)
        emitted = _look_up(task, f"{prefix}lookup", partition_id, files, writer.runs)
        sent = None if uncommitted is None else uncommitted.finish()
    except BaseException:
        writer.abort()
        with contextlib.suppress(LakelogError):
            store.delete_many([file.path for file in merged])
        raise
    return WrittenFiles(partition_id, files, writer.row_count, inputs, emitted, sent)


def merge_in_task(
    location: str, merger: CommitMerger, works: Sequence[MergeTask]
) -> list[tuple[str, tuple[DataFile, ...]]]:
    """Merges files of a commit; returns each result by its name. Runs on executors; on failure its files are deleted.

    Raises:
        DataCorrupted: A data file is damaged or missing; named.
    """
    context = TaskContext.get()
    if context is None:
        raise InternalError("Files of a write can be merged by jobs inside Spark's tasks only.")
    # As for data files: a doubled or repeated task never meets files of the same name.
    named = [replace(work, name=f"{work.name}-{context.taskAttemptId()}") for work in works]
    with errors_to_driver():
        made = merger.merge_all(open_table_store(location), named)
    return [(work.name, files) for work, files in zip(works, made, strict=True)]


def _look_up(
    task: WriteTask, name: str, bucket: int, files: Sequence[DataFile], runs: Mapping[str, pa.Table]
) -> tuple[EmittedBucket, ...]:
    base = task.base
    if task.lookup is None or base is None or not files:
        return ()
    # Like the gate: no commit is older than the one before it.
    added = to_added(files, base.snapshot_id, max(SystemClock().now_ms(), base.committed_at_ms))
    return task.lookup.open(runs).write_all(to_lookups(name, added, base.list_files(bucket)))


def emit_buckets(task: LookupTask, lookups: Sequence[BucketLookup]) -> tuple[EmittedBucket, ...]:
    """Looks old rows up and writes changelogs. Runs on executors; on failure its files are deleted.

    Raises:
        DataCorrupted: A data file is damaged or missing; named.
    """
    context = TaskContext.get()
    if context is None:
        raise InternalError("Changelogs of a write can be made inside Spark's tasks only.")
    # As for data files: a doubled or repeated task never meets files of the same name.
    named = [replace(each, name=f"{each.name}-{context.taskAttemptId()}") for each in lookups]
    with errors_to_driver():
        return task.open().write_all(named)


def row_writer(task: WriteTask) -> BatchFunction:
    """Returns a function for `mapInArrow` that writes its rows and returns one row of `WRITTEN_SCHEMA`."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_to_driver():
            written = write_rows(task, batches)
        yield pa.RecordBatch.from_arrays(
            [pa.array([written.partition_id], pa.int32()), pa.array([pickle.dumps(written)], pa.binary())],
            names=["task", "written"],
        )

    return write


def _check_buckets(task: WriteTask, partition_id: int, files: Sequence[DataFile]) -> None:
    """Checks that numpy and Spark's own hash put each row into the same bucket."""
    strange = [file.bucket for file in files if file.bucket != partition_id] if task.by_bucket else []
    if strange:
        raise InternalError(
            f"Spark brought rows of bucket {strange[0]} of {task.table_name} to the task of bucket {partition_id}: its "
            "hash or its shuffle differs from what this version of lakelog knows. Nothing was committed. Please report "
            "it with the version of Spark.",
            metadata={"table": task.table_name},
        )
