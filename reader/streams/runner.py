"""Running a stream: take the lease, let Spark do batch after batch, end in good order.

    lease -> checks -> stream of batches -> end
      ^        ^            | metastore away for a while: wait, begin again at the batch in hand
      |        +------------+
      +---- another instance has taken over: wait until it ends

A signal ends it from outside (finish the batch in hand, then stop), and so does the loss of the lease (stop at once;
whatever is in hand is refused by the commit's fence, or left under the name of a draft).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.client.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError, Unavailable
from lakelog.serving.batch_gate import Gate
from lakelog.serving.lease import LEASE_HELD, LeaseKeeper
from lakelog.serving.logs import Log
from lakelog.spark.task_errors import find_lakelog_error

from .checking import check_stream, to_options
from .ending import Ending, may_pass, to_ending
from .progress import StreamProgress
from .sinks import SinkWriter, make_sink
from .spec import Stream

_LOOK_EVERY_S: Final = 0.2
"""How often the running query is looked at; what ends it is noticed after that at most."""

_CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's word for a checkpoint into which two queries write."""

_NO_WORKER: Final = "failed to connect back"
"""Spark's words for a process of Python that did not start in time."""

_START_WITHIN_S: Final = 60.0
_LOG_WITHIN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_SHARE_PAUSE_S: Final = 0.5
"""For each stream that an instance runs it lets others go first for so long, so that they share what is there."""

_LONGEST_SHARE_PAUSE_S: Final = 2.0
_LEASE_EVERY_S: Final = 2.0
"""Between two tries to take a lease that another holds; a released one is noticed after that."""


class Shared:
    """What the streams of one process share. Threads may share it.

    Args:
        start_spark: Makes the session.
    """

    def __init__(self, start_spark: Callable[[], SparkSession]) -> None:
        self.stopping: Final = threading.Event()
        """Finish the batches in hand, then end."""
        self._start_spark = start_spark
        self._spark: SparkSession | None = None
        self.starting: Final = threading.Lock()
        """Held while a query starts: each starts processes of Python, which on a busy machine give up too early."""
        self.leasing: Final = threading.Lock()
        """Held while a lease is tried, so that leases are taken one after the other."""
        self._lock = threading.Lock()
        self._leases = 0

    def spark(self) -> SparkSession:
        """The session; made when a stream first needs it, so that an instance that waits costs little."""
        with self._lock:
            if self._spark is None:
                self._spark = self._start_spark()
            return self._spark

    def pause_s(self) -> float:
        """How long to let others go first."""
        return min(self._leases * _SHARE_PAUSE_S, _LONGEST_SHARE_PAUSE_S)

    def count_lease(self, change: int) -> None:
        """Notes that a lease was taken or given back."""
        with self._lock:
            self._leases += change


@dataclass(frozen=True)
class RunTerms:
    """How streams are run.

    Args:
        once: A stream ends when all that is there is read.
        wait_for_lease: Whether to wait for other instances.
        patience_s: How long failures that may pass are borne before they end a stream.
    """

    once: bool
    wait_for_lease: bool
    patience_s: float


