"""Running a pipeline: Spark, the lease, checks, then one batch after the other, with their reports.

    plan what waits -> note that it begins -> write and commit -> note that it is done -> more waits, or pause

The batches are not those of a streaming query of Spark. For a source in Python it starts five processes before the
first batch, which take four seconds; and its batches can begin with nothing. `lakelog/serving/streams/leased_stream.py`
says how failures are repeated and how a pipeline ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.exit_status import may_pass
from lakelog.serving.streams.leased_stream import Events, LeasedStream
from lakelog.serving.streams.standby import prepare, start_before_lease
from lakelog.tracing import spans
from lakelog.tracing.request_ids import request_id

from .batch import BatchWriter
from .checkpoint import Checkpoint
from .exit_status import ExitStatus, to_exit_status
from .pipeline.spec import Pipeline
from .progress import Progress
from .source import Source
from .source_progress import PlannedBatch

_SHORTEST_POLL_S: Final = 0.01
"""The shortest pause between two looks at a source in which nothing waits.

With an interval of 0 s looks would follow each other without a pause and take a whole core. A look takes milliseconds
itself, and a batch tens of them, so that this pause is not felt.
"""


class Service:
    """Runs a pipeline until its end.

    Args:
        pipeline: The pipeline.
        check: Checks table and source without the lease.
        start_spark: Makes the session.
        warm_up: Has the session do once what batches do; called when the lease has to be waited for. None: Spark starts
            only under the lease, since an instance that waits would have executors of a cluster that others need.
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
        check: Callable[[], object],
        start_spark: Callable[[], SparkSession],
        warm_up: Callable[[SparkSession], None] | None,
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
        self._check_pipeline = check
        self._start_spark = start_spark
        self._warm_up = warm_up
        self._spark: SparkSession | None = None
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
        """Ends the batch and the pipeline because the lease is lost; from any thread. The commit would be refused."""
        self._leased.lose(error)
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()

    def fail(self, error: LakelogError) -> None:
        """Ends the pipeline because Spark has ended, also one that waits for its lease; from any thread."""
        self._events.stopping.set()
        self._leased.lose(error)

    def run(self) -> ExitStatus:
        """Runs until the end; errors are logged and reported, never raised."""
        return self._leased.run(self._lease, self._acquire_lease, self._run_leased)

    def _acquire_lease(self) -> bool:
        """Takes the lease. An instance that may wait for it starts Spark before, except on a cluster."""
        if self._wait_for_lease and self._warm_up is not None:
            start_before_lease(self._check_pipeline, self._make_session)
        return self._lease.acquire(
            wait=self._wait_for_lease,
            stopping=self._events.stopping,
            wake=self._events.wake,
            on_wait=self._prepare,
        )

    def _make_session(self) -> SparkSession:
        self._spark = self._spark or self._start_spark()
        return self._spark

    def _prepare(self) -> None:
        """What an instance does that waits for the lease: the first batch after it is as fast as any other."""
        spark, warm_up = self._spark, self._warm_up
        if spark is not None and warm_up is not None:
            prepare(lambda: warm_up(spark), self._log)

    def _run_leased(self) -> None:
        self._progress.lead(self._lease.epoch)
        made: list[BatchWriter] = []
        # A server that is away is waited for.
        self._leased.repeat(lambda: made.append(self._make_writer()))
        if not made:
            return  # Told to end meanwhile.
        (writer,) = made
        checkpoint = writer.checkpoint
        self._progress.begin(checkpoint.read_totals(), _last_batch(writer.source, checkpoint))
        self._leased.repeat(lambda: self._check(writer))
        if self._events.is_ending:
            return
        spark = self._make_session()

        def step() -> None:
            self._check(writer)
            self._progress.running()
            try:
                self._do_batches(spark, writer)
            finally:
                writer.source.close()

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

    def _do_batches(self, spark: SparkSession, writer: BatchWriter) -> None:
        """Does batches until everything is read (`available_now`), a failure, or the end.

        While more waits, they follow each other. A trickle of records or files makes one batch in each interval.
        """
        source, checkpoint, interval_s = writer.source, writer.checkpoint, self._pipeline.interval_s
        if interval_s is None:
            source.freeze()
        while not self._events.is_ending:
            with self._unless_replaced():
                batch_id = checkpoint.last_done() + 1
                is_planned = source.plan(batch_id)
                if is_planned:
                    checkpoint.begin(batch_id)
            source.report_changes(self._progress)
            left = self._do_batch(spark, writer, batch_id) if is_planned else 0
            # A long time without work is no failure.
            self._leased.note_well()
            if interval_s is not None and left == 0:
                self._events.wake.wait(max(interval_s, _SHORTEST_POLL_S))
                self._events.wake.clear()
            elif not is_planned:
                return

    def _do_batch(self, spark: SparkSession, writer: BatchWriter, batch_id: int) -> int:
        """Does a batch that has begun; returns how much waited beside it when it was planned."""
        with request_id(f"batch-{batch_id}-{self._pipeline.name}"[:64]):
            try:
                with spans.root_span("batch", pipeline=self._pipeline.name, batch_id=batch_id):
                    done = writer.write(spark, batch_id)
            except BaseException:
                self._progress.batch_waits(writer.source.read_batch(batch_id))
                raise
            self._progress.batch_done(done)
        with self._unless_replaced():
            writer.checkpoint.end(batch_id)
            writer.source.forget(batch_id + 1)
        return done.planned.after.lag

    @contextmanager
    def _unless_replaced(self) -> Iterator[None]:
        """Has an instance that was replaced say that, and not what it misses in a checkpoint that another went on with.

        What may pass is repeated, and begins with the same check.
        """
        try:
            yield
        except Exception as error:
            if not may_pass(error):
                self._lease.check()
            raise


def _last_batch(source: Source, checkpoint: Checkpoint) -> PlannedBatch | None:
    last = checkpoint.last_done()
    return source.read_batch(last) if last >= 0 else None
