"""Running streams: the checks before Spark begins, the query of each stream, and what they share.

`lakelog/serving/streams/leased_stream.py` says in which order this happens and how it ends. When another instance has
taken over, a stream waits for its lease again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.jobs.work import LeaseGrant
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.leased_stream import POLL_EVERY_S, Events, LeasedStream, WriteBatch, start_query
from lakelog.serving.streams.standby import prepare, start_before_lease

from .checking import check_stream, to_options
from .exit_status import ExitStatus, to_exit_status
from .progress import StreamProgress
from .sinks import SinkWriter, make_sink
from .spec import Stream

_START_WITHIN_S: Final = 60.0
_TURN_PAUSE_S: Final = 0.5
"""How long an instance lets others go first, for each stream that it runs, so that they share the streams."""

_LONGEST_TURN_PAUSE_S: Final = 2.0


class Shared:
    """What the streams of one process share. Thread-safe.

    Args:
        start_spark: Makes the session.
        warm_up: Has the session do once what batches do. None: Spark starts only under a lease, since an instance that
            waits would have executors of a cluster that others need.
    """

    def __init__(self, start_spark: Callable[[], SparkSession], warm_up: Callable[[SparkSession], None] | None) -> None:
        self.stopping: Final = threading.Event()
        """Set to finish the current batches, then end."""
        self._start_spark = start_spark
        self._warm_up = warm_up
        self._is_warm = False
        self._spark: SparkSession | None = None
        self.starting: Final = threading.Lock()
        """Held while a query starts: each starts Python processes, which time out on a busy machine."""
        self._leasing = threading.Lock()
        self._lock = threading.Lock()
        self._leases = 0

    def spark(self) -> SparkSession:
        """The session; made when a stream first needs it. Blocks meanwhile."""
        with self._lock:
            if self._spark is None:
                self._spark = self._start_spark()
            return self._spark

    def start_first(self) -> None:
        """Makes the session before any lease, unless it is on a cluster."""
        if self._warm_up is not None:
            self.spark()

    def prepare(self, log: Logger) -> None:
        """Has the session do once what batches do, so that a stream that is taken over goes on at once.

        Not where streams run already: their batches do that, and other starts would wait for it.
        """
        with self.starting:
            spark, warm_up = self._spark, self._warm_up
            if warm_up is not None and spark is not None and not self._is_warm and self._leases == 0:
                self._is_warm = True
                prepare(lambda: warm_up(spark), log)

    def request_in_turn(self, request: Callable[[], LeaseGrant]) -> LeaseGrant | None:
        """Requests a lease, one stream at a time and after instances that run fewer; None: stopped before."""
        with self._leasing:
            self.stopping.wait(min(self._leases * _TURN_PAUSE_S, _LONGEST_TURN_PAUSE_S))
            if self.stopping.is_set():
                return None
            grant = request()
            if grant.acquired:
                self._count_lease(1)
            return grant

    def release(self) -> None:
        """Records that no work is done any more under a lease that was taken in turn."""
        self._count_lease(-1)

    def _count_lease(self, change: int) -> None:
        with self._lock:
            self._leases += change


@dataclass(frozen=True)
class RunOptions:
    """How streams are run.

    Args:
        once: A stream ends when everything that exists now is read.
        wait_for_lease: Whether to wait for other instances.
        max_unavailable_s: How long temporary failures are tolerated before they end a stream.
    """

    once: bool
    wait_for_lease: bool
    max_unavailable_s: float


class StreamRunner:
    """Runs a stream until its end.

    Args:
        stream: The stream.
        run_options: How it is run.
        shared: What it shares with the other streams of the process.
        metastore: Knows the tables.
        make_lease: Makes the lease renewer, which calls back when the lease is lost.
        progress: Gets the progress of the stream.
        clock: For the time.
        log: The service's log.
    """

    def __init__(
        self,
        stream: Stream,
        run_options: RunOptions,
        shared: Shared,
        *,
        metastore: Metastore,
        make_lease: Callable[[Callable[[LakelogError], None]], LeaseRenewer],
        progress: StreamProgress,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._stream = stream
        self._run_options = run_options
        self._shared = shared
        self._metastore = metastore
        self._make_lease = make_lease
        self._progress = progress
        self._clock = clock
        self._log = log
        self._events = Events(shared.stopping)
        self._lease: LeaseRenewer | None = None
        self._leased: LeasedStream[ExitStatus] = LeasedStream(
            f"stream '{stream.name}'",
            stream.checkpoint,
            events=self._events,
            listener=progress,
            fine=ExitStatus.FINE,
            to_exit_status=to_exit_status,
            max_unavailable_s=run_options.max_unavailable_s,
            clock=clock,
            log=log,
            log_subject="stream",
        )

    @property
    def is_running(self) -> bool:
        """Whether batches run; any thread may call this."""
        return self._progress.is_running

    @property
    def is_answered(self) -> bool:
        """Whether the metastore has answered its last request for the lease; any thread may call this."""
        return self._lease is not None and self._lease.is_answered

    def run(self) -> ExitStatus:
        """Runs until the end; errors are logged and reported, never raised."""
        while True:
            exit_status = self._run_once()
            is_over = self._run_options.once or not self._run_options.wait_for_lease or self._shared.stopping.is_set()
            if exit_status is not ExitStatus.FENCED or is_over:
                return exit_status

    def fail(self, error: LakelogError) -> None:
        """Ends the stream because Spark has ended, also one that waits for its lease; from any thread."""
        self._shared.stopping.set()
        self._leased.lose(error)

    def wake(self) -> None:
        """Makes it check whether to stop; from any thread."""
        self._events.wake.set()

    def _run_once(self) -> ExitStatus:
        self._lease = lease = self._make_lease(self._leased.lose)
        return self._leased.run(lease, lambda: self._take(lease), lambda: self._run_leased(lease))

    def _take(self, lease: LeaseRenewer) -> bool:
        """Takes the lease. An instance that may wait for it starts Spark before, except on a cluster."""
        if self._run_options.wait_for_lease:
            start_before_lease(lambda: check_stream(self._metastore, self._stream), self._shared.start_first)
        return self._acquire_lease(lease)

    def _acquire_lease(self, lease: LeaseRenewer) -> bool:
        """Takes the lease, and waits for it if necessary; False when stopped meanwhile."""
        shared = self._shared
        return lease.acquire(
            wait=self._run_options.wait_for_lease,
            stopping=shared.stopping,
            wake=self._events.wake,
            in_turn=shared.request_in_turn,
            on_wait=lambda: shared.prepare(self._log),
        )

    def _run_leased(self, lease: LeaseRenewer) -> None:
        try:
            self._progress.lead(lease.epoch)
            check_stream(self._metastore, self._stream)
            sink = make_sink(self._stream, lease)
            spark = self._shared.spark()

            def step() -> None:
                lease.check()
                self._progress.running()
                self._follow(spark, sink, lease)

            self._leased.repeat(step)
        finally:
            self._shared.release()

    def _follow(self, spark: SparkSession, sink: SinkWriter, lease: LeaseRenewer) -> None:
        """Runs batches until everything is read (`available_now`), a failure, or the end."""

        def start(write_batch: WriteBatch) -> StreamingQuery:
            with self._shared.starting:
                query = self._start_query(spark, write_batch)
                self._wait_for_start(query)
            return query

        def write(batch: DataFrame, batch_id: int) -> None:
            lease.check()
            sink.write(batch, batch_id)

        self._leased.drive(start, write, on_poll=self._see, is_noted=_is_noted)

    def _start_query(self, spark: SparkSession, write_batch: WriteBatch) -> StreamingQuery:
        rows = spark.readStream.format("lakelog").options(**to_options(self._stream)).load()
        stream = (
            rows.writeStream.queryName(self._stream.name)
            .foreachBatch(write_batch)
            .option("checkpointLocation", self._stream.checkpoint.as_uri())
        )
        return start_query(stream, None if self._run_options.once else self._stream.interval_s)

    def _wait_for_start(self, query: StreamingQuery) -> None:
        give_up_s = self._clock.monotonic_s() + _START_WITHIN_S
        while query.isActive and not self._events.is_ending and self._clock.monotonic_s() < give_up_s:
            if not query.status["message"].startswith("Initializing"):
                return
            self._events.wake.wait(POLL_EVERY_S)

    def _see(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            listener: Any = progress
            if listener["sources"] and listener["sources"][0]["endOffset"]:
                self._progress.see(listener)


def _is_noted(query: StreamingQuery) -> bool:
    """Whether Spark has recorded that the batch is done; otherwise Spark repeats it."""
    return not query.status["isTriggerActive"] or query.status["message"].startswith("Waiting")
