"""Running a pipeline: what is checked before Spark begins, which query it runs, and what is told of its batches.

When which of them is done, and how it ends, says `lakelog/serving/leased_stream.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.serving.lease import LeaseKeeper
from lakelog.serving.leased_stream import Events, LeasedStream, WriteBatch, start_query
from lakelog.serving.logs import Log

from .batch import BatchWriter
from .checkpoint import Checkpoint
from .ending import Ending, to_ending
from .files.batch_log import BatchFiles, BatchLog
from .files.listing import FoundFile
from .files.stream import SOURCE_NAME, source_options
from .pipeline.spec import Pipeline
from .progress import Progress


class Service:
    """Runs a pipeline until its end.

    Args:
        pipeline: The pipeline.
        start_spark: Makes the session; called after the lease is taken, so that an instance that waits costs little.
        make_writer: Makes what does batches, once there is a lease.
        lease: Of the pipeline, not yet taken.
        progress: Where it is told how far the pipeline is.
        events: From outside.
        patience_s: How long failures that may pass are borne before they end the pipeline.
        wait_for_lease: Whether to wait for another instance.
        clock: For the time.
        log: For lines.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        start_spark: Callable[[], SparkSession],
        make_writer: Callable[[], BatchWriter],
        lease: LeaseKeeper,
        progress: Progress,
        events: Events,
        patience_s: float,
        wait_for_lease: bool,
        clock: Clock,
        log: Log,
    ) -> None:
        self._pipeline = pipeline
        self._start_spark = start_spark
        self._make_writer = make_writer
        self._lease = lease
        self._progress = progress
        self._events = events
        self._wait_for_lease = wait_for_lease
        self._log = log
        self._leased: LeasedStream[Ending] = LeasedStream(
            f"pipeline '{pipeline.name}'",
            pipeline.checkpoint,
            events=events,
            told=progress,
            fine=Ending.FINE,
            to_ending=to_ending,
            patience_s=patience_s,
            clock=clock,
            log=log,
        )
        self._changed: tuple[str, ...] = ()

    def lose(self, error: LakelogError) -> None:
        """Tells that the lease is lost; from any thread."""
        self._leased.lose(error)

    def run(self) -> Ending:
        """Runs until the end; errors are logged and reported, never raised."""
        return self._leased.run(self._lease, self._take_lease, self._run_leased)

    def _take_lease(self) -> bool:
        return self._lease.acquire(wait=self._wait_for_lease, stopping=self._events.stopping)

    def _run_leased(self) -> None:
        self._progress.lead(self._lease.epoch)
        writer = self._make_writer()
        checkpoint = writer.checkpoint
        self._progress.begin(checkpoint.read_totals(), _last_batch(writer.batch_log, checkpoint))
        # Before Spark is started, which takes long: what does not fit is told at once.
        self._check(writer)
        spark = self._start_spark()

        def step() -> None:
            self._check(writer)
            self._progress.running()
            self._stream(spark, writer)

        self._leased.repeat(step)

    def _check(self, writer: BatchWriter) -> None:
        """Before Spark begins, or begins anew: table and checkpoint agree, the next batch names files as they are."""
        self._lease.check()
        progress = writer.metastore.get_writer_progress(self._pipeline.writer, writer.info.table_uuid)
        writer.checkpoint.check_progress(self._pipeline, progress)
        last = -1 if progress.last_identifier is None else progress.last_identifier
        refresh_batch(self._pipeline, writer.batch_log, last + 1, self._log)

    def _stream(self, spark: SparkSession, writer: BatchWriter) -> None:
        """Lets batches run until the source is empty (`available_now`), a failure, or the end."""

        def write(files: DataFrame, batch_id: int) -> None:
            try:
                done = writer.write(files, batch_id)
            except BaseException:
                self._progress.batch_waits(writer.batch_log.read(batch_id))
                raise
            self._progress.batch_done(done)

        self._leased.drive(
            lambda write_batch: self._start_query(spark, writer, write_batch),
            write,
            look=lambda _: self._tell_changed(writer.batch_log),
            is_noted=lambda query: _is_noted(query, writer.checkpoint),
        )

    def _start_query(self, spark: SparkSession, writer: BatchWriter, write_batch: WriteBatch) -> StreamingQuery:
        source = self._pipeline.source
        shares = 2 * spark.sparkContext.defaultParallelism
        options = source_options(source, writer.checkpoint.log_folder, shares)
        files = spark.readStream.format(SOURCE_NAME).options(**options).load()
        stream = files.writeStream.foreachBatch(write_batch).option(
            "checkpointLocation", writer.checkpoint.spark_folder.as_uri()
        )
        return start_query(stream, self._pipeline.interval_s)

    def _tell_changed(self, batch_log: BatchLog) -> None:
        changed = batch_log.read_changed()
        if changed != self._changed:
            self._changed = changed
            self._progress.files_changed(changed)


def _is_noted(query: StreamingQuery, checkpoint: Checkpoint) -> bool:
    """Whether Spark has noted that the batch is done; a batch that it has not is repeated, and found done."""
    return checkpoint.last_done() >= checkpoint.last_begun() and not query.status["isTriggerActive"]


def refresh_batch(pipeline: Pipeline, batch_log: BatchLog, batch_id: int, log: Log) -> None:
    """Brings the log of a batch that is planned but not committed up to date with files that changed since.

    Nothing of it has been committed, so its files may be read as they are now: a file that was repaired, or that was
    still being written when the batch was planned. A file that is gone stays in the batch, which says so.
    """
    batch = batch_log.read(batch_id)
    if batch is None:
        return
    now = [_look(pipeline, file) for file in batch.files]
    changed = [file.path for file, seen in zip(batch.files, now, strict=True) if file != seen]
    if changed:
        log.warning(
            "files of the next batch changed; they are read as they are now", batch_id=batch_id, paths=changed[:20]
        )
        batch_log.plan_again(BatchFiles(batch_id, tuple(now), batch.taken_before, batch.listed))


def _look(pipeline: Pipeline, file: FoundFile) -> FoundFile:
    try:
        status = (pipeline.source.path / file.path).stat()
    except OSError:
        return file
    return FoundFile(file.path, status.st_size, status.st_mtime_ns // 1000)


def _last_batch(batch_log: BatchLog, checkpoint: Checkpoint) -> BatchFiles | None:
    last = checkpoint.last_done()
    return batch_log.read(last) if last >= 0 else None
