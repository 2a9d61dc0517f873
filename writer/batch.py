"""One batch: its input becomes rows, the rows one commit. Repeated as often as necessary, applied once.

The steps, and the effect of a crash after each:

1. The lease is checked, so that an instance that was replaced reads and writes no rows.
2. A batch that the table has already is only counted: nothing is read or written.
3. Dead letters of an earlier try are deleted. After a crash here the batch was never begun.
4. The table gets the columns that the batch brings, if the pipeline adds such. After a crash here the next try finds
   them there. Then tasks, or for few rows the driver program, read the batch's input, write dead letters and the data
   files of an open attempt, which no reader sees.
5. The commit: from here on step 2 applies forever. It has the lease's epoch, and is refused if that is outdated.
6. The totals are recorded, then the checkpoint notes that the batch is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.records.inferred_types import join_schemas
from lakelog.results import WriteResult
from lakelog.serving.lease import LeaseRenewer
from lakelog.spark.session.executors import find_parallelism, is_on_this_machine
from lakelog.spark.task_errors import lakelog_errors
from lakelog.spark.types import to_spark_schema

from .checkpoint import CHECKPOINT_PROPERTY, Checkpoint, Totals
from .few_rows import read_few_rows
from .pipeline.spec import FileSource, Format, Mode, Pipeline
from .progress import DoneBatch
from .records.dead_letters import count_letters, delete_letters, marked_folder
from .records.discovery import SCHEMA_COLUMN
from .records.target import Target
from .source import BatchTasks, Source
from .source_progress import PlannedBatch, check_planned


@dataclass(frozen=True)
class BatchWriter:
    """Does the batches of a pipeline.

    Args:
        marks_letters: Whether executors must find a mark in the folder of dead letters, as they are on other machines.
    """

    pipeline: Pipeline
    target: Target
    source: Source
    checkpoint: Checkpoint
    metastore: Metastore
    lease: LeaseRenewer
    clock: Clock
    marks_letters: bool = False

    @property
    def info(self) -> TableInfo:
        """The table as it was last seen."""
        return self.target.info

    def write(self, spark: SparkSession, batch_id: int) -> DoneBatch:
        """Does a batch, or finds that it is done.

        Args:
            spark: Runs the tasks.
            batch_id: The batch's number.

        Raises:
            Fenced: Another instance has taken over; nothing was committed.
            InvalidArgument: A bad record, where the pipeline stops at those; nothing was committed.
            DataCorrupted: The source or the checkpoint changed; nothing was committed.
            Unavailable: Nothing was committed; the batch may be repeated.
            OutcomeUnknown: The batch may be committed; it may be repeated.
        """
        began_s = self.clock.monotonic_s()
        self.lease.check()
        planned = check_planned(self.source.read_batch(batch_id), batch_id, self.checkpoint.folder)
        progress = self.metastore.get_writer_progress(self.pipeline.writer, self.info.table_uuid)
        already_applied = progress.last_identifier is not None and progress.last_identifier >= batch_id
        if already_applied:
            snapshot_id = progress.snapshot_id if progress.last_identifier == batch_id else None
        else:
            result = self._write_repeatedly(spark, planned)
            snapshot_id, already_applied = result.snapshot_id, result.already_applied
        totals, rows, letters = self._count(batch_id, snapshot_id)
        seconds = self.clock.monotonic_s() - began_s
        return DoneBatch(planned, rows, letters, totals, seconds, already_applied, self.target.ignored)

    def _write_repeatedly(self, spark: SparkSession, planned: PlannedBatch) -> WriteResult:
        """Writes a batch, again if the table's columns are changed meanwhile."""
        for _ in range(_MOST_CHANGES):
            try:
                return self._write(spark, planned)
            except (InvalidArgument, CommitConflict) as error:
                if error.reason not in ("SCHEMA_MISMATCH", "SCHEMA_CHANGED"):
                    raise
                before = self.info.schema.schema_id
                self.target.refresh()
                if self.info.schema.schema_id == before:
                    raise
        return self._write(spark, planned)

    def _write(self, spark: SparkSession, planned: PlannedBatch) -> WriteResult:
        pipeline, batch_id = self.pipeline, planned.batch_id
        if pipeline.dead_letters is not None:
            # Again: an instance that was frozen since the first check would delete the letters of the one after it.
            self.lease.check()
            delete_letters(pipeline.dead_letters, pipeline.name, batch_id)
        self.target.refresh()
        splits = 2 * find_parallelism(spark.sparkContext)
        if self.target.looks_ahead:
            self._add_columns(spark, self.source.split(batch_id, splits))
        rows = self._read(spark, self.source.split(batch_id, splits))
        with self._marked_letters(batch_id):
            return lakelog.spark.write(
                rows,
                pipeline.table,
                mode="delete" if pipeline.mode is Mode.DELETE else "append",
                # The rows have all columns that the table had when it was looked at.
                fill_missing=True,
                writer=pipeline.writer,
                identifier=batch_id,
                previous_identifier=batch_id - 1,
                properties={**planned.properties, **to_properties(pipeline, self.checkpoint, batch_id)},
                fence=self.lease.fence,
            )

    def _add_columns(self, spark: SparkSession, tasks: BatchTasks) -> None:
        """Has the table get the columns that the batch brings: before it, as often as the batch is repeated.

        Where the pipeline ignores them, they are only noted.
        """
        source = self.pipeline.source
        if isinstance(source, FileSource):
            are_typed = source.format is Format.PARQUET
        elif source.avro is not None:
            self.target.add_columns(source.avro.arrow, are_typed=True)
            return
        else:
            are_typed = False
        assert tasks.discover is not None, "the file of the pipeline does not say the columns"
        if tasks.may_be_few and is_on_this_machine(spark.sparkContext.master):
            numbers = pa.record_batch({"number": pa.array(range(tasks.count), pa.int64())})
            with lakelog_errors():
                parts = pa.Table.from_batches(list(tasks.discover(iter([numbers]))))
        else:
            with lakelog_errors():
                found = spark.range(0, tasks.count, 1, tasks.count).mapInArrow(
                    tasks.discover, f"{SCHEMA_COLUMN} binary"
                )
                parts = found.toArrow()
        schemas = [pa.ipc.read_schema(pa.py_buffer(each)) for each in parts.column(SCHEMA_COLUMN).to_pylist()]
        self.target.add_columns(join_schemas(schemas), are_typed=are_typed)

    def _read(self, spark: SparkSession, tasks: BatchTasks) -> DataFrame:
        """The rows of a batch: read already if they are few; if Spark runs on a cluster, always read there."""
        schema = to_spark_schema(self.target.coercion.output, nullable=True)
        if is_on_this_machine(spark.sparkContext.master):
            few = read_few_rows(tasks, self.target.coercion.output)
            if few is not None:
                return spark.createDataFrame(few, schema)
        # One number for each task: a row of `range` and its partition are the same.
        return spark.range(0, tasks.count, 1, tasks.count).mapInArrow(tasks.read, schema)

    def _marked_letters(self, batch_id: int) -> AbstractContextManager[None]:
        folder = self.pipeline.dead_letters
        if folder is None or not self.marks_letters:
            return nullcontext()
        return marked_folder(folder, self.pipeline.name, batch_id)

    def _count(self, batch_id: int, snapshot_id: int | None) -> tuple[Totals, int, int]:
        """Adds a committed batch to the totals, once."""
        letters = 0
        if self.pipeline.dead_letters is not None:
            letters = count_letters(self.pipeline.dead_letters, self.pipeline.name, batch_id)
        rows = 0
        if snapshot_id is not None:
            page = self.metastore.list_snapshots(self.info.table_uuid, after=snapshot_id - 1, until=snapshot_id)
            rows = sum(snapshot.added_rows for snapshot in page.snapshots)
        totals = self.checkpoint.read_totals()
        if totals.batch_id < batch_id:
            totals = Totals(batch_id, totals.rows + rows, totals.dead_letters + letters)
            self.checkpoint.write_totals(totals)
        return totals, rows, letters


def to_properties(pipeline: Pipeline, checkpoint: Checkpoint, batch_id: int) -> Mapping[str, str]:
    """The commit metadata of a batch's snapshot. Pure."""
    return {
        **pipeline.properties,
        _PIPELINE_PROPERTY: pipeline.name,
        _BATCH_PROPERTY: str(batch_id),
        CHECKPOINT_PROPERTY: checkpoint.identity,
    }


_MOST_CHANGES: Final = 5
"""Changes of the table's columns during one batch: more are made by a program that does nothing else."""

_PIPELINE_PROPERTY: Final = "pipeline.name"
_BATCH_PROPERTY: Final = "pipeline.batch"
