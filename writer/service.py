"""Running a pipeline: take the lease, let Spark do batch after batch, end in good order.

    lease -> checks -> stream of batches -> end
               ^            | metastore away for a while: wait, begin again at the batch in hand
               +------------+

Two things end it from outside: a signal (finish the batch in hand, then stop) and the loss of the lease (stop at once;
whatever is in hand is refused by the commit's fence).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.clock import Clock
from lakelog.errors import LakelogError, Unavailable
from lakelog.serving.batch_gate import Gate
from lakelog.serving.lease import LeaseKeeper
from lakelog.serving.logs import Log
from lakelog.spark.task_errors import find_lakelog_error

from .batch import BatchWriter
from .checkpoint import Checkpoint
from .ending import Ending, may_pass, to_ending
from .files.batch_log import BatchFiles, BatchLog
from .files.listing import FoundFile
from .files.stream import SOURCE_NAME, source_options
from .pipeline.spec import Pipeline
from .progress import Progress

_LOOK_EVERY_S: Final = 0.2
"""How often the running query is looked at; what ends it is noticed after that at most."""

_CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's word for a checkpoint into which two queries write."""

_LOG_WITHIN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0


@dataclass(frozen=True)
class Events:
    """What is told to a running pipeline from other threads."""

    stopping: threading.Event
    """Finish the batch in hand, then end."""
    lost: threading.Event
    """The lease is lost, or the metastore silent for too long: end at once."""
    wake: threading.Event
    """Something happened: look."""


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
        self._patience_s = patience_s
        self._wait_for_lease = wait_for_lease
        self._clock = clock
        self._log = log
        self._lost_error: LakelogError | None = None
        self._batch_error: BaseException | None = None
        self._went_well_s = 0.0
        self._changed: tuple[str, ...] = ()

    def lose(self, error: LakelogError) -> None:
        """Tells that the lease is lost; from any thread."""
        self._lost_error = error
        self._events.lost.set()
        self._events.wake.set()

    def run(self) -> Ending:
        """Runs until the end; errors are logged and reported, never raised."""
        error: BaseException | None = None
        try:
            if not self._lease.acquire(wait=self._wait_for_lease, stopping=self._events.stopping):
                self._log.info("stopped before the lease was taken")
                return Ending.FINE
            self._run_leased()
        except Exception as caught:
            error = caught
        if self._lost_error is not None:
            error = self._lost_error
        ending = Ending.FINE if error is None else to_ending(error)
        self._progress.ended(error)
        if error is None:
            self._log.info("stopped")
        else:
            known = isinstance(error, LakelogError)
            self._log.error("failed", exit_code=int(ending), ending=ending.name, error=str(error),
                            **({} if known else {"exc_info": error}))  # fmt: skip
        self._lease.release()
        return ending

    def _run_leased(self) -> None:
        self._progress.lead(self._lease.epoch)
        writer = self._make_writer()
        checkpoint = writer.checkpoint
        self._progress.begin(checkpoint.read_totals(), _last_batch(writer.batch_log, checkpoint))
        # Before Spark is started, which takes long: what does not fit is told at once.
        self._check(writer)
        spark = self._start_spark()
        self._went_well_s = self._clock.monotonic_s()
        pause_s = _FIRST_PAUSE_S
        while not self._is_ending():
            try:
                self._check(writer)
                self._progress.running()
                self._stream(spark, writer)
                return
            except Exception as error:
                silent_s = self._clock.monotonic_s() - self._went_well_s
                if self._events.lost.is_set() or not may_pass(error) or silent_s > self._patience_s:
                    raise
                self._log.warning("batch failed, will be repeated", error=str(error), in_s=pause_s)
                self._progress.failed_for_now(error)
            self._events.wake.wait(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _check(self, writer: BatchWriter) -> None:
        """Before Spark begins, or begins anew: table and checkpoint agree, the next batch names files as they are."""
        self._lease.check()
        progress = writer.metastore.get_writer_progress(self._pipeline.writer, writer.info.table_uuid)
        writer.checkpoint.check_progress(self._pipeline, progress)
        last = -1 if progress.last_identifier is None else progress.last_identifier
        refresh_batch(self._pipeline, writer.batch_log, last + 1, self._log)

    def _stream(self, spark: SparkSession, writer: BatchWriter) -> None:
        """Lets batches run until the source is empty (`available_now`), a failure, or the end."""
        self._batch_error = None
        gate = Gate()

        def write_batch(files: DataFrame, batch_id: int) -> None:
            with gate:
                try:
                    done = writer.write(files, batch_id)
                except BaseException as error:
                    self._batch_error = error
                    self._progress.batch_waits(writer.batch_log.read(batch_id))
                    raise
                self._went_well_s = self._clock.monotonic_s()
                self._progress.batch_done(done)

        query = self._start_query(spark, writer, write_batch)
        try:
            while query.isActive and not self._is_ending():
                self._events.wake.wait(_LOOK_EVERY_S)
                self._tell_changed(writer.batch_log)
        finally:
            if self._events.lost.is_set():
                # What is in hand can no longer be committed: no need to let it finish.
                query.stop()
            else:
                gate.close()
                self._wait_for_log(query, writer.checkpoint)
                query.stop()
        self._raise_failure(query)

    def _start_query(
        self, spark: SparkSession, writer: BatchWriter, write_batch: Callable[[DataFrame, int], None]
    ) -> StreamingQuery:
        source = self._pipeline.source
        shares = 2 * spark.sparkContext.defaultParallelism
        options = source_options(source, writer.checkpoint.log_folder, shares)
        files = spark.readStream.format(SOURCE_NAME).options(**options).load()
        stream = files.writeStream.foreachBatch(write_batch).option(
            "checkpointLocation", writer.checkpoint.spark_folder.as_uri()
        )
        if self._pipeline.interval_s is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{int(self._pipeline.interval_s * 1000)} milliseconds").start()

    def _wait_for_log(self, query: StreamingQuery, checkpoint: Checkpoint) -> None:
        """Gives Spark the time to note that the batch is done; without it the batch is repeated, and found done."""
        give_up_s = self._clock.monotonic_s() + _LOG_WITHIN_S
        while query.isActive and self._clock.monotonic_s() < give_up_s:
            if checkpoint.last_done() >= checkpoint.last_begun() and not query.status["isTriggerActive"]:
                return
            self._clock.sleep(_LOOK_EVERY_S / 4)

    def _raise_failure(self, query: StreamingQuery) -> None:
        if self._batch_error is not None:
            raise self._batch_error
        failure = query.exception()
        if failure is None or self._is_ending():
            return
        known = find_lakelog_error(failure)
        if known is None and _CONCURRENT in str(failure):
            known = Unavailable(
                f"Another process wrote into the checkpoint {self._pipeline.checkpoint} at the same time, as an "
                "instance does that was frozen and goes on. The lease tells who may; the batch is repeated."
            )
        raise known or failure

    def _tell_changed(self, batch_log: BatchLog) -> None:
        changed = batch_log.read_changed()
        if changed != self._changed:
            self._changed = changed
            self._progress.files_changed(changed)

    def _is_ending(self) -> bool:
        return self._events.stopping.is_set() or self._events.lost.is_set()


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
