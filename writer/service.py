"""Running a pipeline: the checks before Spark begins, its query, and the reports of its batches.

`lakelog/serving/streams/leased_stream.py` says in which order this happens and how it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.jobs.work import LeaseGrant
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.leased_stream import Events, LeasedStream, WriteBatch, start_query
from lakelog.spark.session.executors import find_parallelism

from .batch import BatchWriter
from .checkpoint import Checkpoint
from .drained import OPTION as PAUSE_OPTION
from .exit_status import ExitStatus, to_exit_status
from .pipeline.spec import Pipeline
from .progress import Progress
from .source import Source
from .source_progress import PlannedBatch

_SHORTEST_POLL_S: Final = 0.1
"""How often a source without its first batch is looked at, at most."""

_POLLING_DELAY: Final = "spark.sql.streaming.pollingDelay"
"""How long Spark waits after a poll that found nothing."""


class Service:
    """Runs a pipeline until its end.

    Args:
        pipeline: The pipeline.
        start_spark: Makes the session for a source; called after the lease is taken.
        spare_spark: Ends a session that was begun; called when the lease has to be waited for, so that an instance that
            waits costs little.
        make_writer: Makes the batch writer, once there is a lease.
        lease: The pipeline's lease, not yet taken.
        progress: Gets the progress of the pipeline.
        events: Events from outside.
        max_unavailable_s: How long temporary failures are tolerated before they end the pipeline.
        wait_for_lease: Whether to wait for another instance.
        after_restore: Whether to take batches again that the table has lost.
        clock: For the time.
        log: The service's log.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        start_spark: Callable[[Source], SparkSession],
        spare_spark: Callable[[], None],
        make_writer: Callable[[], BatchWriter],
        lease: LeaseRenewer,
        progress: Progress,
        events: Events,
        max_unavailable_s: float,
        wait_for_lease: bool,
        after_restore: bool,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._pipeline = pipeline
        self._start_spark = start_spark
        self._spare_spark = spare_spark
        self._make_writer = make_writer
        self._lease = lease
        self._progress = progress
        self._events = events
        self._wait_for_lease = wait_for_lease
        self._after_restore = after_restore
        self._log = log
        self._leased: LeasedStream[ExitStatus] = LeasedStream(
            f"pipeline '{pipeline.name}'",
            pipeline.checkpoint,
            events=events,
            listener=progress,
            fine=ExitStatus.FINE,
            to_exit_status=to_exit_status,
            max_unavailable_s=max_unavailable_s,
            clock=clock,
            log=log,
        )

    def lose(self, error: LakelogError) -> None:
        """Reports that the lease is lost; from any thread."""
        self._leased.lose(error)

    def run(self) -> ExitStatus:
        """Runs until the end; errors are logged and reported, never raised."""
        return self._leased.run(self._lease, self._acquire_lease, self._run_leased)

    def _acquire_lease(self) -> bool:
        def request(request_now: Callable[[], LeaseGrant]) -> LeaseGrant:
            grant = request_now()
            if not grant.acquired:
                self._spare_spark()
            return grant

        return self._lease.acquire(wait=self._wait_for_lease, stopping=self._events.stopping, in_turn=request)

    def _run_leased(self) -> None:
        self._progress.lead(self._lease.epoch)
        made: list[BatchWriter] = []
        # Before Spark starts, which takes long: a mismatch is reported at once, and a server that is away is waited
        # for.
        self._leased.repeat(lambda: made.append(self._make_writer()))
        if not made:
            return  # Told to end meanwhile.
        (writer,) = made
        checkpoint = writer.checkpoint
        self._progress.begin(checkpoint.read_totals(), _last_batch(writer.source, checkpoint))
        self._leased.repeat(lambda: self._check(writer))
        if self._events.is_ending:
            return
        spark = self._start_spark(writer.source)

        def step() -> None:
            self._check(writer)
            self._progress.running()
            if self._await_first_batch(writer):
                self._stream(spark, writer)

        self._leased.repeat(step)

    def _check(self, writer: BatchWriter) -> None:
        """Before Spark begins, or again: table and checkpoint agree, the next batch can be read as it was planned."""
        self._lease.check()
        progress = writer.metastore.get_writer_progress(self._pipeline.writer, writer.info.table_uuid)
        if self._after_restore and (lost := writer.checkpoint.set_back(progress, writer.source)):
            self._log.warning("the table has lost batches; they are taken again", first=lost[0], last=lost[-1])
        writer.checkpoint.check_progress(self._pipeline, progress)
        last = -1 if progress.last_identifier is None else progress.last_identifier
        writer.source.refresh(last + 1, self._log)

    def _await_first_batch(self, writer: BatchWriter) -> bool:
        """Waits until the first batch is planned; False: the pipeline ends, or takes only what was there (nothing).

        Spark begins a new query with a batch, and counts it, even if its source has nothing; later it does not. A batch
        of Spark is to be one of ours, so a query begins when there is something.
        """
        checkpoint = writer.checkpoint
        if checkpoint.last_done() >= 0:
            return True
        if checkpoint.last_begun() >= 0 and writer.source.read_batch(0) is None:
            # Of an earlier version, which let Spark begin with nothing.
            checkpoint.forget_spark()
        while not writer.source.plan_first():
            if self._pipeline.interval_s is None:
                return False
            self._leased.note_well()
            self._events.wake.wait(max(self._pipeline.interval_s, _SHORTEST_POLL_S))
            self._events.wake.clear()
            if self._events.is_ending:
                return False
            self._lease.check()
        return True

    def _stream(self, spark: SparkSession, writer: BatchWriter) -> None:
        """Runs batches until the source is empty (`available_now`), a failure, or the end."""

        def write(taken: DataFrame, batch_id: int) -> None:
            try:
                done = writer.write(taken, batch_id)
            except BaseException:
                self._progress.batch_waits(writer.source.read_batch(batch_id))
                raise
            self._progress.batch_done(done)

        self._leased.drive(
            lambda write_batch: self._start_query(spark, writer, write_batch),
            write,
            on_poll=lambda _: writer.source.report_changes(self._progress),
            is_noted=lambda query: _is_noted(query, writer.checkpoint),
        )

    def _start_query(self, spark: SparkSession, writer: BatchWriter, write_batch: WriteBatch) -> StreamingQuery:
        name, options = writer.source.spark_source(splits=2 * find_parallelism(spark.sparkContext))
        interval_s = self._pipeline.interval_s
        pause = {} if interval_s is None else {PAUSE_OPTION: "true"}
        taken = spark.readStream.format(name).options(**options, **pause).load()
        stream = taken.writeStream.foreachBatch(write_batch).option(
            "checkpointLocation", writer.checkpoint.spark_folder.as_uri()
        )
        if interval_s is None:
            return start_query(stream, None)
        # Not Spark's interval trigger, which waits for a tick of its clock even if more data waits (drained.py).
        spark.conf.set(_POLLING_DELAY, f"{max(10, int(interval_s * 1000))}ms")
        return start_query(stream, 0.0)


def _is_noted(query: StreamingQuery, checkpoint: Checkpoint) -> bool:
    """Whether Spark has recorded that the batch is done; otherwise Spark repeats it, and it is found done."""
    return checkpoint.last_done() >= checkpoint.last_begun() and not query.status["isTriggerActive"]


def _last_batch(source: Source, checkpoint: Checkpoint) -> PlannedBatch | None:
    last = checkpoint.last_done()
    return source.read_batch(last) if last >= 0 else None
