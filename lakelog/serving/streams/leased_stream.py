"""Running a stream in Spark under a lease: take it, let Spark do batch after batch, end in good order.

    lease -> checks -> batches -> end
               ^          | what may pass: wait, begin again at the batch in hand
               +----------+

A signal ends it from outside (finish the batch in hand, then stop), and so does the loss of the lease (stop at once;
whatever is in hand is refused by the commit's fence). What is checked, read and written is for whoever runs the stream.
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
from lakelog.spark.task_errors import find_lakelog_error, in_one_line, is_from_java

if TYPE_CHECKING:
    # Spark itself is imported by whoever starts the query.
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteBatch: TypeAlias = "Callable[[DataFrame, int], None]"
"""Does a batch, known by its number; blocks until it is durable."""

POLL_EVERY_S: Final = 0.2
"""How often the running query is looked at; what ends it is noticed after that at most."""

_CONCURRENT: Final = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's word for a checkpoint into which two queries write."""

_NO_WORKER: Final = "failed to connect back"
"""Spark's words for a process of Python that did not start in time."""

_WAITS: Final = "Waiting for"
"""How Spark's words begin for a query that found nothing to do (`... data to arrive`, `... next trigger`)."""

_NOTED_WITHIN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0

E = TypeVar("E", bound=enum.IntEnum)


@dataclass(frozen=True)
class Events:
    """What is told to a running stream from other threads. `stopping` may be shared with other streams."""

    stopping: threading.Event = field(default_factory=threading.Event)
    """Finish the batch in hand, then end."""
    lost: threading.Event = field(default_factory=threading.Event)
    """The lease is lost, or the metastore silent for too long: end at once."""
    wake: threading.Event = field(default_factory=threading.Event)
    """Something happened: look."""

    @property
    def is_ending(self) -> bool:
        """Whether no batch is to begin any more."""
        return self.stopping.is_set() or self.lost.is_set()


class StreamListener(Protocol):
    """Who is told how a stream is."""

    def failed_for_now(self, error: BaseException) -> None:
        """A batch failed and is tried again."""

    def ended(self, error: BaseException | None) -> None:
        """It is over; None: in good order."""


class LeasedStream(Generic[E]):
    """Runs a stream, once or again and again, each time under a lease.

    Args:
        name: What runs, for people, for instance `pipeline 'orders'`.
        checkpoint: Where Spark keeps how far it is, for people.
        events: From outside.
        listener: Told of failures and the end.
        fine: How it ends in good order.
        to_exit_status: How it ends with an error.
        max_unavailable_s: How long failures that may pass are borne before they end it.
        clock: For the time.
        log: For lines.
        log_subject: Whose end the log tells of, where a process runs several; empty: the process's own.
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
        """Tells that the lease is lost; from any thread."""
        self._lost_error = error
        self._events.lost.set()
        self._events.wake.set()

    def run(self, lease: LeaseRenewer, take: Callable[[], bool], work: Callable[[], None]) -> E:
        """Takes the lease, works under it and gives it back; errors are logged and reported, never raised.

        Args:
            lease: Not yet taken; it calls `lose` when it is lost.
            take: Takes it; False when told to stop meanwhile.
            work: What is done under it.
        """
        self._lost_error = None
        self._events.lost.clear()
        # What ended an earlier run is not to wake this one; who is told to stop meanwhile sees that before it waits.
        self._events.wake.clear()
        error: BaseException | None = None
        try:
            if not take():
                self._log.info("stopped before the lease was taken")
                return self._fine
            work()
        except Exception as caught:
            error = caught
        if self._lost_error is not None:
            error = self._lost_error
        exit_status = self._fine if error is None else self._to_exit_status(error)
        self._listener.ended(error)
        if error is None:
            self._log.info(f"{self._log_subject} stopped".lstrip())
        else:
            # What comes from Java stands with its traces in Spark's own log.
            is_expected = isinstance(error, LakelogError) or is_from_java(error)
            self._log.error(f"{self._log_subject} failed".lstrip(), exit_code=int(exit_status),
                            exit_status=exit_status.name,
                            error=in_one_line(error), **({} if is_expected else {"exc_info": error}))  # fmt: skip
        lease.release()
        return exit_status

    def repeat(self, step: Callable[[], None]) -> None:
        """Does a step until it returns or the stream is to end; from anew after failures that may pass.

        A batch that is repeated is applied once all the same, since its commit bears its number.
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

    def drive(
        self,
        start: Callable[[WriteBatch], StreamingQuery],
        write: WriteBatch,
        on_poll: Callable[[StreamingQuery], None],
        is_noted: Callable[[StreamingQuery], bool],
    ) -> None:
        """Lets batches run until the source is empty (where the query ends then), a failure, or the end.

        Args:
            start: Starts the query, which hands each of its batches to what it is given.
            write: Does a batch.
            on_poll: Called again and again while the query runs, and once behind its end.
            is_noted: Whether Spark knows that the last batch is done; without it the batch is repeated.

        Raises:
            Exception: What a batch raised, or the query ended with.
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
                on_poll(query)
                # Nothing to do for long is no failure: what fails then has all of the patience before it.
                if query.status["message"].startswith(_WAITS):
                    self._went_well_s = self._clock.monotonic_s()
        finally:
            if self._events.stopping.is_set() and query.isActive:
                hush_engine()
            if not self._events.lost.is_set():
                gate.close()
                self._wait_until_noted(query, is_noted)
            # Where the lease is lost, what is in hand can no longer be committed: no need to let it finish.
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
            # Spark itself was told to be silent. What it has not done is done by the next run.
            self._log.warning(f"{self._name} was stopped while it failed", error=in_one_line(failure))
        if failure is None or self._events.is_ending:
            return
        known = find_lakelog_error(failure)
        if known is None and _CONCURRENT in str(failure):
            known = Unavailable(
                f"Another process wrote into the checkpoint {self._checkpoint} at the same time, as an instance does "
                "that was frozen and goes on. The lease tells who may; the batch is repeated."
            )
        if known is None and _NO_WORKER in str(failure):
            known = Unavailable("A process of Python that Spark needs did not start in time: the machine is too busy.")
        raise known or failure


def start_query(stream: DataStreamWriter, interval_s: float | None) -> StreamingQuery:
    """Starts a query that looks for more every `interval_s`; None: that ends when all that is there is read."""
    if interval_s is None:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=f"{int(interval_s * 1000)} milliseconds").start()
