"""Runs a stream in Spark under a lease: acquire it, do batch after batch, end in good order.

    lease -> checks -> batches -> end
                    ^          | failures that may pass: wait, restart at the current batch
               +----------+

A signal ends the stream from outside: it finishes the current batch, then stops. The loss of the lease stops it at
once; the commit's fence then refuses the current batch. The caller decides what the stream checks, reads and writes.
Streams to sinks let a streaming query of Spark do the batches (`drive`); pipelines do them themselves.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from lakelog.clock import Clock
from lakelog.errors import LakelogError, Unavailable
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.batch_gate import Gate
from lakelog.serving.streams.bridge_logging import hold_back_traces
from lakelog.serving.streams.exit_status import may_pass
from lakelog.spark.session.engine_logging import hush_engine
from lakelog.spark.task_errors import find_lakelog_error, find_unreadable_file, in_one_line, is_from_java

if TYPE_CHECKING:
    # The module that starts the query imports Spark itself.
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteBatch: TypeAlias = "Callable[[DataFrame, int], None]"
"""Does a batch, known by its number; blocks until it is durable."""

POLL_EVERY_S: Final = 0.2
"""The time between polls of the running query; so long its end may stay unnoticed."""

_CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's word for a checkpoint that two queries write to."""

_NO_WORKER: Final = "failed to connect back"
"""Spark's words for a Python process that did not start in time."""

_WAITS: Final = "Waiting for"
"""The beginning of Spark's message for a query without work (`... data to arrive`, `... next trigger`)."""

_NOTED_WITHIN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0

E = TypeVar("E", bound=enum.IntEnum)


@dataclass(frozen=True)
class Events:
    """Signals to a running stream from other threads. Several streams may share `stopping`."""

    stopping: threading.Event = field(default_factory=threading.Event)
    """Finish the current batch, then end."""
    lost: threading.Event = field(default_factory=threading.Event)
    """The lease is lost, or the metastore silent for too long: end at once."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Something happened: check all state."""

    @property
    def is_ending(self) -> bool:
        """Whether no further batch may begin."""
        return self.stopping.is_set() or self.lost.is_set()


class StreamListener(Protocol):
    """Gets the failures and the end of a stream."""

    def failed_for_now(self, error: BaseException) -> None:
        """A batch failed and will be tried again."""

    def ended(self, error: BaseException | None) -> None:
        """The stream is over; None: in good order."""