class StreamRunner:
    """Runs a stream until its end.

    Args:
        stream: The stream.
        terms: How it is run.
        shared: With the other streams of the process.
        metastore: Who knows the tables.
        make_lease: Makes the lease's keeper, which calls back when it is lost.
        progress: Where it is told how far the stream is.
        clock: For the time.
        log: For lines.
    """

    def __init__(
        self,
        stream: Stream,
        terms: RunTerms,
        shared: Shared,
        *,
        metastore: Metastore,
        make_lease: Callable[[Callable[[LakelogError], None]], LeaseKeeper],
        progress: StreamProgress,
        clock: Clock,
        log: Log,
    ) -> None:
        self._stream = stream
        self._terms = terms
        self._shared = shared
        self._metastore = metastore
        self._make_lease = make_lease
        self._progress = progress
        self._clock = clock
        self._log = log
        self._lost = threading.Event()
        self._wake = threading.Event()
        self._lost_error: LakelogError | None = None
        self._batch_error: BaseException | None = None
        self._went_well_s = 0.0

    def run(self) -> Ending:
        """Runs until the end; errors are logged and reported, never raised."""
        while True:
            ending = self._run_once()
            is_over = self._terms.once or not self._terms.wait_for_lease or self._shared.stopping.is_set()
            if ending is not Ending.FENCED or is_over:
                return ending

    def wake(self) -> None:
        """Has it look whether it is to stop; from any thread."""
        self._wake.set()

    def _run_once(self) -> Ending:
        self._lost.clear()
        self._lost_error = None
        lease = self._make_lease(self._lose)
        error: BaseException | None = None
        try:
            if not self._take_lease(lease):
                return Ending.FINE
            try:
                self._run_leased(lease)
            finally:
                self._shared.count_lease(-1)
        except Exception as caught:
            error = caught
        if self._lost_error is not None:
            error = self._lost_error
        ending = Ending.FINE if error is None else to_ending(error)
        self._progress.ended(error)
        if error is None:
            self._log.info("stream stopped")
        else:
            known = isinstance(error, LakelogError)
            self._log.error("stream failed", exit_code=int(ending), ending=ending.name, error=str(error),
                            **({} if known else {"exc_info": error}))  # fmt: skip
        lease.release()
        return ending

    def _take_lease(self, lease: LeaseKeeper) -> bool:
        """Takes the lease, waiting for it if need be; False when told to stop meanwhile."""
        shared, told = self._shared, ""
        while not shared.stopping.is_set():
            with shared.leasing:
                shared.stopping.wait(shared.pause_s())
                try:
                    if lease.acquire(wait=False, stopping=shared.stopping):
                        shared.count_lease(1)
                        return True
                except Unavailable as error:
                    if error.reason != LEASE_HELD or not self._terms.wait_for_lease:
                        raise
                    holder = error.metadata.get("holder", "")
                else:
                    continue
            if told != holder:
                told = holder
                self._log.info("waiting for the lease", lease=self._stream.lease, holder=holder)
            shared.stopping.wait(_LEASE_EVERY_S)
        return False

    def _lose(self, error: LakelogError) -> None:
        self._lost_error = error
        self._lost.set()
        self._wake.set()

    def _run_leased(self, lease: LeaseKeeper) -> None:
        self._progress.lead(lease.epoch)
        # Before Spark is started, which takes long: what does not fit is told at once.
        check_stream(self._metastore, self._stream)
        sink = make_sink(self._stream, lease)
        spark = self._shared.spark()
        self._went_well_s = self._clock.monotonic_s()
        pause_s = _FIRST_PAUSE_S
        while not self._is_ending():
            try:
                lease.check()
                self._progress.running()
                self._follow(spark, sink, lease)
                return
            except Exception as error:
                silent_s = self._clock.monotonic_s() - self._went_well_s
                if self._lost.is_set() or not may_pass(error) or silent_s > self._terms.patience_s:
                    raise
                self._log.warning("batch failed, will be repeated", error=str(error), in_s=pause_s)
                self._progress.failed_for_now(error)
            self._wake.wait(pause_s)
            self._wake.clear()
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _follow(self, spark: SparkSession, sink: SinkWriter, lease: LeaseKeeper) -> None:
        """Lets batches run until all is read (`available_now`), a failure, or the end."""
        self._batch_error = None
        gate = Gate()

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            with gate:
                try:
                    lease.check()
                    sink.write(batch, batch_id)
                except BaseException as error:
                    self._batch_error = error
                    raise
                self._went_well_s = self._clock.monotonic_s()

        with self._shared.starting:
            query = self._start_query(spark, write_batch)
            self._wait_for_start(query)
        try:
            while query.isActive and not self._is_ending():
                self._wake.wait(_LOOK_EVERY_S)
                self._see(query)
        finally:
            if not self._lost.is_set():
                gate.close()
                self._wait_for_log(query)
            # Where the lease is lost, what is in hand can no longer be committed: no need to let it finish.
            query.stop()
            self._see(query)
        self._raise_failure(query)

    def _start_query(self, spark: SparkSession, write_batch: Callable[[DataFrame, int], None]) -> StreamingQuery:
        rows = spark.readStream.format("lakelog").options(**to_options(self._stream)).load()
        stream = (
            rows.writeStream.queryName(self._stream.name)
            .foreachBatch(write_batch)
            .option("checkpointLocation", self._stream.checkpoint.as_uri())
        )
        interval_s = self._stream.interval_s
        if self._terms.once or interval_s is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{int(interval_s * 1000)} milliseconds").start()

    def _wait_for_start(self, query: StreamingQuery) -> None:
        give_up_s = self._clock.monotonic_s() + _START_WITHIN_S
        while query.isActive and not self._is_ending() and self._clock.monotonic_s() < give_up_s:
            if not query.status["message"].startswith("Initializing"):
                return
            self._wake.wait(_LOOK_EVERY_S)

    def _wait_for_log(self, query: StreamingQuery) -> None:
        """Gives Spark the time to note that the batch is done; without it the batch is repeated."""
        give_up_s = self._clock.monotonic_s() + _LOG_WITHIN_S
        while query.isActive and self._clock.monotonic_s() < give_up_s:
            if not query.status["isTriggerActive"] or query.status["message"].startswith("Waiting"):
                return
            self._clock.sleep(_LOOK_EVERY_S / 4)

    def _see(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            told: Any = progress
            if told["sources"] and told["sources"][0]["endOffset"]:
                self._progress.see(told)

    def _raise_failure(self, query: StreamingQuery) -> None:
        if self._batch_error is not None:
            raise self._batch_error
        failure = query.exception()
        if failure is None or self._is_ending():
            return
        known = find_lakelog_error(failure)
        if known is None and _CONCURRENT in str(failure):
            known = Unavailable(
                f"Another process wrote into the checkpoint {self._stream.checkpoint} at the same time, as an instance "
                "does that was frozen and goes on. The lease tells who may; the batch is repeated."
            )
        if known is None and _NO_WORKER in str(failure):
            known = Unavailable("A process of Python that Spark needs did not start in time: the machine is too busy.")
        raise known or failure

    def _is_ending(self) -> bool:
        return self._shared.stopping.is_set() or self._lost.is_set()