class LeasedStream(Generic[E]):
    """Runs a stream, once or repeatedly, each time under a lease.

    Args:
        name: What runs, for people, for instance `pipeline 'orders'`.
        checkpoint: Where progress is stored, for people.
        events: Signals from outside.
        listener: Gets failures and the end.
        fine: The exit status for a good end.
        to_exit_status: The exit status for an error.
        max_unavailable_s: How long passing failures may last before they end the stream.
        clock: Gives the time.
        log: Gets the lines.
        log_subject: What ends, in the log, if a process runs several streams; empty: the process itself.
    """

    def __init__(
        self,
        name: str,
        checkpoint: Path,
        *,
        events: Events,
        listener: StreamListener,
        fine: E,
        to_exit_status: Callable[[BaseException], E],
        max_unavailable_s: float,
        clock: Clock,
        log: Logger,
        log_subject: str = "",
    ) -> None:
        self._name = name
        self._checkpoint = checkpoint
        self._events = events
        self._listener = listener
        self._fine = fine
        self._to_exit_status = to_exit_status
        self._max_unavailable_s = max_unavailable_s
        self._clock = clock
        self._log = log
        self._log_subject = log_subject
        self._lost_error: LakelogError | None = None
        self._batch_error: BaseException | None = None
        self._went_well_s = 0.0

    def lose(self, error: LakelogError) -> None:
        """Notes that the lease is lost, or what the work needs; any thread may call it."""
        self._lost_error = error
        self._events.lost.set()
        self._events.wake.set()

    def run(self, lease: LeaseRenewer, take: Callable[[], bool], work: Callable[[], None]) -> E:
        """Acquires the lease, works under it and releases it; logs and reports errors, and never raises them.

        Args:
            lease: A lease that is not acquired yet; it calls `lose` when it is lost.
            take: Acquires it; returns False if stopped meanwhile.
            work: The work under the lease.
        """
        self._lost_error = None
        self._events.lost.clear()
        # An earlier run's wake-up must not wake this one; a stop that arrives meanwhile is seen before the wait.
        self._events.wake.clear()
        error: BaseException | None = None
        try:
            if take():
                work()
            elif self._lost_error is None:
                self._log.info("stopped before the lease was taken")
                return self._fine
        except Exception as caught:
            error = caught
        if self._lost_error is not None:
            error = self._lost_error
        exit_status = self._fine if error is None else self._to_exit_status(error)
        self._listener.ended(error)
        if error is None:
            self._log.info(f"{self._log_subject} stopped".lstrip())
        else:
            # Spark's own log has the errors from Java with their traces.
            is_expected = isinstance(error, LakelogError) or is_from_java(error)
            self._log.error(f"{self._log_subject} failed".lstrip(), exit_code=int(exit_status),
                            exit_status=exit_status.name,
                            error=in_one_line(error), **({} if is_expected else {"exc_info": error}))  # fmt: skip
        lease.release()
        return exit_status

    def repeat(self, step: Callable[[], None]) -> None:
        """Does a step until it returns or the stream ends; restarts it after failures that may pass.

        A repeated batch is applied once all the same, since its commit carries its number.
        """
        self._went_well_s = self._clock.monotonic_s()
        pause_s = _FIRST_PAUSE_S
        while not self._events.is_ending:
            try:
                step()
                return
            except Exception as error:
                silent_s = self._clock.monotonic_s() - self._went_well_s
                if self._events.lost.is_set() or not may_pass(error) or silent_s > self._max_unavailable_s:
                    raise
                self._log.warning("failed, will be repeated", error=in_one_line(error), in_s=pause_s)
                self._listener.failed_for_now(error)
            self._events.wake.wait(pause_s)
            self._events.wake.clear()
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def note_well(self) -> None:
        """Notes that all is well, if without a batch: a later failure then has the whole time before it."""
        self._went_well_s = self._clock.monotonic_s()

    def drive(
        self,
        start: Callable[[WriteBatch], StreamingQuery],
        write: WriteBatch,
        on_poll: Callable[[StreamingQuery], None],
        is_noted: Callable[[StreamingQuery], bool],
    ) -> None:
        """Runs batches until the source is empty (if the query ends then), a failure, or the end.

        Args:
            start: Starts the query, which hands each of its batches to the given function.
            write: Does a batch.
            on_poll: Called repeatedly while the query runs, and once after its end.
            is_noted: Whether Spark has recorded the last batch as done; otherwise the batch is repeated.

        Raises:
            Exception: The error of a batch, or of the query.
        """
        self._batch_error = None
        gate = Gate(self._name)
        hold_back_traces()

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            with gate:
                try:
                    write(batch, batch_id)
                except BaseException as error:
                    self._batch_error = error
                    raise
                self._went_well_s = self._clock.monotonic_s()

        query = start(write_batch)
        try:
            while query.isActive and not self._events.is_ending:
                self._events.wake.wait(POLL_EVERY_S)
                # It can be set long after the lease was taken: when the lock of the checkpoint comes.
                self._events.wake.clear()
                on_poll(query)
                # A long time without work is no failure.
                if query.status["message"].startswith(_WAITS):
                    self.note_well()
        finally:
            if self._events.stopping.is_set() and query.isActive:
                hush_engine()
            if not self._events.lost.is_set():
                gate.close()
                self._wait_until_noted(query, is_noted)
            # Without the lease the current batch can no longer be committed, so it need not finish.
            query.stop()
            on_poll(query)
        self._raise_failure(query, was_stopped=gate.has_refused)

    def _wait_until_noted(self, query: StreamingQuery, is_noted: Callable[[StreamingQuery], bool]) -> None:
        give_up_s = self._clock.monotonic_s() + _NOTED_WITHIN_S
        while query.isActive and self._clock.monotonic_s() < give_up_s:
            if is_noted(query):
                return
            self._clock.sleep(POLL_EVERY_S / 4)

    def _raise_failure(self, query: StreamingQuery, *, was_stopped: bool) -> None:
        if self._batch_error is not None:
            raise self._batch_error
        failure = query.exception()
        if failure is not None and self._events.stopping.is_set() and not was_stopped:
            # Spark itself was told to be silent. The next run does what is left.
            self._log.warning(f"{self._name} was stopped while it failed", error=in_one_line(failure))
        if failure is None or self._events.is_ending:
            return
        known = find_lakelog_error(failure) or find_unreadable_file(failure)
        if known is None and _CONCURRENT in str(failure):
            known = Unavailable(
                f"Another process wrote into the checkpoint {self._checkpoint} at the same time, as an instance does "
                "that was frozen and goes on. The lease decides which one may; the batch is repeated."
            )
        if known is None and _NO_WORKER in str(failure):
            known = Unavailable("A process of Python that Spark needs did not start in time: the machine is too busy.")
        raise known or failure


def start_query(stream: DataStreamWriter, interval_s: float | None) -> StreamingQuery:
    """Starts a query with a trigger every `interval_s`; None: the query ends when it has read all available data."""
    if interval_s is None:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=f"{int(interval_s * 1000)} milliseconds").start()
